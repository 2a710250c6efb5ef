//! What the verbs take that are about the roll and the daemon.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::client::units::parse_span;

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
