//! What the collector knows of one row, and what it may answer. Plain data: no I/O and no clock.
//! Specification section 3.

#![forbid(unsafe_code)]

use crate::worker::{Status, Timestamp, WorkerId};

/// Is anything of the worker alive, as looked at for this decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    /// A control channel, the recorded process, the leaf or a recorded descendant says so.
    Yes,
    /// Everything that could say so was looked at, and nothing did.
    No,
    /// Something could not be looked at, and nothing else said yes. The text says what.
    Unknown(String),
}

/// What is known of the worktree a row owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// The row owns none, so no tree can pin it.
    NotOwned,
    /// It owns one that nobody has looked at yet.
    NotAsked,
    /// Another row that lives, or may live, works in it.
    InUse(WorkerId),
    /// Nothing can be lost.
    Clean,
    /// Something could be lost; the text says what.
    Dirty(String),
    /// The look failed; the text says why.
    Unknown(String),
}

/// The facts of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Where the row stands.
    pub status: Status,
    /// Kept by hand.
    pub held: bool,
    /// Written by a newer version: shown, never rewritten or collected (section 2).
    pub read_only: bool,
    /// Looked at anew for this decision.
    pub live: Live,
    /// A recorded pid that is gone, recycled or from another boot.
    pub pid_confirmed_dead: bool,
    /// When it was first seen dead.
    pub exited_at: Option<Timestamp>,
    /// Its worktree.
    pub tree: Tree,
}

impl Facts {
    /// The same facts with the answer to [`Probe::Worktree`] in them.
    #[must_use]
    pub fn with_tree(mut self, tree: Tree) -> Self {
        self.tree = tree;
        self
    }
}

/// A dear fact that a decision may still need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Is the worktree clean.
    Worktree,
}

/// Why a row stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeepReason {
    /// Kept by hand.
    Held,
    /// Written by a newer version.
    NewerSchema,
    /// Something of it is alive.
    Live,
    /// It could not be told whether something of it is alive.
    LivenessUnknown(String),
    /// Something is still coming up, or nothing shows that it has ended.
    NotTerminal,
    /// Dead, but not long enough.
    WithinGrace {
        /// Whole seconds until it may go, rounded up.
        left: i64,
    },
    /// A living row works in its tree.
    WorktreeInUse(WorkerId),
    /// Its tree holds something that could be lost.
    WorktreeDirty(String),
    /// Its tree could not be judged.
    WorktreeUnprobed(String),
    /// The row changed between the decision and the act; the next sweep looks again.
    Changed,
}

impl KeepReason {
    /// The word of the reason in reports.
    pub fn word(&self) -> &'static str {
        match self {
            KeepReason::Held => "held",
            KeepReason::NewerSchema => "newer-schema",
            KeepReason::Live => "live",
            KeepReason::LivenessUnknown(_) => "liveness-unknown",
            KeepReason::NotTerminal => "not-terminal",
            KeepReason::WithinGrace { .. } => "within-grace",
            KeepReason::WorktreeInUse(_) => "worktree-in-use",
            KeepReason::WorktreeDirty(_) => "worktree-dirty",
            KeepReason::WorktreeUnprobed(_) => "worktree-unprobed",
            KeepReason::Changed => "changed",
        }
    }

    /// The reason as a sentence for people.
    pub fn sentence(&self) -> String {
        match self {
            KeepReason::Held => "held by hand; `musterctl release` lets it go".to_owned(),
            KeepReason::NewerSchema => "written by a newer musterd, so only read here".to_owned(),
            KeepReason::Live => "something of it is alive".to_owned(),
            KeepReason::LivenessUnknown(why) => {
                format!("it cannot be told whether it is alive: {why}")
            }
            KeepReason::NotTerminal => "has not ended".to_owned(),
            KeepReason::WithinGrace { left } => format!("may go in {left} s"),
            KeepReason::WorktreeInUse(by) => format!("worker {by} works in its worktree"),
            KeepReason::WorktreeDirty(what) => format!("its worktree is not clean: {what}"),
            KeepReason::WorktreeUnprobed(why) => {
                format!("its worktree could not be judged: {why}")
            }
            KeepReason::Changed => "changed during the sweep; the next one looks again".to_owned(),
        }
    }
}

/// What is to be done with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may go.
    Reap,
    /// The first sight of a dead row: its clock starts now.
    StampExit,
    /// It stays.
    Keep(KeepReason),
    /// Not to be said before this is known.
    Ask(Probe),
}
