//! What `run` takes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::client::units::{parse_percent, parse_signal, parse_size, parse_span, parse_tokens};
use crate::worker::{Control, LeftoversPolicy, Priority, RestartPolicy};

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Free text up to 128 bytes, unique among one's running workers
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Working directory of the worker
    #[arg(short = 'd', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub working_directory: Option<PathBuf>,
    /// The worktree its row protects: a directory, `auto` (the linked worktree it runs in), or `none`
    #[arg(long, value_name = "DIR|auto|none")]
    pub worktree: Option<PathBuf>,
    /// Why it exists: root-turn, step-turn, think, subagent, command, or a label (subagent:HANDLE,
    /// turn:CTX, step:RUN/STEP, think:PURPOSE)
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// A field of the kind: ctx, event, reservation, msg_depth of a root-turn; run, step,
    /// reservation of a step-turn; purpose, ctx, reply_to (NODE:REQUEST), extra (JSON),
    /// reservation of a think; handle of a subagent
    #[arg(long, value_name = "K=V")]
    pub kind_field: Vec<String>,
    /// An environment variable; without a value the caller's own
    #[arg(short = 'E', long = "setenv", value_name = "VAR[=VALUE]")]
    pub setenv: Vec<OsString>,
    /// A login's environment instead of the caller's
    #[arg(long)]
    pub clean_env: bool,
    /// End it after this time
    #[arg(long, value_name = "TIME", value_parser = parse_span, help_heading = "Ending")]
    pub deadline: Option<Duration>,
    /// End it when it has been quiet for so long after a settled turn
    #[arg(long, value_name = "TIME", value_parser = parse_span, help_heading = "Ending")]
    pub idle_timeout: Option<Duration>,
    /// From the cancel frame to the stop signal
    #[arg(long, value_name = "TIME", value_parser = parse_span, help_heading = "Ending")]
    pub grace: Option<Duration>,
    /// From the stop signal to the kill
    #[arg(long, value_name = "TIME", value_parser = parse_span, help_heading = "Ending")]
    pub kill_grace: Option<Duration>,
    /// Signal that asks it to end
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal, help_heading = "Ending")]
    pub stop_signal: Option<i32>,
    /// What happens to processes that outlive it: kill or wait
    #[arg(long, value_name = "kill|wait", help_heading = "Ending")]
    pub leftovers: Option<LeftoversPolicy>,
    /// When to start it again: no, on-failure or always
    #[arg(long, value_name = "no|on-failure|always", help_heading = "Ending")]
    pub restart: Option<RestartPolicy>,
    /// Restarts before it is given up
    #[arg(long, value_name = "N", help_heading = "Ending")]
    pub restart_max: Option<u32>,
    /// Memory it may use
    #[arg(long, value_name = "BYTES", value_parser = parse_size, help_heading = "Limits")]
    pub memory_max: Option<u64>,
    /// Processes and threads it may have
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub tasks_max: Option<u64>,
    /// Share of the CPU, 1 to 10000
    #[arg(long, value_name = "WEIGHT", help_heading = "Limits")]
    pub cpu_weight: Option<u64>,
    /// CPU time it may use, in percent of one CPU
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, help_heading = "Limits")]
    pub cpu_max: Option<u32>,
    /// Nice value
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        help_heading = "Limits"
    )]
    pub nice: Option<i32>,
    /// Tokens it may use, in and out together
    #[arg(long, value_name = "N", value_parser = parse_tokens, help_heading = "Limits")]
    pub tokens_max: Option<u64>,
    /// Who is turned away first under pressure: low, normal or high
    #[arg(long, value_name = "low|normal|high", help_heading = "Limits")]
    pub priority: Option<Priority>,
    /// Control channel: none, frames or notify
    #[arg(long, value_name = "none|frames|notify")]
    pub control: Option<Control>,
    /// JSON for the spawn frame; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub payload: Option<OsString>,
    /// Correlation id for its logs
    #[arg(long, value_name = "ID")]
    pub trace_id: Option<String>,
    /// Temporary files in a directory that goes with the worker
    #[arg(long)]
    pub private_tmp: bool,
    /// Run it as this user (root only)
    #[arg(long, value_name = "UID")]
    pub uid: Option<u32>,
    /// Wait until it has ended, and return its status
    #[arg(short, long, overrides_with = "detach")]
    pub wait: bool,
    /// Return as soon as it runs (the default)
    #[arg(long, conflicts_with_all = ["pipe", "pty"])]
    pub detach: bool,
    /// Give it this terminal's or pipe's input and output; implies --wait
    #[arg(long)]
    pub pipe: bool,
    /// Give it a terminal of its own, shown on this one; implies --wait. Pressing Ctrl-] three
    /// times within a second hangs up, and so does the end of this program
    #[arg(long, conflicts_with_all = ["pipe", "restart"])]
    pub pty: bool,
    /// Fail at once where waiting a little would help
    #[arg(long)]
    pub no_wait: bool,
    /// Program and arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "COMMAND",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}
