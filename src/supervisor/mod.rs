//! The one owner of state. One task handles every event and makes every change, so that nobody
//! has to think about two at a time: commands come in by the [`handle::Handle`], the ends of
//! children by the epoll set of `children`, time by `timers`, and what was started off the
//! loop (forks, writes, scans, sweeps) comes back as `Inner`.
//!
//! ```text
//! wait for one of them -> read the clock once -> decide (step, admission, gc: pure) -> perform
//! ```

pub mod adopt;
pub mod again;
pub mod attend;
mod begin;
mod belonging;
mod channel;
mod children;
mod containment;
pub mod counters;
mod deadlines;
mod drain;
mod ended;
mod ending;
mod fault;
pub mod handle;
pub mod handover;
mod health;
pub mod helper;
mod hook;
mod idle;
mod journal;
mod looking;
mod lookup;
mod members;
mod notified;
pub mod notify;
pub mod output;
pub mod outside;
mod prepare;
mod pressure;
pub mod pure;
pub mod reconcile;
pub mod refused;
pub mod reload;
pub mod report;
mod requests;
mod restore;
mod resume;
mod saving;
mod settling;
pub mod signals;
mod socket;
mod stopping;
mod strangers;
mod sweep;
mod taking;
mod timers;
pub mod unrecorded;
mod verbs;
mod verdicts;
mod view;
pub mod views;
mod wall_clock;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, mpsc};

use crate::config::Config;
use crate::registry::Registry;
use crate::registry::store::Store;
use crate::registry::writer::Writer;
use crate::sys::cgroup::{Leaf, Tree};
use crate::sys::privilege::Privileges;
use crate::sys::process::ProcessRef;
use crate::sys::spawn::{Forker, Ids};
use crate::sys::{clock, systemd};
use crate::worker::{NodeId, Now, Owner, Timestamp, WorkerId};

use children::{Children, Ready};
use counters::Counters;
use deadlines::Deadlines;
use handle::{Activity, Change, Command, Doors, Handle, Queued};
pub use pure::{admission, ladder, life, liveness, restart, settle, step};
use signals::Signals;
pub use stopping::Stopped;
use timers::{Key, Timers};

/// What the supervisor is told at its start and never changes.
#[derive(Debug)]
pub struct Settings {
    /// Configuration.
    pub config: Config,
    /// State directory.
    pub state_dir: PathBuf,
    /// Runtime directory: workers' private directories lie below it.
    pub runtime_dir: PathBuf,
    /// The socket workers are told of.
    pub socket: PathBuf,
    /// Our own ids.
    pub me: Owner,
    /// What we may do to others' processes.
    pub privileges: Privileges,
    /// The service manager wants to hear of a pass of the loop so often.
    pub watchdog: Option<Duration>,
    /// The system instance: workers run as who asks for them. A user's runs all as itself.
    pub system: bool,
    /// journald's socket for workers' output; `None` for files.
    pub journal: Option<PathBuf>,
    /// Leave after so much idleness; `None` to stay.
    pub idle_exit: Option<Duration>,
    /// Descriptor limit that workers get back.
    pub nofile: Option<(u64, u64)>,
    /// Counts re-executions.
    pub generation: u64,
    /// How to execute ourselves again.
    pub again: reload::Again,
}

impl Settings {
    /// The ids that a child of this owner takes; `None` to stay as we are.
    fn ids_of(&self, owner: Owner, groups: Vec<u32>) -> Option<Ids> {
        (self.privileges.other_ids && owner.uid != self.me.uid).then_some(Ids {
            uid: owner.uid,
            gid: owner.gid,
            groups,
        })
    }
}

/// What the daemon brings up before the supervisor.
#[derive(Debug)]
pub struct Parts {
    /// The roll as loaded and reconciled.
    pub registry: Registry,
    /// The state directory.
    pub store: Arc<Store>,
    /// Its writer.
    pub writer: Writer,
    /// Where leaves are made, or why there are none.
    pub tree: Result<Tree, String>,
    /// The main thread's hand.
    pub forker: Forker,
    /// Signals to the daemon.
    pub signals: Signals,
    /// Files in quarantine.
    pub quarantined: u32,
    /// What does not work as it should, each a sentence.
    pub degraded: Vec<String>,
    /// Wall clock minus boot-time clock as last written down; microseconds.
    pub clock: Option<i64>,
    /// Rows that the reconcile settled.
    pub settled: Vec<WorkerId>,
    /// Adopted rows whose process still runs.
    pub adopted: Vec<(WorkerId, ProcessRef)>,
    /// Whoever holds the doors.
    pub doors: mpsc::UnboundedSender<Doors>,
}

/// A worker between its Spawn and its exec.
#[derive(Debug)]
struct Starting {
    node: NodeId,
    /// It is to be ended as soon as it runs; with `true` at once.
    cancel: Option<bool>,
    waiters: Vec<saving::Waiter>,
}

/// What comes back from off the loop.
#[derive(Debug)]
enum Inner {
    Started(Box<begin::StartResult>),
    StoppingSaved {
        node: NodeId,
        durable: bool,
    },
    Scanned(std::io::Result<strangers::Scan>),
    Swept(Box<sweep::Swept>),
    Restored(Box<restore::RestoredRow>),
    LookedAt(Box<adopt::LookedAt>),
    OutputCut(Vec<(WorkerId, u64)>),
    HelperWanted(helper::Wish),
    HelperStarted(Box<helper::Launched>),
    HelperUnwanted(NodeId),
    ClearWanted(Ids, PathBuf),
    Cleared,
    HookStarted(Box<hook::HookStarted>),
    TrialRuns {
        node: NodeId,
        started: Box<crate::sys::spawn::Started>,
    },
    Tried {
        node: NodeId,
        verdict: Result<(), String>,
    },
    Asked {
        node: NodeId,
        id: u64,
        asked: Box<requests::Asked>,
    },
}

/// The owner of the roll.
#[derive(Debug)]
pub struct Supervisor {
    set: Arc<Settings>,
    registry: Registry,
    store: Arc<Store>,
    writer: Writer,
    tree: Result<Tree, String>,
    forker: Forker,
    signals: Signals,
    children: Children,
    commands: mpsc::Receiver<Queued>,
    inner: mpsc::UnboundedReceiver<Inner>,
    inner_in: mpsc::UnboundedSender<Inner>,
    changes: broadcast::Sender<Change>,
    activity: Arc<Activity>,
    timers: Timers,
    starting: HashMap<WorkerId, Starting>,
    /// Commands of processes whose worker is still being started.
    early: Vec<Command>,
    lazy: HashSet<WorkerId>,
    again: again::State,
    pressure: pressure::Cache,
    helpers: HashMap<NodeId, helper::Helper>,
    helpers_starting: HashSet<NodeId>,
    lookers: looking::Lookers,
    /// Requests of workers whose answers are on their way.
    asked: usize,
    hooks: HashMap<NodeId, hook::Hook>,
    deadlines: Deadlines,
    stale_leaves: Vec<(Leaf, u32)>,
    journal_streams: Option<HashSet<NodeId>>,
    strangers: strangers::State,
    sweeps: sweep::State,
    drain: Option<drain::Drain>,
    reload: reload::State,
    quiesce: tokio::sync::watch::Sender<bool>,
    leaving: idle::Leaving,
    doors: mpsc::UnboundedSender<Doors>,
    started: Timestamp,
    last_reap: Option<Timestamp>,
    quarantined: u32,
    degraded: Vec<String>,
    counters: Counters,
    clock: Option<i64>,
}

/// Commands waiting for the loop at most; more make the bus wait.
const QUEUE: usize = 1024;
/// Changes a slow listener may lag behind.
const CHANGES: usize = 8192;
/// What one kind of work may take of a pass of the loop before the others have their turn. One
/// thing may take longer; the next is not begun.
const SHARE: Duration = Duration::from_micros(200);
/// Tasks that a call passes through one after the other on its way here or back, on this thread:
/// all of them get their turn before the next work of this task.
const HOPS: u32 = 4;
/// Channels and sweeps have their turn when nothing else is to be done, and at the latest after
/// so long.
const BACKGROUND_WAIT: Duration = Duration::from_millis(2);

enum Turn {
    Command(Queued),
    Ready,
    Inner(Inner),
    Signal(i32),
    Deadline,
    Doors,
    Time,
    Background,
}

/// The bus runs on this thread too.
async fn let_others() {
    for _ in 0..HOPS {
        tokio::task::yield_now().await;
    }
}

impl Supervisor {
    /// Puts the parts together. Needs a tokio runtime.
    pub fn new(
        set: Settings,
        parts: Parts,
        before: Option<handover::Handover>,
    ) -> std::io::Result<(Self, Handle)> {
        let (commands_in, commands) = mpsc::channel(QUEUE);
        let (inner_in, inner) = mpsc::unbounded_channel();
        let (changes, _) = broadcast::channel(CHANGES);
        let activity = Arc::new(Activity::default());
        let (quiesce, quiet) = tokio::sync::watch::channel(false);
        let handle = Handle::new(commands_in, changes.clone(), Arc::clone(&activity), quiet);
        let mut supervisor = Self {
            set: Arc::new(set),
            registry: parts.registry,
            store: parts.store,
            writer: parts.writer,
            tree: parts.tree,
            forker: parts.forker,
            signals: parts.signals,
            children: Children::new(NodeId(1))?,
            commands,
            inner,
            inner_in,
            changes,
            activity,
            timers: Timers::default(),
            starting: HashMap::new(),
            early: Vec::new(),
            lazy: parts.settled.into_iter().collect(),
            again: again::State::default(),
            pressure: pressure::Cache::default(),
            helpers: HashMap::new(),
            helpers_starting: HashSet::new(),
            lookers: looking::Lookers::default(),
            asked: 0,
            hooks: HashMap::new(),
            deadlines: Deadlines::new()?,
            stale_leaves: Vec::new(),
            journal_streams: None,
            strangers: strangers::State::default(),
            sweeps: sweep::State::default(),
            drain: None,
            leaving: idle::Leaving::default(),
            doors: parts.doors,
            reload: reload::State::None,
            quiesce,
            started: clock::now().wall,
            last_reap: None,
            quarantined: parts.quarantined,
            degraded: parts.degraded,
            counters: Counters::default(),
            clock: parts.clock,
        };
        if let Some(before) = before {
            supervisor.resume(before)?;
        }
        supervisor.take_back(parts.adopted);
        Ok((supervisor, handle))
    }

    /// Runs until the service is to end; then everything is on disk.
    pub async fn run(mut self) -> Stopped {
        let mut ready = Vec::new();
        let mut last_background = Instant::now();
        self.watch_disk();
        self.correct_clock(clock::now());
        self.save_changed_rows();
        self.activity.reset(clock::now().mono);
        self.schedule_sweep(clock::now());
        self.look_for_idleness(clock::now());
        self.tell_watchdog(clock::now());
        loop {
            let turn = self.turn(&mut ready).await;
            let background = matches!(turn, Turn::Background);
            match turn {
                Turn::Command(command) => self.commands_in_batch(command),
                Turn::Ready => {
                    self.handle_ready(std::mem::take(&mut ready));
                    self.give_turns().await;
                }
                Turn::Inner(inner) => self.handle_inner(inner),
                Turn::Signal(signal) => self.handle_signal(signal),
                Turn::Time => self.give_turns().await,
                Turn::Doors => self.doors_answered(clock::now()),
                Turn::Deadline => self.handle_deadlines(clock::now()),
                // The pass below.
                Turn::Background => {}
            }
            if background || last_background.elapsed() >= BACKGROUND_WAIT {
                let (channels, sweep) = (self.channel_pass(), self.sweep_pass());
                if channels || sweep {
                    let_others().await;
                }
                last_background = Instant::now();
            }
            if let Some(stopped) = self.is_over(clock::now()) {
                self.close().await;
                return stopped;
            }
        }
    }

    async fn turn(&mut self, ready: &mut Vec<Ready>) -> Turn {
        let sleep = self.timers.next().map(|due| due.since(clock::now().mono));
        let time = async {
            match sleep {
                // A sleep of no length would wait for the reactor's next turn.
                Some(Duration::ZERO) => {}
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            signal = self.signals.recv() => Turn::Signal(signal),
            looked = self.children.ready(ready) => {
                if let Err(error) = looked {
                    tracing::error!(%error, "cannot watch the children");
                }
                Turn::Ready
            }
            Some(inner) = self.inner.recv() => Turn::Inner(inner),
            () = time => Turn::Time,
            () = self.deadlines.reached() => Turn::Deadline,
            () = self.leaving.answer() => Turn::Doors,
            // Nobody holds the handle any more: no command comes, the rest goes on.
            Some(command) = self.commands.recv() => Turn::Command(command),
            // Last: what workers write and what sweeps find waits for everything else.
            () = std::future::ready(()), if self.sweeps.has_work() => Turn::Background,
            looked = self.children.channel_ready(), if !self.is_reloading() => {
                if let Err(error) = looked {
                    tracing::error!(%error, "cannot watch the control channels");
                }
                Turn::Background
            }
        }
    }

    /// The children and the timers come first; what always has something to say must not make
    /// everybody else wait for ever.
    async fn give_turns(&mut self) {
        let began = Instant::now();
        while began.elapsed() < SHARE {
            match self.inner.try_recv() {
                Ok(inner) => self.handle_inner(inner),
                Err(_) => break,
            }
        }
        self.handle_time(clock::now());
        self.handle_deadlines(clock::now());
        if let Ok(command) = self.commands.try_recv() {
            self.commands_in_batch(command);
        }
        let_others().await;
    }

    /// Takes what else is waiting too, so that a burst of calls costs one round of the loop.
    fn commands_in_batch(&mut self, first: Queued) {
        let (began, now) = (Instant::now(), clock::now().mono);
        let mut next = Some(first);
        while let Some(queued) = next {
            self.counters.lag.add(now.since(queued.at));
            self.handle_command(queued.command);
            next = match began.elapsed() < SHARE {
                true => self.commands.try_recv().ok(),
                false => None,
            };
        }
    }

    fn handle_ready(&mut self, ready: Vec<Ready>) {
        let began = Instant::now();
        for ready in ready {
            // What is left is ready still, and the set says so again.
            if began.elapsed() >= SHARE {
                break;
            }
            match ready {
                Ready::Leader(node) => self.leader_ready(node),
                Ready::Leaf(node) => self.leaf_ready(node),
                Ready::Tracked(node) => self.tracked_ready(node),
                Ready::Helper(node) => self.helper_ready(node),
                Ready::Notify(node) => self.notify_ready(node, clock::now()),
                Ready::Attendance(key) => self.attendance_ended(key),
            }
        }
    }

    fn handle_inner(&mut self, inner: Inner) {
        match inner {
            Inner::Started(result) => self.start_ended(*result),
            Inner::StoppingSaved { node, durable } => self.stopping_saved(node, durable),
            Inner::Scanned(scan) => self.scanned(scan),
            Inner::Swept(swept) => self.swept(*swept),
            Inner::LookedAt(looked) => self.adopted(*looked),
            Inner::Restored(restored) => self.restored(*restored),
            Inner::OutputCut(cut) => self.output_cut(cut),
            Inner::HelperWanted(wish) => self.launch_helper(wish),
            Inner::HelperStarted(launched) => self.helper_started(*launched),
            Inner::HelperUnwanted(node) => self.kill_helper(node),
            Inner::ClearWanted(ids, dir) => self.clear_dir(ids, dir),
            Inner::Cleared => {}
            Inner::HookStarted(started) => self.hook_started(*started),
            Inner::TrialRuns { node, started } => self.trial_runs(node, *started),
            Inner::Tried { node, verdict } => self.tried(node, verdict),
            Inner::Asked { node, id, asked } => self.request_done(node, id, *asked),
        }
    }

    fn handle_signal(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => self.child_signal(clock::now()),
            libc::SIGTERM | libc::SIGINT => self.stop(clock::now()),
            _ => {}
        }
    }

    /// Takes up some of what is due; the rest is due still.
    fn handle_time(&mut self, now: Now) {
        let began = Instant::now();
        while began.elapsed() < SHARE
            && let Some((due, key)) = self.timers.pop(now.mono)
        {
            self.counters.lag.add(now.mono.since(due));
            match key {
                Key::Node(node) => self.tick(node),
                Key::Listen(node) => self.listen_again(node),
                Key::Stopping(node) => self.stops_too_long(node),
                Key::Life(node) => self.look_at_life(node, now),
                Key::Restart(id) => self.restart_due(id, now),
                Key::Hook(node) => self.end_hook(node, "took too long and was killed"),
                Key::LazySave => self.save_changed_rows(),
                Key::StaleLeaves => self.remove_stale_leaves(now),
                Key::Output => self.cut_output(),
                Key::Strangers => self.scan(),
                Key::Sweep => self.own_sweep(now),
                Key::Lookers => self.end_lookers(now),
                Key::Idle => self.look_for_idleness(now),
                Key::Watchdog => self.tell_watchdog(now),
                Key::Reload => self.give_up_reload(),
                Key::Drain => {}
            }
        }
    }

    /// Said from the loop, whose pass brought us here: a loop that hangs says nothing.
    fn tell_watchdog(&mut self, now: Now) {
        if let Some(interval) = self.set.watchdog {
            systemd::alive();
            self.timers
                .set(Key::Watchdog, Some(now.mono.plus(interval / 2)));
        }
    }

    fn spawn_inner(&self, work: impl Future<Output = Inner> + Send + 'static) {
        let inner = self.inner_in.clone();
        tokio::spawn(async move {
            let _ = inner.send(work.await);
        });
    }
}
