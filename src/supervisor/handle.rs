//! The door to the supervisor: commands in, replies and changes out. Callers hold a [`Handle`];
//! only the supervisor's task holds the state.

mod activity;
mod words;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::adopt::Adoption;
use super::outside::Outsider;
use super::refused::Refused;
use super::report::Facts;
pub use super::views::{ListView, Liveness, ServiceView, Usage, WorkerView};
use crate::gc::report::Report;
use crate::worker::{Mono, Pid, Spec, WorkerId};
pub use activity::{Activity, Busy};
pub use words::{
    Caller, CancelOptions, CancelReply, CancelState, Change, DrainOptions, Ended, ListFilter,
    ReapOptions, Right, Spawned, Stdio, Whom,
};

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
    List(Caller, ListFilter, Reply<Vec<ListView>>),
    Views(Caller, ListFilter, Reply<Vec<WorkerView>>),
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

/// A command and the moment it was sent.
#[derive(Debug)]
pub struct Queued {
    /// What is asked.
    pub command: Command,
    /// When.
    pub at: Mono,
}

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, Refused>>;

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
    commands: mpsc::Sender<Queued>,
    changes: broadcast::Sender<Change>,
    activity: Arc<Activity>,
    quiet: watch::Receiver<bool>,
}

impl Handle {
    /// Made by the supervisor with its own ends of both channels.
    pub fn new(
        commands: mpsc::Sender<Queued>,
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
        self.send_command(command(reply)).await?;
        answer.await.unwrap_or(Err(Refused::ShuttingDown))
    }

    async fn send_command(&self, command: Command) -> Result<(), Refused> {
        let at = crate::sys::clock::now().mono;
        let queued = Queued { command, at };
        let sent = self.commands.send(queued).await;
        sent.map_err(|_| Refused::ShuttingDown)
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
    pub async fn list(&self, by: Caller, what: ListFilter) -> Result<Vec<ListView>, Refused> {
        self.ask(|r| Command::List(by, what, r)).await
    }

    /// The same with everything about each.
    pub async fn views(&self, by: Caller, what: ListFilter) -> Result<Vec<WorkerView>, Refused> {
        self.ask(|r| Command::Views(by, what, r)).await
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
        self.send_command(Command::Service(reply)).await?;
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
        let _ = self.send_command(Command::Stop).await;
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
        let _ = self.send_command(Command::BusQuiet).await;
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
