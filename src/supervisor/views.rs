//! What callers are shown: rows and the service as a whole, by value. Filled in `view.rs`.

use std::path::PathBuf;

use serde::Serialize;

use crate::worker::{
    Cancellation, Exit, Health, HowKnown, Kind, Leftovers, Limits, NodeId, Outcome, Owner, Rung,
    Status, Timestamp, Tokens, WorkerId,
};

/// What a living worker uses, where its leaf can tell; not in lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// CPU time, nanoseconds.
    pub cpu_nsec: Option<u64>,
    /// Memory, bytes.
    pub memory_current: Option<u64>,
    /// Most memory so far, bytes.
    pub memory_peak: Option<u64>,
    /// Processes and threads.
    pub tasks: Option<u64>,
}

/// The signs of life that `health` rests on. Lengths in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Liveness {
    /// Last progress seen, wall clock.
    pub last_progress: Timestamp,
    /// Last pong seen, wall clock; `None` if it promised no heartbeat.
    pub last_pong: Option<Timestamp>,
    /// How old the last progress may be.
    pub progress_timeout_usec: u64,
    /// How old the last pong may be.
    pub pong_timeout_usec: Option<u64>,
    /// Ended when settled and quiet for so long.
    pub idle_timeout_usec: Option<u64>,
}

/// A row of a list: of each row only what ListWorkers tells, since a page has a thousand of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListView {
    /// Its id.
    pub id: WorkerId,
    /// Its name, empty for none.
    pub name: String,
    /// Label of its kind.
    pub kind: String,
    /// Where it stands.
    pub status: Status,
    /// Health while it lives.
    pub health: Option<Health>,
    /// Whom it belongs to.
    pub uid: u32,
    /// The leader's pid while it lives, else 0.
    pub pid: u32,
    /// Row made.
    pub created: Timestamp,
    /// Input and output tokens.
    pub tokens: u64,
    /// Program and arguments, as in [`WorkerView`].
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Worktree the row owns.
    pub worktree: Option<String>,
    /// Program executed.
    pub started: Option<Timestamp>,
    /// Seen dead.
    pub exited: Option<Timestamp>,
    /// Outcome.
    pub outcome: Option<Outcome>,
    /// The leader's exit.
    pub exit: Option<Exit>,
    /// The rung it is at, or the one that worked.
    pub rung: Option<Rung>,
    /// Kept by hand.
    pub held: bool,
    /// Parent row.
    pub parent: Option<WorkerId>,
    /// Why the row is read-only, if it is.
    pub read_only: Option<String>,
    /// Another fact worth telling.
    pub note: Option<String>,
    /// Frozen by us.
    pub frozen: bool,
    /// Names of what the leader left running.
    pub leftovers: Vec<String>,
}

/// A row as the caller may see it. Serialised, it is the JSON of `Status` and `show --json`:
/// snake_case keys, times in microseconds since the epoch, lengths in microseconds, sizes in
/// bytes, `null` for unset; keys are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerView {
    /// Its id.
    pub id: WorkerId,
    /// Its name, empty for none.
    pub name: String,
    /// Label of its kind.
    pub kind: String,
    /// Kind with its fields.
    pub kind_fields: Kind,
    /// Node number while it is in the live table.
    pub node: Option<NodeId>,
    /// Where it stands.
    pub status: Status,
    /// Health while it lives.
    pub health: Option<Health>,
    /// Signs of life, while it lives.
    pub liveness: Option<Liveness>,
    /// STATUS= of the worker.
    pub status_text: String,
    /// Whom it belongs to.
    pub owner: Owner,
    /// The leader's pid while it lives.
    pub pid: Option<i32>,
    /// Parent row.
    pub parent: Option<WorkerId>,
    /// Depth.
    pub depth: u32,
    /// Message hops behind it.
    pub msg_depth: u32,
    /// Correlation id.
    pub trace_id: String,
    /// Program and arguments; bytes that are no UTF-8 as U+FFFD (exact ones in the row file).
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Worktree the row owns.
    pub worktree: Option<String>,
    /// Its leaf.
    pub control_group: Option<PathBuf>,
    /// Row made.
    pub created: Timestamp,
    /// Program executed.
    pub started: Option<Timestamp>,
    /// Seen dead.
    pub exited: Option<Timestamp>,
    /// Since its start, milliseconds; to its end where it has ended.
    pub age_ms: u64,
    /// Hard deadline, wall clock.
    pub deadline: Option<Timestamp>,
    /// Outcome.
    pub outcome: Option<Outcome>,
    /// What the outcome rests on.
    pub how_known: Option<HowKnown>,
    /// The leader's exit.
    pub exit: Option<Exit>,
    /// OOM killer.
    pub oom_killed: bool,
    /// The rung it is at, or the one that worked.
    pub rung: Option<Rung>,
    /// When the next rung is due, wall clock.
    pub next_rung: Option<Timestamp>,
    /// It outlived the last rung.
    pub unkillable: bool,
    /// From the first rung to the end, microseconds.
    pub took_usec: Option<u64>,
    /// Processes ended by the ladder or swept.
    pub processes: u32,
    /// Another fact worth telling.
    pub note: Option<String>,
    /// Asked to end: by whom, why, when.
    pub cancelled: Option<Cancellation>,
    /// A terminal frame was folded in.
    pub settled: bool,
    /// Its control channel while it lives: `open`, or `lost` and why after a colon.
    pub channel: Option<String>,
    /// Frames and fields of it that were skipped, of its last generation.
    pub frames_skipped: u64,
    /// Kept by hand.
    pub held: bool,
    /// Somebody's terminal is on it.
    pub attended: bool,
    /// Frozen by us.
    pub frozen: bool,
    /// It said that it stops (`STOPPING=1`) and is to have ended by then, wall clock.
    pub stop_by: Option<Timestamp>,
    /// Put on the roll by Adopt.
    pub adopted: bool,
    /// Tokens used.
    pub tokens: Tokens,
    /// Generations after the first.
    pub restarts: u32,
    /// The next generation begins then, wall clock.
    pub restart_at: Option<Timestamp>,
    /// Reservation its end releases.
    pub reservation: Option<u64>,
    /// What the leader left running.
    pub leftovers: Leftovers,
    /// Limits asked for.
    pub limits: Limits,
    /// Limits this host cannot enforce.
    pub unenforced: Vec<String>,
    /// What it uses; not in lists.
    pub usage: Option<Usage>,
    /// Output file, where output goes to one.
    pub output: Option<PathBuf>,
    /// Output goes to the journal, under the identifier `muster-ID`.
    pub journal: bool,
    /// Bytes punched out of the output file.
    pub output_dropped: u64,
    /// Why the row is read-only, if it is (written by a newer version).
    pub read_only: Option<String>,
    /// Grows with every change of the row.
    pub generation: u64,
}

impl WorkerView {
    /// Without what only the owner may see: argv, cwd, worktree, texts, reasons, output.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        self.argv.clear();
        self.cwd.clear();
        self.worktree = None;
        self.status_text.clear();
        self.channel = None;
        self.note = None;
        self.output = None;
        self.leftovers.names.clear();
        self.trace_id.clear();
        self.name.clear();
        self.kind = self.kind_fields.kind_type().to_string();
        self.kind_fields = Kind::Command;
        if let Some(cancelled) = &mut self.cancelled {
            cancelled.reason.clear();
        }
        self
    }
}

/// The service as a whole: Manager's properties and the summary of `Status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServiceView {
    /// Version of the program.
    pub version: String,
    /// The daemon's pid.
    pub pid: u32,
    /// Counts re-executions; 1 for the first image.
    pub generation: u64,
    /// `running` or `draining`.
    pub state: String,
    /// Since when and why admission is closed, while it is.
    pub closed: Option<super::drain::Closed>,
    /// `cgroup` or `weak`, and why in words after a colon.
    pub containment: String,
    /// What does not work as it should, each a sentence.
    pub degraded: Vec<String>,
    /// Live children.
    pub n_workers: u32,
    /// Processes among them that were adopted: a drain and the end of the service leave them.
    pub n_adopted: u32,
    /// Rows.
    pub n_rows: u32,
    /// Files in quarantine.
    pub n_quarantined: u32,
    /// Rows by status word.
    pub by_status: std::collections::BTreeMap<String, u64>,
    /// Live children by kind.
    pub by_kind: std::collections::BTreeMap<String, u64>,
    /// Configured grace, microseconds.
    pub grace_usec: u64,
    /// Daemon started.
    pub started: Timestamp,
    /// Last sweep that was no dry run.
    pub last_reap: Option<Timestamp>,
    /// State directory.
    pub state_dir: PathBuf,
    /// Spawned since the start.
    pub spawned: u64,
    /// Exits since the start by outcome word.
    pub exits: std::collections::BTreeMap<String, u64>,
    /// Spawns refused since the start by reason.
    pub refused: std::collections::BTreeMap<String, u64>,
    /// Everything that is counted since the start; for the metrics.
    #[serde(skip)]
    pub counted: super::counters::Counters,
}
