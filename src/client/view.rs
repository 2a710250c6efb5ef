//! A worker and the service as the daemon's JSON tells them. Read leniently: a newer daemon may
//! know more keys and words than this client.

use serde::Deserialize;
use serde_json::Value;

use crate::worker::{Exit, Outcome};

/// Length and names of what a leader left running.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of worker::Leftovers")]
pub struct Leftovers {
    pub count: u64,
    pub names: Vec<String>,
}

/// Who asked for the end.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of worker::Cancellation")]
pub struct Cancelled {
    pub by: u32,
    pub reason: String,
    pub at: i64,
}

/// Owner.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of worker::Owner")]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// Tokens.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of worker::Tokens")]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
}

/// Signs of life.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of supervisor::handle::Liveness")]
pub struct Liveness {
    pub last_progress: Option<i64>,
    pub last_pong: Option<i64>,
}

/// What it may use.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the fields of worker::Limits")]
pub struct Limits {
    pub tokens_max: Option<u64>,
}

/// Since when and why admission is closed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of supervisor::drain::Closed")]
pub struct Closed {
    pub since: i64,
    pub reason: String,
}

/// A process that works for a worker from outside its leaf.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of supervisor::outside::Outsider")]
pub struct Outsider {
    pub pid: i32,
    pub comm: String,
    pub why: String,
}

/// One worker; fields as in [`crate::supervisor::handle::WorkerView`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of supervisor::handle::WorkerView")]
pub struct Worker {
    pub id: String,
    pub name: String,
    pub kind: String,
    pub status: String,
    pub health: Option<String>,
    pub status_text: String,
    pub owner: Owner,
    pub pid: Option<i32>,
    pub parent: Option<String>,
    pub trace_id: String,
    pub argv: Vec<String>,
    pub cwd: String,
    pub worktree: Option<String>,
    pub control_group: Option<String>,
    pub created: i64,
    pub started: Option<i64>,
    pub exited: Option<i64>,
    pub deadline: Option<i64>,
    pub outcome: Option<String>,
    pub how_known: Option<String>,
    pub exit: Option<Exit>,
    pub oom_killed: bool,
    pub rung: Option<String>,
    pub next_rung: Option<i64>,
    pub unkillable: bool,
    pub took_usec: Option<u64>,
    pub processes: u64,
    pub note: Option<String>,
    pub cancelled: Option<Cancelled>,
    pub held: bool,
    pub adopted: bool,
    pub channel: Option<String>,
    pub frames_skipped: u64,
    pub settled: bool,
    pub attended: bool,
    pub frozen: bool,
    pub stop_by: Option<i64>,
    pub liveness: Option<Liveness>,
    pub limits: Limits,
    pub tokens: Tokens,
    pub restarts: u32,
    pub restart_at: Option<i64>,
    pub leftovers: Leftovers,
    pub unenforced: Vec<String>,
    pub outside: Vec<Outsider>,
    pub output: Option<String>,
    pub journal: bool,
    pub output_dropped: u64,
    pub read_only: Option<String>,
}

impl Worker {
    /// Reads the JSON of `Status` or of a list's row.
    pub fn read(json: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(json)
    }

    /// Is it over for good?
    pub fn is_terminal(&self) -> bool {
        matches!(
            self.status.as_str(),
            "exited" | "permanent-dead" | "orphaned"
        )
    }

    /// Is there a process of it?
    pub fn is_running(&self) -> bool {
        matches!(self.status.as_str(), "live" | "stopping")
    }

    /// Did it end as it should not?
    pub fn is_bad(&self) -> bool {
        matches!(self.status.as_str(), "permanent-dead" | "orphaned")
            || (self.is_terminal()
                && matches!(self.outcome.as_deref(), Some("crashed" | "unknown")))
    }

    /// The outcome, where this client knows the word.
    pub fn known_outcome(&self) -> Option<Outcome> {
        self.outcome.as_deref()?.parse().ok()
    }

    /// `fix-parser (4kd02m1x)`, or the id alone.
    pub fn title(&self) -> String {
        if self.name.is_empty() {
            self.id.clone()
        } else {
            format!("{} ({})", self.name, self.id)
        }
    }
}

/// The service; fields as in [`crate::supervisor::handle::ServiceView`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the fields of supervisor::handle::ServiceView")]
pub struct Service {
    pub version: String,
    pub pid: u32,
    pub generation: u64,
    pub state: String,
    pub closed: Option<Closed>,
    pub containment: String,
    pub degraded: Vec<String>,
    pub n_workers: u32,
    pub n_rows: u32,
    pub n_quarantined: u32,
    pub by_status: std::collections::BTreeMap<String, u64>,
    pub by_kind: std::collections::BTreeMap<String, u64>,
    pub refused: std::collections::BTreeMap<String, u64>,
    pub grace_usec: u64,
    pub started: i64,
    pub last_reap: Option<i64>,
    pub state_dir: String,
    pub spawned: u64,
    pub exits: std::collections::BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_and_words_of_a_newer_daemon_are_no_error() {
        let json = serde_json::json!({
            "id": "abcdefgh", "status": "hibernating", "exit": {"code": 3}, "brand_new": [1],
        });
        let worker = Worker::read(&json).unwrap();
        assert_eq!(worker.exit, Some(Exit::Code(3)));
        assert!(!worker.is_terminal() && !worker.is_running());
    }
}
