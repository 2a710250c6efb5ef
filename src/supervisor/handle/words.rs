//! What is asked of the supervisor and answered by it, as plain types.

use std::os::fd::OwnedFd;
use std::time::Duration;

use serde::Serialize;

use crate::supervisor::views::WorkerView;
use crate::worker::{Exit, Outcome, Pid, Status, WorkerId};

/// A right beyond one's own rows (section 15). The supervisor names the one a call needs
/// ([`NeedsRight`](crate::supervisor::refused::Refused::NeedsRight)); the bus layer asks polkit
/// and calls again with it granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    /// Start workers, adopt own processes.
    Spawn,
    /// See ids and states of others' rows.
    ListAll,
    /// Everything on others' rows.
    ManageAll,
    /// Drain, resume, reload, log level.
    ManageService,
}

/// Who asks, as the bus daemon or the socket says, never as the caller says.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Effective uid.
    pub uid: u32,
    /// Primary gid.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Its process, where it could be pinned; the worker it sits in is derived from it.
    pub pid: Option<Pid>,
    /// Granted beyond what the uid gives.
    pub rights: Vec<Right>,
}

/// Descriptors that come with a Spawn.
#[derive(Debug, Default)]
pub struct Stdio {
    /// Standard input; `/dev/null` if absent.
    pub stdin: Option<OwnedFd>,
    /// Standard output; the output file or the journal if absent.
    pub stdout: Option<OwnedFd>,
    /// Standard error; like standard output if absent.
    pub stderr: Option<OwnedFd>,
}

/// Answer to a Spawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// The new row.
    pub id: WorkerId,
    /// Limits this host cannot enforce.
    pub unenforced: Vec<String>,
    /// The row was on disk before this answer.
    pub durable: bool,
}

/// Which rows a list holds. Rows are sorted by id; `after` is the last id of the page before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Terminal rows too.
    pub all: bool,
    /// Of this owner only.
    pub owner: Option<u32>,
    /// With one of these statuses only; empty for any.
    pub status: Vec<Status>,
    /// With this kind type or label only.
    pub kind: Option<String>,
    /// Rows after this id.
    pub after: Option<WorkerId>,
    /// At most so many; 0 takes the greatest page, 1,000.
    pub limit: u32,
}

/// What a cancel found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelState {
    /// The ladder begins with this call.
    Begun,
    /// One was under way already.
    Running,
    /// The worker had ended already.
    Ended,
}

impl CancelState {
    /// `begun`, `running` or `ended`.
    pub fn as_str(self) -> &'static str {
        match self {
            CancelState::Begun => "begun",
            CancelState::Running => "running",
            CancelState::Ended => "ended",
        }
    }
}

/// Options of a cancel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CancelOptions {
    /// Straight to the kill rung.
    pub now: bool,
    /// Leave workers it asked for alone.
    pub keep_descendants: bool,
}

/// Answer to a cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelReply {
    /// What was found.
    pub state: CancelState,
    /// `stopping` was on disk before the first signal.
    pub durable: bool,
    /// Workers cancelled with it.
    pub descendants: Vec<WorkerId>,
    /// Of an ended one.
    pub outcome: Option<Outcome>,
}

/// Answer to a wait: everything the row says about the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Outcome.
    pub outcome: Outcome,
    /// The whole view of the row.
    pub view: Box<WorkerView>,
}

/// Whom a signal goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// The leader alone.
    Leader,
    /// The leader's process group.
    Group,
    /// Every process of the worker.
    All,
}

/// Options of a reap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReapOptions {
    /// Decide, but change nothing.
    pub dry_run: bool,
    /// Another grace than the configured one.
    pub grace: Option<Duration>,
    /// Only these workers; empty for all the caller may reap.
    pub workers: Vec<String>,
    /// Page of the report: at most so many rows; 0 takes 1,000.
    pub limit: u32,
    /// Page of the report: rows after this id.
    pub after: Option<WorkerId>,
}

/// Options of a drain. Without any, all workers are ended and the service stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrainOptions {
    /// Let the workers finish instead of ending them.
    pub wait: bool,
    /// The service ends once they have.
    pub exit: bool,
}

/// Something that is now true and that the world may hear. Carries no text of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A row was made.
    New(WorkerId),
    /// A worker ended for good.
    Exited {
        /// Which.
        id: WorkerId,
        /// How.
        outcome: Outcome,
        /// Label-free kind.
        kind: crate::worker::KindType,
        /// Exit.
        exit: Option<Exit>,
        /// Settled.
        settled: bool,
        /// Reservation released by this.
        reservation: Option<u64>,
    },
    /// Properties of a row changed.
    Changed(WorkerId),
    /// A row left the roll.
    Removed {
        /// Which.
        id: WorkerId,
        /// `reaped` or `forgotten`.
        why: &'static str,
    },
    /// A sweep that was no dry run ended.
    Reaped {
        /// Counts by `action` or `action:reason`.
        counts: std::collections::BTreeMap<String, u64>,
        /// At most 1,000 ids.
        removed: Vec<WorkerId>,
    },
    /// Properties of the service changed.
    Service,
}
