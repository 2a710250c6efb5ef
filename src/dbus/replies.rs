//! What a client gets: answers and events, typed.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use zbus::{OwnedObjectPath, OwnedVariant};

use super::{OBJECT, convert};

pub(super) type Dict = HashMap<String, OwnedVariant>;

/// Answer to a spawn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spawned {
    /// The new row.
    pub id: String,
    /// Its object.
    pub object: String,
    /// Limits the host cannot enforce.
    pub unenforced: Vec<String>,
    /// The row was on disk before the answer.
    pub durable: bool,
}

/// A row of a list. Unset texts are empty, unset numbers 0 or `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Label of its kind.
    pub kind: String,
    /// Status word.
    pub status: String,
    /// Health word.
    pub health: String,
    /// Owner.
    pub uid: u32,
    /// The leader's pid, 0 for none.
    pub pid: u32,
    /// Row made, microseconds since the epoch.
    pub created: u64,
    /// Input and output tokens.
    pub tokens: u64,
    /// Its object.
    pub object: String,
    /// Program and arguments, where they may be seen.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Worktree.
    pub worktree: String,
    /// Program executed, microseconds since the epoch.
    pub started: Option<u64>,
    /// Seen dead, microseconds since the epoch.
    pub exited: Option<u64>,
    /// Outcome word.
    pub outcome: String,
    /// Exit code.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub exit_signal: Option<i32>,
    /// Rung it is at, or that worked.
    pub rung: String,
    /// Kept by hand.
    pub held: bool,
    /// Frozen by musterd.
    pub frozen: bool,
    /// Parent row.
    pub parent: String,
    /// Why the row is read-only.
    pub read_only: String,
    /// Another fact worth telling.
    pub note: String,
    /// Names of what the leader left running.
    pub leftovers: Vec<String>,
}

/// Answer to a cancel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cancelled {
    /// `begun`, `running` or `ended`.
    pub state: String,
    /// `stopping` was on disk before the first signal.
    pub durable: bool,
    /// Workers cancelled with it.
    pub descendants: Vec<String>,
    /// Outcome word of an ended one.
    pub outcome: String,
}

/// Answer to a wait.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waited {
    /// Outcome word.
    pub outcome: String,
    /// Exit code.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub exit_signal: Option<i32>,
    /// The rung that worked.
    pub rung: String,
    /// From the first rung to the end, microseconds.
    pub took_usec: Option<u64>,
    /// Processes ended with it.
    pub processes: u32,
    /// Names of what the leader left running.
    pub leftovers: Vec<String>,
    /// Why it was cancelled.
    pub reason: String,
    /// Who cancelled it.
    pub by: Option<u32>,
    /// OOM killer.
    pub oom_killed: bool,
    /// A terminal frame was folded in.
    pub settled: bool,
    /// What the outcome rests on.
    pub how_known: String,
}

/// A row of a sweep's report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ReapedRow {
    /// Id.
    pub id: String,
    /// `reap`, `stamp` or `keep`.
    pub action: String,
    /// Reason's word.
    pub reason: String,
    /// Name.
    pub name: String,
    /// Of `within-grace`.
    pub seconds_left: Option<i64>,
    /// The reason in more words.
    pub detail: String,
    /// Seen dead, microseconds since the epoch.
    pub since: Option<u64>,
}

/// One page of a sweep's report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Reaped {
    /// By `action` and `action:reason`.
    pub counts: BTreeMap<String, u64>,
    /// Rows, sorted by id.
    pub rows: Vec<ReapedRow>,
}

/// Manager's properties.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the properties of the contract, by name")]
pub struct Service {
    pub version: String,
    pub generation: u64,
    pub state: String,
    pub containment: String,
    pub degraded: Vec<String>,
    pub n_workers: u32,
    pub n_rows: u32,
    pub n_quarantined: u32,
    pub grace_usec: u64,
    pub start_timestamp: u64,
    pub last_reap_timestamp: u64,
}

/// What the daemon tells of its own accord.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A row was made.
    New {
        /// Id.
        id: String,
    },
    /// A worker ended for good.
    Exited {
        /// Id.
        id: String,
        /// Outcome word.
        outcome: String,
        /// Exit code.
        exit_code: Option<i32>,
        /// Signal.
        exit_signal: Option<i32>,
        /// Label of its kind.
        kind: String,
        /// A terminal frame was folded in.
        settled: bool,
        /// Reservation that goes free.
        reservation: Option<u64>,
    },
    /// A row left the roll.
    Removed {
        /// Id.
        id: String,
        /// `reaped` or `forgotten`.
        why: String,
    },
    /// A sweep ended.
    Reaped {
        /// By `action` and `action:reason`.
        counts: BTreeMap<String, u64>,
        /// Ids that went.
        removed: Vec<String>,
    },
    /// Properties of an object changed.
    Changed {
        /// The worker's id; empty for the service.
        id: String,
        /// Property names, changed or invalidated.
        names: Vec<String>,
    },
}

/// The event that a signal tells, if it is one of ours.
pub(super) fn event(message: &zbus::Message) -> Option<Event> {
    if message.message_type() != zbus::message::Type::Signal {
        return None;
    }
    let header = message.header();
    let body = message.body();
    match header.member()?.as_str() {
        "WorkerNew" => {
            let (id, _): (String, OwnedObjectPath) = body.deserialize().ok()?;
            Some(Event::New { id })
        }
        "WorkerExited" => {
            let (id, _, outcome, details): (String, OwnedObjectPath, String, Dict) =
                body.deserialize().ok()?;
            Some(Event::Exited {
                id,
                outcome,
                exit_code: find(&details, "exit-code"),
                exit_signal: find(&details, "exit-signal"),
                kind: get(&details, "kind"),
                settled: get(&details, "settled"),
                reservation: find(&details, "reservation"),
            })
        }
        "WorkerRemoved" => {
            let (id, _, why): (String, OwnedObjectPath, String) = body.deserialize().ok()?;
            Some(Event::Removed { id, why })
        }
        "Reaped" => {
            let (counts, removed) = body.deserialize().ok()?;
            Some(Event::Reaped { counts, removed })
        }
        "PropertiesChanged" => {
            let (_, changed, invalidated): (String, Dict, Vec<String>) = body.deserialize().ok()?;
            let mut names: Vec<String> = changed.into_keys().chain(invalidated).collect();
            names.sort();
            let path = header.path()?.as_str();
            let id = if path == OBJECT {
                String::new()
            } else {
                id_of(path)
            };
            Some(Event::Changed { id, names })
        }
        _ => None,
    }
}

/// The last element of a worker's object path.
pub(super) fn id_of(path: &str) -> String {
    path.rsplit('/').next().unwrap_or("").to_owned()
}

pub(super) fn find<T: TryFrom<OwnedVariant>>(dict: &Dict, key: &str) -> Option<T> {
    dict.get(key).cloned().and_then(|v| T::try_from(v).ok())
}

pub(super) fn get<T: TryFrom<OwnedVariant> + Default>(dict: &Dict, key: &str) -> T {
    find(dict, key).unwrap_or_default()
}

pub(super) fn listed(row: convert::OwnedListRow) -> Listed {
    let (id, name, kind, status, health, uid, pid, created, tokens, object, more) = row;
    Listed {
        id,
        name,
        kind,
        status,
        health,
        uid,
        pid,
        created,
        tokens,
        object: object.to_string(),
        argv: get(&more, "argv"),
        cwd: get(&more, "cwd"),
        worktree: get(&more, "worktree"),
        started: find(&more, "started"),
        exited: find(&more, "exited"),
        outcome: get(&more, "outcome"),
        exit_code: find(&more, "exit-code"),
        exit_signal: find(&more, "exit-signal"),
        rung: get(&more, "rung"),
        held: get(&more, "held"),
        frozen: get(&more, "frozen"),
        parent: get(&more, "parent"),
        read_only: get(&more, "read-only"),
        note: get(&more, "note"),
        leftovers: get(&more, "leftovers"),
    }
}

pub(super) fn reaped_row((id, action, reason, more): convert::OwnedReportRow) -> ReapedRow {
    ReapedRow {
        id,
        action,
        reason,
        name: get(&more, "name"),
        seconds_left: find(&more, "seconds-left"),
        detail: get(&more, "detail"),
        since: find(&more, "since"),
    }
}
