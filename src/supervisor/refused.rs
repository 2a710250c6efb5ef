//! Why a call was not carried out: an answer with its reason, never a crash.

use super::handle::Right;
use crate::worker::{SpecError, Status, WorkerId};

/// A "no" or a "not yet". The bus layer gives each its error name, the client its exit code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing on the roll answers to it.
    #[error("no worker {0:?} on the roll")]
    NoSuchWorker(String),
    /// No reaped row answers to it.
    #[error("no row {0:?} among those taken off the roll; they are kept for a while only")]
    NoSuchReaped(String),
    /// Several rows answer to it.
    #[error("{worker:?} may mean {}", list(.candidates))]
    Ambiguous {
        /// What was asked for.
        worker: String,
        /// At most 16 ids.
        candidates: Vec<WorkerId>,
    },
    /// The caller needs a right it was not granted.
    #[error("not authorised: this needs {0:?}")]
    NeedsRight(Right),
    /// Only root may do this.
    #[error("not authorised: {0}")]
    NotAuthorised(&'static str),
    /// The caller's process has gone, so nothing can be derived from it.
    #[error("the caller's process has gone")]
    CallerGone,
    /// The caller's process sits in no worker.
    #[error(
        "the caller's process is in no worker of this musterd; only a program inside one can do this"
    )]
    NotInside,
    /// An argument is unusable.
    #[error("{0}")]
    BadSpec(#[from] SpecError),
    /// An argument is unusable.
    #[error("{0}")]
    InvalidArgs(String),
    /// The program could not be started: errno, what failed, on which path.
    #[error("cannot start the worker: {what} {path:?}{}", cause(*.errno))]
    StartFailed {
        /// The row that tells of it.
        id: WorkerId,
        /// errno, 0 if the kernel said nothing.
        errno: i32,
        /// The step, in words.
        what: String,
        /// The path it was about, if any.
        path: String,
    },
    /// Admission is closed.
    #[error("musterd is draining and takes no new workers until `musterctl resume`")]
    Draining,
    /// The daemon is on its way out.
    #[error("musterd is shutting down")]
    ShuttingDown,
    /// A limit of section 10, named.
    #[error("refused: {0}")]
    TooMany(String),
    /// Workers that start workers, too far.
    #[error("refused: {0}")]
    Depth(String),
    /// A chain of messages that is too long.
    #[error("refused: {0}")]
    MessageDepth(String),
    /// The worker that asks does so too fast. Passes by itself.
    #[error("worker {id} asks for workers too fast; there is room for one more in {} ms", .wait.as_millis() + 1)]
    SpawnRate {
        /// Who asks.
        id: WorkerId,
        /// When there is room again.
        wait: std::time::Duration,
    },
    /// The machine strains for memory. Passes by itself.
    #[error("refused for now: {0}")]
    MemoryPressure(String),
    /// The machine strains for CPU time. Passes by itself.
    #[error("refused for now: {0}")]
    CpuPressure(String),
    /// The worker that asks has used all its tokens.
    #[error("refused: worker {0}, which asks for it, has spent its tokens")]
    TokenBudget(WorkerId),
    /// The worker that asks is being ended.
    #[error("refused: worker {0}, which asks for it, is being ended")]
    AskerEnds(WorkerId),
    /// A non-terminal row of the same owner has this name.
    #[error("the name {name:?} is taken by worker {id}")]
    NameTaken {
        /// The name.
        name: String,
        /// By whom.
        id: WorkerId,
    },
    /// The state directory cannot be written.
    #[error("cannot write the state directory, so no new worker is taken: {0}")]
    DiskFull(String),
    /// The verb does not fit the row's status.
    #[error("worker {id} is {status}: {why}")]
    WrongState {
        /// Which.
        id: WorkerId,
        /// Where it stands.
        status: Status,
        /// What to do instead.
        why: String,
    },
    /// The row was written by a newer version and is only read.
    #[error("worker {0} was written by a newer musterd and is read-only here")]
    NewerSchema(WorkerId),
    /// The host cannot do it.
    #[error("not supported here: {0}")]
    NotSupported(String),
    /// The image is being replaced; ask again.
    #[error("musterd is reloading; ask again")]
    Reloading,
    /// A system call failed.
    #[error("{0}")]
    Io(String),
}

impl Refused {
    /// A word for the count of refusals; `None` for what admission has no part in.
    pub fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Refused::Draining => "draining",
            Refused::TooMany(_) => "too-many",
            Refused::Depth(_) => "depth",
            Refused::MessageDepth(_) => "message-depth",
            Refused::SpawnRate { .. } => "spawn-rate",
            Refused::MemoryPressure(_) => "memory-pressure",
            Refused::CpuPressure(_) => "cpu-pressure",
            Refused::TokenBudget(_) => "token-budget",
            Refused::AskerEnds(_) => "asker-ends",
            Refused::NameTaken { .. } => "name-taken",
            Refused::DiskFull(_) => "disk-full",
            _ => return None,
        })
    }

    /// The last word of its D-Bus error name, for answers that go another way.
    pub fn word(&self) -> &'static str {
        match self {
            Refused::NoSuchWorker(_) | Refused::NoSuchReaped(_) | Refused::NotInside => {
                "NoSuchWorker"
            }
            Refused::Ambiguous { .. } => "Ambiguous",
            Refused::NeedsRight(_) | Refused::NotAuthorised(_) => "AccessDenied",
            Refused::CallerGone => "CallerGone",
            Refused::BadSpec(_) | Refused::InvalidArgs(_) => "InvalidArgs",
            Refused::StartFailed { .. } => "StartFailed",
            Refused::Draining => "Draining",
            Refused::ShuttingDown => "ShuttingDown",
            Refused::TooMany(_) => "TooMany",
            Refused::Depth(_) => "Depth",
            Refused::MessageDepth(_) => "MessageDepth",
            Refused::SpawnRate { .. } => "SpawnRate",
            Refused::MemoryPressure(_) => "MemoryPressure",
            Refused::CpuPressure(_) => "CpuPressure",
            Refused::TokenBudget(_) => "TokenBudget",
            Refused::AskerEnds(_) => "AskerEnds",
            Refused::NameTaken { .. } => "NameTaken",
            Refused::DiskFull(_) => "DiskFull",
            Refused::WrongState { .. } => "WrongState",
            Refused::NewerSchema(_) => "NewerSchema",
            Refused::NotSupported(_) => "NotSupported",
            Refused::Reloading => "Reloading",
            Refused::Io(_) => "IOError",
        }
    }
}

fn list(ids: &[WorkerId]) -> String {
    ids.iter()
        .map(WorkerId::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// What the kernel said of it, after a colon; nothing for 0.
pub(super) fn cause(errno: i32) -> String {
    match errno {
        0 => String::new(),
        errno => format!(": {}", std::io::Error::from_raw_os_error(errno)),
    }
}
