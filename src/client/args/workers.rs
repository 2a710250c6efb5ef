//! What the verbs take that look at workers, speak to them or end them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use crate::client::units::{parse_signal, parse_span};
use crate::supervisor::handle::Whom;
use crate::worker::Status;

/// Arguments of `list`.
#[derive(Debug, Clone, Default, Args)]
pub struct ListArgs {
    /// Ended workers too
    #[arg(short, long)]
    pub all: bool,
    /// Only with one of these statuses (comma-separated; implies --all)
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    pub status: Vec<Status>,
    /// Only of this kind (a kind or a label)
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Ids, names or kinds; `*` and `?` match any characters
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
}

/// Arguments of `status`.
#[derive(Debug, Clone, Default, Args)]
pub struct StatusArgs {
    /// Lines of output to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub lines: usize,
    /// Workers; without one the service
    #[arg(value_name = "WORKER")]
    pub workers: Vec<String>,
}

/// Arguments of `show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// Only these properties (comma-separated)
    #[arg(short, long, value_delimiter = ',', value_name = "NAME")]
    pub property: Vec<String>,
    /// Values without their names
    #[arg(long)]
    pub value: bool,
    /// Workers; without one the service
    #[arg(value_name = "WORKER")]
    pub workers: Vec<String>,
}

/// Arguments of `logs`.
#[derive(Debug, Clone, Args)]
pub struct LogsArgs {
    /// Go on until the worker has ended
    #[arg(short, long)]
    pub follow: bool,
    /// Only the last lines
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,
    /// Workers
    #[arg(required = true, value_name = "WORKER")]
    pub workers: Vec<String>,
}

/// Arguments of `monitor`.
#[derive(Debug, Clone, Args)]
pub struct MonitorArgs {
    /// Workers; without one all
    #[arg(value_name = "WORKER")]
    pub workers: Vec<String>,
}

/// Arguments of `cancel`.
#[derive(Debug, Clone, Args)]
pub struct CancelArgs {
    /// Why, for the row and the worker
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// Kill at once instead of asking first
    #[arg(long, visible_alias = "force")]
    pub now: bool,
    /// Leave the workers it asked for alone
    #[arg(long)]
    pub keep_descendants: bool,
    /// Do not wait for the end
    #[arg(long)]
    pub no_block: bool,
    /// Workers
    #[arg(required = true, value_name = "WORKER")]
    pub workers: Vec<String>,
}

/// Arguments of `kill`.
#[derive(Debug, Clone, Args)]
pub struct KillArgs {
    /// The signal
    #[arg(short, long, value_name = "SIGNAL", value_parser = parse_signal, default_value = "SIGTERM")]
    pub signal: i32,
    /// Who gets it: leader, group or all
    #[arg(
        long,
        value_enum,
        value_name = "leader|group|all",
        hide_possible_values = true,
        default_value = "all"
    )]
    pub kill_whom: KillWhom,
    /// Workers
    #[arg(required = true, value_name = "WORKER")]
    pub workers: Vec<String>,
}

/// Whom `kill` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KillWhom {
    /// The leader alone.
    #[value(alias = "main")]
    Leader,
    /// Its process group.
    Group,
    /// Every process of the worker.
    All,
}

impl From<KillWhom> for Whom {
    fn from(whom: KillWhom) -> Whom {
        match whom {
            KillWhom::Leader => Whom::Leader,
            KillWhom::Group => Whom::Group,
            KillWhom::All => Whom::All,
        }
    }
}

/// Arguments of `send`.
#[derive(Debug, Clone, Args)]
pub struct SendArgs {
    /// A message for it: JSON; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with = "what")]
    pub inject: Option<OsString>,
    /// The worker
    #[arg(value_name = "WORKER")]
    pub worker: String,
    /// pause: stop after the step at hand; resume: go on
    #[arg(
        value_enum,
        value_name = "pause|resume",
        hide_possible_values = true,
        required_unless_present = "inject"
    )]
    pub what: Option<SendWhat>,
}

/// What `send` says besides a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SendWhat {
    /// Stop after the step at hand.
    Pause,
    /// Go on.
    Resume,
}

/// Arguments of verbs that only take workers.
#[derive(Debug, Clone, Args)]
pub struct WorkersArgs {
    /// Workers
    #[arg(required = true, value_name = "WORKER")]
    pub workers: Vec<String>,
}

/// Arguments of `wait`.
#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    /// Until the first of them has ended
    #[arg(long)]
    pub any: bool,
    /// Give up after this time, with exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub timeout: Option<Duration>,
    /// Workers
    #[arg(required = true, value_name = "WORKER")]
    pub workers: Vec<String>,
}

/// Arguments of `adopt`.
#[derive(Debug, Clone, Args)]
pub struct AdoptArgs {
    /// Free text up to 128 bytes, unique among one's running workers
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The worktree its row protects: a directory, `auto` (the linked worktree it works in), or `none`
    #[arg(long, value_name = "DIR|auto|none", value_hint = ValueHint::DirPath)]
    pub worktree: Option<PathBuf>,
    /// Why it exists: root-turn, step-turn, think, subagent, command, or a label
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// A field of the kind, as for `run`
    #[arg(long, value_name = "K=V")]
    pub kind_field: Vec<String>,
    /// The process
    #[arg(value_name = "PID")]
    pub pid: u32,
}

/// Arguments of `report`.
#[derive(Debug, Clone, Default, Args)]
#[group(required = true, multiple = true)]
pub struct ReportArgs {
    /// Tokens that went into the model since the last report
    #[arg(long, value_name = "N")]
    pub input: Option<u64>,
    /// Tokens that came out of the model since the last report
    #[arg(long, value_name = "N")]
    pub output: Option<u64>,
    /// The turn is done
    #[arg(long, conflicts_with = "failed")]
    pub turn_done: bool,
    /// The work has failed, and why
    #[arg(long, value_name = "TEXT")]
    pub failed: Option<OsString>,
    /// What it is doing, for `status`
    #[arg(long, value_name = "TEXT")]
    pub status: Option<String>,
    /// It gets on
    #[arg(long)]
    pub progress: bool,
}

/// Arguments of `tree`.
#[derive(Debug, Clone, Default, Args)]
pub struct TreeArgs {
    /// Ended workers too
    #[arg(short, long)]
    pub all: bool,
}
