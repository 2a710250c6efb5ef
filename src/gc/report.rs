//! What a sweep did, row by row: what went, what stayed and why.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::worker::{Timestamp, WorkerId};

/// What was done with a row; in a dry run, what would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Taken off the roll.
    Reap,
    /// Its clock was started.
    Stamp,
    /// Left alone.
    Keep,
}

impl Action {
    /// Every action, so that zero counts can be shown.
    pub const ALL: [Action; 3] = [Action::Reap, Action::Stamp, Action::Keep];

    /// `reap`, `stamp` or `keep`.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Reap => "reap",
            Action::Stamp => "stamp",
            Action::Keep => "keep",
        }
    }
}

/// One row of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportRow {
    /// Which.
    pub id: WorkerId,
    /// Its name.
    pub name: String,
    /// What was done.
    pub action: Action,
    /// The reason's word: `held`, `live`, `not-terminal`, `within-grace`, `worktree-dirty`,
    /// `worktree-unprobed`, `newer-schema`, `changed`, `past-grace`, `first-seen-dead`.
    pub reason: String,
    /// Of `within-grace`.
    pub seconds_left: Option<i64>,
    /// The reason in more words.
    pub detail: String,
    /// When it was seen dead.
    pub since: Option<Timestamp>,
}

/// One sweep's answer. Rows are sorted by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Report {
    /// Nothing was changed.
    pub dry_run: bool,
    /// By `action`, and by `action:reason`; every action is there, also with 0.
    pub counts: BTreeMap<String, u64>,
    /// The page asked for.
    pub rows: Vec<ReportRow>,
    /// More rows follow the last one.
    pub more: bool,
    /// What could not be looked at, each a sentence.
    pub errors: Vec<String>,
}
