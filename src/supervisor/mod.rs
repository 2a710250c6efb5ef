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
mod event_loop;
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
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};

use crate::config::Config;
use crate::registry::Registry;
use crate::registry::store::Store;
use crate::registry::writer::Writer;
use crate::sys::cgroup::{Leaf, Tree};
use crate::sys::clock;
use crate::sys::privilege::Privileges;
use crate::sys::process::ProcessRef;
use crate::sys::spawn::{Forker, Ids};
use crate::worker::{NodeId, Owner, Timestamp, WorkerId};

use children::Children;
use counters::Counters;
use deadlines::Deadlines;
use handle::{Activity, Change, Command, Doors, Handle, Queued};
pub use pure::{admission, ladder, life, liveness, restart, settle, step};
use signals::Signals;
pub use stopping::Stopped;
use timers::Timers;

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

    fn spawn_inner(&self, work: impl Future<Output = Inner> + Send + 'static) {
        let inner = self.inner_in.clone();
        tokio::spawn(async move {
            let _ = inner.send(work.await);
        });
    }
}
