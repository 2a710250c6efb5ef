//! Faults of start-up and I/O, each with the exit code of the program (section 13). What a
//! caller is told is another thing: [`Refused`](crate::supervisor::refused::Refused).

use std::io;
use std::path::PathBuf;

use crate::config::ConfigErrors;
use crate::registry::store::StoreError;

/// Exit codes of both programs.
pub mod exit {
    /// Done.
    pub const OK: u8 = 0;
    /// Failed.
    pub const FAILED: u8 = 1;
    /// The command line is wrong.
    pub const USAGE: u8 = 2;
    /// A known worker that does not run.
    pub const NOT_RUNNING: u8 = 3;
    /// No such worker (`status`), or not authorised (actions).
    pub const NO_SUCH_WORKER: u8 = 4;
    /// The same number, read for an action.
    pub const NOT_AUTHORISED: u8 = 4;
    /// An action on an unknown worker.
    pub const UNKNOWN_WORKER: u8 = 5;
    /// The configuration is wrong.
    pub const BAD_CONFIG: u8 = 6;
    /// The daemon cannot be reached; for the daemon, the bus.
    pub const UNREACHABLE: u8 = 7;
    /// Refused by admission.
    pub const REFUSED: u8 = 8;
    /// Timeout.
    pub const TIMEOUT: u8 = 124;
}

/// Why a program ends early. Shown as it is, once, at the edge.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// The configuration; one line a fault.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// Another daemon has this state directory.
    #[error(
        "musterd (pid {pid}) serves {dir} already; stop it or give another --state-dir",
        dir = .dir.display()
    )]
    AlreadyRunning {
        /// The state directory.
        dir: PathBuf,
        /// The holder of its lock.
        pid: i32,
    },
    /// The state directory.
    #[error(transparent)]
    State(#[from] StoreError),
    /// A bus or a socket that cannot be reached or served.
    #[error("{0}")]
    Unreachable(String),
    /// A system call failed.
    #[error("cannot {verb} {path}: {source}", path = .path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Anything else, as a sentence.
    #[error("{0}")]
    Other(String),
}

impl Fault {
    /// A failed system call on a path.
    pub fn io(verb: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Fault {
        let path = path.into();
        move |source| Fault::Io { verb, path, source }
    }

    /// The exit code of the program (section 13).
    pub fn exit_code(&self) -> u8 {
        match self {
            Fault::Usage(_) => exit::USAGE,
            Fault::Config(_) => exit::BAD_CONFIG,
            Fault::Unreachable(_) => exit::UNREACHABLE,
            Fault::AlreadyRunning { .. } | Fault::State(_) | Fault::Io { .. } | Fault::Other(_) => {
                exit::FAILED
            }
        }
    }
}
