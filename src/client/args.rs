//! The command line of `musterctl`, once: the parser, `--help`, completions and man pages all
//! come from here ([`command`]). Section 13.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};

use super::units::{parse_percent, parse_signal, parse_size, parse_span};
use crate::supervisor::handle::Whom;
use crate::worker::{Control, LeftoversPolicy, Priority, RestartPolicy, Status};

const AFTER_HELP: &str = "\
A WORKER is an id, a name, subagent:HANDLE or a unique beginning of an id.

Without --system, --user, --socket, --address, -H or -M the daemon is: inside a worker the one
that started it; else /run/musterd.sock; else the user service's socket; else a private daemon
of this user, which is started when there is none.

Exit codes: 0 done, 1 failed, 2 usage, 3 known but not running, 4 no such worker (status) or not
authorised, 5 action on an unknown worker, 6 bad configuration, 7 daemon cannot be reached,
8 refused, 124 timeout. `run --wait` and `wait` return the worker's own status, 128+n for signal
n. With several workers the highest code is returned.";

/// Calls the roll of the agent workers: starts, watches, ends and collects them.
#[derive(Debug, Parser)]
#[command(name = "musterctl", version = crate::RELEASE, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    /// Options that every verb takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do; `list` without one.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// Options that every verb takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Talk to the system's daemon over the system bus
    #[arg(long, global = true, group = "daemon")]
    pub system: bool,
    /// Talk to this user's daemon: the user service, or a private one
    #[arg(long, global = true, group = "daemon")]
    pub user: bool,
    /// Talk to the daemon over the bus at this D-Bus address
    #[arg(long, global = true, group = "daemon", value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Talk to the daemon that listens on this socket
    #[arg(long, global = true, group = "daemon", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Talk to the daemon of another machine, by ssh
    #[arg(
        short = 'H',
        long,
        global = true,
        group = "daemon",
        value_name = "[USER@]HOST"
    )]
    pub host: Option<String>,
    /// Talk to the daemon in a local container
    #[arg(
        short = 'M',
        long,
        global = true,
        group = "daemon",
        value_name = "CONTAINER"
    )]
    pub machine: Option<String>,
    /// JSON instead of tables
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "pretty|short|off",
        hide_possible_values = true
    )]
    pub json: Option<JsonMode>,
    /// Same as --json=pretty on a terminal, --json=short otherwise
    #[arg(short = 'j', global = true)]
    pub json_auto: bool,
    /// No header and no footer
    #[arg(long, global = true)]
    pub no_legend: bool,
    /// Do not pipe output into a pager
    #[arg(long, global = true)]
    pub no_pager: bool,
    /// Never ask for a password
    #[arg(long, global = true)]
    pub no_ask_password: bool,
    /// Say less; `run` prints the id alone
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Colours
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "auto|always|never",
        hide_possible_values = true
    )]
    pub color: Option<ColorMode>,
}

/// Shape of JSON output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum JsonMode {
    /// Indented.
    Pretty,
    /// One line.
    Short,
    /// Tables for people.
    Off,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    /// On a terminal.
    Auto,
    /// Also in a pipe.
    Always,
    /// Never.
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List workers (the default verb)
    #[command(visible_aliases = ["ls", "ps"])]
    List(ListArgs),
    /// Start a worker
    ///
    /// Prints how to look at it and returns once the program has been executed. With --wait it
    /// stays until the worker has ended and returns the worker's own status: Ctrl-C then cancels
    /// the worker and goes on waiting, a second Ctrl-C goes straight to the kill, a third one
    /// leaves it to the daemon.
    #[command(visible_alias = "spawn")]
    Run(Box<RunArgs>),
    /// Show the state of the service or of workers, for people
    ///
    /// Exit code 3 if a worker is not running, 4 if there is none.
    Status(StatusArgs),
    /// Show everything known of workers, as KEY=VALUE
    Show(ShowArgs),
    /// Print what workers have written
    Logs(LogsArgs),
    /// Print every change of a worker as it happens
    Monitor(MonitorArgs),
    /// End workers with everything they started, and wait until that is done
    Cancel(CancelArgs),
    /// Send a signal
    Kill(KillArgs),
    /// Pass a word on to a worker that has a control channel
    Send(SendArgs),
    /// Freeze workers
    Freeze(WorkersArgs),
    /// Thaw frozen workers
    Thaw(WorkersArgs),
    /// Wait until workers have ended; returns their status
    Wait(WaitArgs),
    /// Take dead rows off the roll that nothing can be lost by
    Reap(ReapArgs),
    /// Keep rows on the roll until they are released
    Hold(WorkersArgs),
    /// Undo hold
    Release(WorkersArgs),
    /// Take dead rows off the roll now
    Forget(ForgetArgs),
    /// Bring back rows that were reaped or forgotten
    Restore(WorkersArgs),
    /// Put a process that somebody else started on the roll
    ///
    /// Its row lives and dies with the process. musterd signals it only when it is cancelled or
    /// killed by name; a drain, the end of the service and the end of a parent leave it alone.
    Adopt(AdoptArgs),
    /// Say something of the worker this runs in: tokens used, what it does, that a turn is done
    ///
    /// For an agent's own hooks. The worker is the one this program runs inside of, whatever the
    /// environment says; outside of one it fails.
    Report(ReportArgs),
    /// Show workers below who asked for them, with their processes
    Tree(TreeArgs),
    /// Take no new workers, end those there are, and wait until that is done
    Drain(DrainArgs),
    /// Take new workers again
    Resume,
    /// Print or set what the daemon logs
    LogLevel(LogLevelArgs),
    /// Read the configuration again and go on with the installed program; no worker ends
    Reload,
    /// Print the service's counters as OpenMetrics text
    ///
    /// Workers by status, ends by outcome, ladders, refusals, sweeps, tokens, the lag of the
    /// event loop. Made for a textfile collector; nothing listens on a port.
    Metrics,
    /// List all faults of the configuration files
    CheckConfig(CheckConfigArgs),
    /// Print the version
    Version,
}

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
    /// A field of the kind
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
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub tokens_max: Option<std::num::NonZeroU64>,
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

/// Arguments of `reap`.
#[derive(Debug, Clone, Args)]
pub struct ReapArgs {
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Another grace than the configured one
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub grace: Option<Duration>,
    /// Only these workers
    #[arg(value_name = "WORKER")]
    pub workers: Vec<String>,
}

/// Arguments of `forget`.
#[derive(Debug, Clone, Args)]
pub struct ForgetArgs {
    /// Also with uncommitted work in the worktree, or a worktree that could not be looked at; an
    /// adopted process that runs goes off the roll and is left alone
    #[arg(long)]
    pub force: bool,
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
    /// A field of the kind
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
    pub failed: Option<String>,
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

/// Arguments of `drain`.
#[derive(Debug, Clone, Args)]
pub struct DrainArgs {
    /// Why, for the rows and the log
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// Let the workers finish instead of ending them
    #[arg(long)]
    pub wait: bool,
    /// The daemon ends once no worker is left
    #[arg(long)]
    pub exit: bool,
    /// Return as soon as admission is closed
    #[arg(long)]
    pub no_block: bool,
}

/// Arguments of `log-level`.
#[derive(Debug, Clone, Args)]
pub struct LogLevelArgs {
    /// err, warning, info or debug; without one the level is printed
    #[arg(value_name = "LEVEL")]
    pub level: Option<String>,
}

/// Arguments of `check-config`.
#[derive(Debug, Clone, Args)]
pub struct CheckConfigArgs {
    /// Take configuration files below this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub config_root: Option<PathBuf>,
}

/// The definition, for completions and man pages.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("musterctl").chain(words.iter().copied()))
    }

    fn run(words: &[&str]) -> RunArgs {
        match parse(words).unwrap().verb {
            Some(Verb::Run(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn no_verb_is_list_and_aliases_are_known() {
        assert!(parse(&[]).unwrap().verb.is_none());
        for verb in ["list", "ls", "ps"] {
            assert!(
                matches!(parse(&[verb, "-a"]).unwrap().verb, Some(Verb::List(l)) if l.all),
                "{verb}"
            );
        }
        assert_eq!(run(&["spawn", "true"]).command, ["true"]);
    }

    #[test]
    fn the_first_free_word_of_run_begins_the_command() {
        let args = run(&["run", "--name", "x", "sh", "-c", "exit 3", "--name", "y"]);
        assert_eq!(args.name.as_deref(), Some("x"));
        assert_eq!(args.command, ["sh", "-c", "exit 3", "--name", "y"]);
        assert_eq!(run(&["run", "--", "-odd"]).command, ["-odd"]);
        let args = run(&["run", "--", "grep", "--", "-x", "-j"]);
        assert_eq!(args.command, ["grep", "--", "-x", "-j"]);
    }

    #[test]
    fn every_option_of_run_is_taken() {
        let args = run(&[
            "run",
            "--name=n",
            "--worktree=/w",
            "--kind=subagent",
            "--kind-field=handle=h",
            "--deadline=1h",
            "--idle-timeout=5min",
            "--memory-max=512M",
            "--tasks-max=64",
            "--cpu-weight=50",
            "--cpu-max=150%",
            "--nice=-5",
            "--tokens-max=1000",
            "--restart=on-failure",
            "--restart-max=2",
            "--control=frames",
            "--payload={}",
            "--wait",
            "--pipe",
            "--private-tmp",
            "--no-wait",
            "-d",
            "/d",
            "-E",
            "A=b",
            "-E",
            "C",
            "--clean-env",
            "--grace=1s",
            "--kill-grace=2s",
            "--stop-signal=INT",
            "--leftovers=wait",
            "--priority=low",
            "--trace-id=t",
            "--",
            "cmd",
            "arg",
        ]);
        assert_eq!(args.memory_max, Some(512 << 20));
        assert_eq!(args.cpu_max, Some(150));
        assert_eq!(args.nice, Some(-5));
        assert_eq!(args.stop_signal, Some(2));
        assert_eq!(args.kind, Some("subagent".to_owned()));
        assert_eq!(args.restart, Some(RestartPolicy::OnFailure));
        assert_eq!(args.setenv, ["A=b", "C"]);
        assert_eq!(args.working_directory, Some("/d".into()));
        assert!(args.wait && args.pipe && args.no_wait && args.private_tmp && args.clean_env);
    }

    #[test]
    fn global_options_stand_before_and_after_the_verb() {
        let cli = parse(&[
            "--json=short",
            "reap",
            "--dry-run",
            "--socket=/s",
            "--no-legend",
        ])
        .unwrap();
        assert_eq!(cli.global.json, Some(JsonMode::Short));
        assert_eq!(cli.global.socket, Some("/s".into()));
        assert!(cli.global.no_legend);
    }

    #[test]
    fn bad_lines_are_usage_errors() {
        for words in [
            &["nosuch"][..],
            &["run"],
            &["run", "--nice", "x", "true"],
            &["run", "--deadline", "5x", "true"],
            &["run", "--detach", "--pipe", "true"],
            &["cancel"],
            &["send", "a"],
            &["send", "a", "stop"],
            &["send", "a", "pause", "--inject", "1"],
            &["wait", "--timeout=x", "a"],
            &["kill", "-s", "NOSUCH", "a"],
            &["--system", "--user", "list"],
            &["list", "--json=xml"],
            &["list", "--status=nosuch"],
        ] {
            let error = parse(words).expect_err(&format!("{words:?}"));
            assert_eq!(error.exit_code(), 2, "{words:?}");
        }
    }
}
