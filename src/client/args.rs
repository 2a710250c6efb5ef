//! The command line of `musterctl`, once: the parser, `--help`, completions and man pages all
//! come from here ([`command`]). Section 13.

mod run;
mod service;
#[cfg(test)]
mod tests;
mod workers;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};

pub use run::RunArgs;
pub use service::{CheckConfigArgs, DrainArgs, ForgetArgs, LogLevelArgs, ReapArgs};
pub use workers::{
    AdoptArgs, CancelArgs, KillArgs, KillWhom, ListArgs, LogsArgs, MonitorArgs, ReportArgs,
    SendArgs, SendWhat, ShowArgs, StatusArgs, TreeArgs, WaitArgs, WorkersArgs,
};

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

/// The definition, for completions and man pages.
pub fn command() -> clap::Command {
    Cli::command()
}
