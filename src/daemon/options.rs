//! The command line of `musterd`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::log::Target;

/// The command line of `musterd`.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "musterd",
    version = crate::RELEASE,
    about = "Calls the roll of the agent workers on this machine"
)]
pub struct Options {
    /// A private daemon for this user, under a guardian that outlives it
    #[arg(long)]
    pub embedded: bool,
    /// A user's own instance: its directories and its configuration, without a guardian
    #[arg(long)]
    pub user: bool,
    /// Where the roll is kept
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Where sockets and workers' private directories lie
    #[arg(long, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
    /// The peer-to-peer socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// A message bus to take the name org.muster1 on
    #[arg(long, value_name = "ADDRESS", conflicts_with = "no_bus")]
    pub address: Option<String>,
    /// Serve the socket only
    #[arg(long)]
    pub no_bus: bool,
    /// Read the configuration below this directory
    #[arg(long, value_name = "DIR")]
    pub config_root: Option<PathBuf>,
    /// Executed as root: give that up for this user, but for the needed capabilities
    #[arg(long, value_name = "USER", conflicts_with_all = ["embedded", "user"])]
    pub run_as: Option<String>,
    /// Leave after so much idleness (for example 30s; 0 to stay)
    #[arg(long, value_name = "DURATION", value_parser = crate::config::parse_duration)]
    pub idle_exit: Option<Duration>,
    /// Say "ready" on this descriptor when it serves
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<i32>,
    /// Go on where the image before stopped (set by the daemon itself)
    #[arg(long, value_name = "N", hide = true)]
    pub resume_fd: Option<i32>,
    /// Only say whether this image could take over (set by the daemon itself)
    #[arg(long, value_name = "N", hide = true, conflicts_with = "resume_fd")]
    pub trial_fd: Option<i32>,
    /// Where the log goes: auto, journal or stderr
    #[arg(long, value_name = "TARGET", default_value = "auto")]
    pub log: Target,
}

impl Options {
    /// A user's instance, root's private daemon included, or the system's.
    pub(super) fn is_user(&self) -> bool {
        self.embedded || self.user
    }
}
