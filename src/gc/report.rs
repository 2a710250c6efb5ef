//! What a sweep did, row by row: what went, what stayed and why.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::facts::{Decision, Facts, KeepReason, Tree};
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
    /// The reason's word: `held`, `live`, `liveness-unknown`, `not-terminal`, `within-grace`,
    /// `worktree-in-use`, `worktree-dirty`, `worktree-unprobed`, `newer-schema`, `changed`,
    /// `past-grace`, `first-seen-dead`.
    pub reason: String,
    /// Of `within-grace`.
    pub seconds_left: Option<i64>,
    /// The reason in more words.
    pub detail: String,
    /// When it was seen dead.
    pub since: Option<Timestamp>,
}

impl ReportRow {
    /// The line of a row that was judged; `decision` is never `Ask`.
    pub fn new(id: WorkerId, name: &str, decision: &Decision, facts: &Facts) -> Self {
        let (action, reason, detail) = match decision {
            Decision::Reap => (Action::Reap, "past-grace", reap_detail(facts).to_owned()),
            Decision::StampExit => (
                Action::Stamp,
                "first-seen-dead",
                "seen dead for the first time; its grace starts now".to_owned(),
            ),
            Decision::Keep(reason) => (Action::Keep, reason.word(), reason.sentence()),
            Decision::Ask(_) => (
                Action::Keep,
                "worktree-unprobed",
                "not looked at".to_owned(),
            ),
        };
        Self {
            id,
            name: name.to_owned(),
            action,
            reason: reason.to_owned(),
            seconds_left: match decision {
                Decision::Keep(KeepReason::WithinGrace { left }) => Some(*left),
                _ => None,
            },
            detail,
            since: facts.exited_at,
        }
    }

    /// The line of a row that was to go or to be stamped, but is no longer what was judged.
    #[must_use]
    pub fn changed(self) -> Self {
        Self {
            action: Action::Keep,
            reason: KeepReason::Changed.word().to_owned(),
            seconds_left: None,
            detail: KeepReason::Changed.sentence(),
            ..self
        }
    }
}

fn reap_detail(facts: &Facts) -> &'static str {
    match facts.tree {
        Tree::Clean => "past its grace; its worktree is clean",
        _ => "past its grace; it owns no worktree",
    }
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

impl Report {
    /// One page of `rows`, which are sorted: at most `limit` (0: all) after the id `after`.
    pub fn page(
        rows: &[ReportRow],
        counts: BTreeMap<String, u64>,
        limit: usize,
        after: Option<WorkerId>,
    ) -> Self {
        let from = after.map_or(0, |after| rows.partition_point(|row| row.id <= after));
        let rest = rows.get(from..).unwrap_or_default();
        let most = if limit == 0 { rest.len() } else { limit };
        Self {
            counts,
            rows: rest.iter().take(most).cloned().collect(),
            more: rest.len() > most,
            ..Self::default()
        }
    }
}

/// Lines of a report by action and reason.
#[derive(Debug, Clone, Default)]
pub struct Counts(HashMap<Action, HashMap<String, u64>>);

impl Counts {
    /// Counts one line.
    pub fn add(&mut self, row: &ReportRow) {
        let reasons = self.0.entry(row.action).or_default();
        match reasons.get_mut(&row.reason) {
            Some(count) => *count += 1,
            None => {
                reasons.insert(row.reason.clone(), 1);
            }
        }
    }

    /// By `action`, and by `action:reason`; every action is there, also with 0.
    pub fn named(&self) -> BTreeMap<String, u64> {
        let mut named = BTreeMap::new();
        for action in Action::ALL {
            let (action, reasons) = (action.as_str(), self.0.get(&action));
            let reasons = || reasons.into_iter().flatten();
            named.insert(action.to_owned(), reasons().map(|(_, n)| n).sum());
            named.extend(reasons().map(|(reason, n)| (format!("{action}:{reason}"), *n)));
        }
        named
    }
}
