//! The door to the supervisor: commands in, replies and changes out. Callers hold a [`Handle`];
//! only the supervisor's task holds the state.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::adopt::Adoption;
use super::outside::Outsider;
use super::refused::Refused;
use super::report::Facts;
use crate::gc::report::Report;
use crate::worker::{
    Cancellation, Exit, Health, HowKnown, Kind, Leftovers, Limits, Mono, NodeId, Outcome, Owner,
    Pid, Rung, Spec, Status, Timestamp, Tokens, WorkerId,
};

/// A right beyond one's own rows (section 15). The supervisor names the one a call needs
/// ([`Refused::NeedsRight`]); the bus layer asks polkit and calls again with it granted.
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
    /// Frames and fields of it that were skipped, while the channel is open.
    pub frames_skipped: u64,
    /// Kept by hand.
    pub held: bool,
    /// Somebody's terminal is on it.
    pub attended: bool,
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
    /// `cgroup` or `weak`, and why in words after a colon.
    pub containment: String,
    /// What does not work as it should, each a sentence.
    pub degraded: Vec<String>,
    /// Live children.
    pub n_workers: u32,
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

/// A command to the supervisor. Each carries where its answer goes.
#[allow(
    missing_docs,
    reason = "one for each method of Handle, which documents it"
)]
#[derive(Debug)]
pub enum Command {
    Spawn(Caller, Box<Spec>, Stdio, Reply<Spawned>),
    Resolve(Caller, String, Reply<WorkerId>),
    ByPid(Caller, Pid, Reply<WorkerId>),
    List(Caller, ListFilter, Reply<Vec<WorkerView>>),
    View(Caller, String, Reply<Box<WorkerView>>),
    Outside(Caller, String, Reply<Vec<Outsider>>),
    Service(oneshot::Sender<ServiceView>),
    Allowed(Caller, Right, Reply<()>),
    Cancel(Caller, String, String, CancelOptions, Reply<CancelReply>),
    Wait(Caller, String, Reply<Ended>),
    Kill(Caller, String, Whom, i32, Reply<()>),
    Send(Caller, String, String, Reply<()>),
    Freeze(Caller, String, bool, Reply<()>),
    Reap(Caller, ReapOptions, Reply<Report>),
    Hold(Caller, String, bool, Reply<()>),
    Forget(Caller, String, bool, Reply<()>),
    Restore(Caller, String, Reply<WorkerId>),
    Stop,
    Drain(Caller, String, DrainOptions, Reply<()>),
    Resume(Caller, Reply<()>),
    Reload(Caller, Reply<u64>),
    Adopt(Caller, OwnedFd, Adoption, Reply<Spawned>),
    Attend(Caller, String, Reply<OwnedFd>),
    Inside(Caller, Reply<WorkerId>),
    Report(WorkerId, Facts, Reply<()>),
    BusQuiet,
}

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, Refused>>;

/// Peers and calls under way: what keeps an idle service from leaving.
#[derive(Debug, Default)]
pub struct Activity {
    busy: AtomicU64,
    quiet_since: AtomicU64,
}

impl Activity {
    /// Counts one peer or call until the guard is dropped.
    pub fn begin(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Busy(Arc::clone(self))
    }

    /// How many there are.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::SeqCst)
    }

    /// For how long there has been none; `None` while there is one.
    pub fn quiet_for(&self, now: Mono) -> Option<Duration> {
        (self.busy.load(Ordering::SeqCst) == 0)
            .then(|| now.since(Mono(self.quiet_since.load(Ordering::SeqCst))))
    }

    /// Nothing has happened up to `now`: the clock of quiet starts here.
    pub fn reset(&self, now: Mono) {
        self.quiet_since.store(now.0, Ordering::SeqCst);
    }
}

/// One peer or call under way.
#[derive(Debug)]
pub struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.reset(crate::sys::clock::now().mono);
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What an idle service asks of whoever holds its doors (the socket, the bus name), in this
/// order. No call may be lost between the decision to leave and the end.
#[derive(Debug)]
pub enum Doors {
    /// Take in no more peers; answer when those already there are counted as busy.
    Pause(oneshot::Sender<()>),
    /// Somebody came: open again.
    Open,
    /// Give the name back and see what had been received answered; answer when that is done.
    Close(oneshot::Sender<()>),
}

/// Cheap to clone; every method may be called from any task.
#[derive(Debug, Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    changes: broadcast::Sender<Change>,
    activity: Arc<Activity>,
    quiet: watch::Receiver<bool>,
}

impl Handle {
    /// Made by the supervisor with its own ends of both channels.
    pub fn new(
        commands: mpsc::Sender<Command>,
        changes: broadcast::Sender<Change>,
        activity: Arc<Activity>,
        quiet: watch::Receiver<bool>,
    ) -> Self {
        Self {
            commands,
            changes,
            activity,
            quiet,
        }
    }

    /// Peers and calls under way; the bus layer counts them here.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    /// Everything that becomes true from now on; a slow reader is told that it lagged.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    pub(super) async fn ask<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, Refused> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(command(reply))
            .await
            .map_err(|_| Refused::ShuttingDown)?;
        answer.await.unwrap_or(Err(Refused::ShuttingDown))
    }

    /// Starts a worker. Answers when the program has been executed, or with what failed.
    pub async fn spawn(&self, by: Caller, spec: Spec, io: Stdio) -> Result<Spawned, Refused> {
        self.ask(|r| Command::Spawn(by, Box::new(spec), io, r))
            .await
    }

    /// The row that `worker` means (order of section 2).
    pub async fn resolve(&self, by: Caller, worker: String) -> Result<WorkerId, Refused> {
        self.ask(|r| Command::Resolve(by, worker, r)).await
    }

    /// The worker that a process belongs to.
    pub async fn by_pid(&self, by: Caller, pid: Pid) -> Result<WorkerId, Refused> {
        self.ask(|r| Command::ByPid(by, pid, r)).await
    }

    /// One page of rows; others' rows redacted.
    pub async fn list(&self, by: Caller, what: ListFilter) -> Result<Vec<WorkerView>, Refused> {
        self.ask(|r| Command::List(by, what, r)).await
    }

    /// One row.
    pub async fn view(&self, by: Caller, worker: String) -> Result<Box<WorkerView>, Refused> {
        self.ask(|r| Command::View(by, worker, r)).await
    }

    /// Processes that do a worker's work from outside its leaf.
    pub async fn outside(&self, by: Caller, worker: String) -> Result<Vec<Outsider>, Refused> {
        self.ask(|r| Command::Outside(by, worker, r)).await
    }

    /// The service as a whole.
    pub async fn service(&self) -> Result<ServiceView, Refused> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(Command::Service(reply))
            .await
            .map_err(|_| Refused::ShuttingDown)?;
        answer.await.map_err(|_| Refused::ShuttingDown)
    }

    /// Is nothing more needed for this? Else [`Refused::NeedsRight`].
    pub async fn allowed(&self, by: Caller, right: Right) -> Result<(), Refused> {
        self.ask(|r| Command::Allowed(by, right, r)).await
    }

    /// Begins a ladder. Answers when it has begun and `stopping` is on disk.
    pub async fn cancel(
        &self,
        by: Caller,
        worker: String,
        reason: String,
        how: CancelOptions,
    ) -> Result<CancelReply, Refused> {
        self.ask(|r| Command::Cancel(by, worker, reason, how, r))
            .await
    }

    /// Answers when the last generation has ended.
    pub async fn wait(&self, by: Caller, worker: String) -> Result<Ended, Refused> {
        self.ask(|r| Command::Wait(by, worker, r)).await
    }

    /// Sends a signal.
    pub async fn kill(
        &self,
        by: Caller,
        worker: String,
        whom: Whom,
        signal: i32,
    ) -> Result<(), Refused> {
        self.ask(|r| Command::Kill(by, worker, whom, signal, r))
            .await
    }

    /// Passes a frame on to a worker: inject, pause or resume, as JSON.
    pub async fn send(&self, by: Caller, worker: String, frame: String) -> Result<(), Refused> {
        self.ask(|r| Command::Send(by, worker, frame, r)).await
    }

    /// Freezes (`true`) or thaws a worker through its leaf.
    pub async fn freeze(&self, by: Caller, worker: String, frozen: bool) -> Result<(), Refused> {
        self.ask(|r| Command::Freeze(by, worker, frozen, r)).await
    }

    /// One sweep of the collector.
    pub async fn reap(&self, by: Caller, options: ReapOptions) -> Result<Report, Refused> {
        self.ask(|r| Command::Reap(by, options, r)).await
    }

    /// Holds (`true`) or releases a row.
    pub async fn hold(&self, by: Caller, worker: String, held: bool) -> Result<(), Refused> {
        self.ask(|r| Command::Hold(by, worker, held, r)).await
    }

    /// Drops a dead row now; a dirty or unprobed worktree needs `force`.
    pub async fn forget(&self, by: Caller, worker: String, force: bool) -> Result<(), Refused> {
        self.ask(|r| Command::Forget(by, worker, force, r)).await
    }

    /// Ends the service as a stop signal does.
    pub async fn stop(&self) {
        // A supervisor that is gone has stopped.
        let _ = self.commands.send(Command::Stop).await;
    }

    /// Replaces the running image by the installed one. Answers the new image's generation when
    /// its trial is passed, before it takes over.
    pub async fn reload(&self, by: Caller) -> Result<u64, Refused> {
        self.ask(|r| Command::Reload(by, r)).await
    }

    /// `true` while a reload is under way and nothing new is to be read.
    pub fn quiet(&self) -> watch::Receiver<bool> {
        self.quiet.clone()
    }

    /// Ends when the supervisor has.
    pub async fn closed(&self) {
        self.commands.closed().await;
    }

    /// All that was received has been answered.
    pub async fn bus_is_quiet(&self) {
        let _ = self.commands.send(Command::BusQuiet).await;
    }

    /// Brings a reaped or forgotten row back.
    pub async fn restore(&self, by: Caller, worker: String) -> Result<WorkerId, Refused> {
        self.ask(|r| Command::Restore(by, worker, r)).await
    }

    /// Closes admission until [`Handle::resume`]. Answers when it is closed and, unless they are
    /// let finish, every ladder has begun.
    pub async fn drain(
        &self,
        by: Caller,
        reason: String,
        how: DrainOptions,
    ) -> Result<(), Refused> {
        self.ask(|r| Command::Drain(by, reason, how, r)).await
    }

    /// Opens admission again.
    pub async fn resume(&self, by: Caller) -> Result<(), Refused> {
        self.ask(|r| Command::Resume(by, r)).await
    }
}
