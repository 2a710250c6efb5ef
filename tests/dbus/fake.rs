//! A supervisor that answers from a table and remembers what it was asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use musterd::config::LogLevel;
use musterd::dbus::client::Client;
use musterd::dbus::{Limits, LogControl, NoPolkit, Server};
use musterd::gc::report::{Action, Report, ReportRow};
use musterd::supervisor::handle::{
    Caller, CancelReply, CancelState, Change, Command, Ended, Handle, ListView, Queued,
    ServiceView, Spawned, Stdio, WorkerView,
};
use musterd::supervisor::refused::Refused;
use musterd::worker::{
    Exit, HowKnown, Kind, Leftovers, Limits as WorkerLimits, Outcome, Owner, Rung, Spec, Status,
    Timestamp, Tokens, WorkerId,
};
use tokio::sync::{broadcast, mpsc};

/// What it was asked, in words; and the last spec.
#[derive(Default)]
pub struct Seen {
    pub asked: Vec<String>,
    pub spec: Option<(Spec, Stdio)>,
    pub callers: Vec<Caller>,
    /// The next answer is this refusal.
    pub refuse: Option<Refused>,
    /// Commands whose answers are kept back.
    pub hold_back: bool,
    pub kept: Vec<Command>,
}

pub struct Fake {
    pub server: Arc<Server>,
    pub changes: broadcast::Sender<Change>,
    pub seen: Arc<Mutex<Seen>>,
    pub log: Arc<FakeLog>,
}

/// A log that only remembers its level.
#[derive(Debug)]
pub struct FakeLog(pub Mutex<LogLevel>);

impl LogControl for FakeLog {
    fn level(&self) -> LogLevel {
        *self.0.lock().unwrap()
    }

    fn set_level(&self, level: LogLevel) {
        *self.0.lock().unwrap() = level;
    }

    fn to_journal(&self) -> bool {
        true
    }
}

pub fn id(text: &str) -> WorkerId {
    text.parse().unwrap()
}

pub fn view(id: WorkerId) -> WorkerView {
    WorkerView {
        id,
        name: format!("name-{id}"),
        kind: "subagent:seven".into(),
        kind_fields: Kind::Subagent {
            handle: "seven".into(),
        },
        node: None,
        status: Status::Exited,
        health: None,
        status_text: "resting".into(),
        owner: Owner { uid: 7, gid: 8 },
        pid: None,
        parent: None,
        depth: 2,
        msg_depth: 3,
        trace_id: "trace".into(),
        argv: vec!["agent".into(), "--x".into()],
        cwd: "/home/x".into(),
        worktree: Some("/home/x/tree".into()),
        control_group: Some("muster/x".into()),
        created: Timestamp(1_000_001),
        started: Some(Timestamp(1_000_002)),
        exited: Some(Timestamp(1_000_003)),
        age_ms: 12,
        deadline: None,
        outcome: Some(Outcome::Crashed),
        how_known: Some(HowKnown::Waited),
        exit: Some(Exit::Signal(9)),
        oom_killed: true,
        rung: Some(Rung::Kill),
        next_rung: None,
        liveness: None,
        restart_at: None,
        unkillable: false,
        took_usec: Some(55),
        processes: 3,
        note: Some("noted".into()),
        cancelled: None,
        settled: true,
        channel: None,
        frames_skipped: 0,
        held: true,
        attended: false,
        frozen: false,
        stop_by: None,
        adopted: false,
        tokens: Tokens {
            input: 10,
            output: 5,
        },
        restarts: 1,
        reservation: Some(99),
        leftovers: Leftovers {
            count: 2,
            names: vec!["sleep".into()],
        },
        limits: WorkerLimits::default(),
        usage: None,
        unenforced: vec!["memory-max".into()],
        output: None,
        journal: false,
        output_dropped: 0,
        read_only: None,
        generation: 4,
    }
}

/// The same as a row of a list.
fn listed(id: WorkerId) -> ListView {
    let view = view(id);
    ListView {
        id,
        name: view.name,
        kind: view.kind,
        status: view.status,
        health: view.health,
        uid: view.owner.uid,
        pid: 0,
        created: view.created,
        tokens: view.tokens.input + view.tokens.output,
        argv: view.argv,
        cwd: view.cwd,
        worktree: view.worktree,
        started: view.started,
        exited: view.exited,
        outcome: view.outcome,
        exit: view.exit,
        rung: view.rung,
        held: view.held,
        frozen: view.frozen,
        parent: view.parent,
        read_only: view.read_only,
        note: view.note,
        leftovers: view.leftovers.names,
    }
}

fn service() -> ServiceView {
    ServiceView {
        version: "1.2.3".into(),
        pid: 1,
        generation: 1,
        state: "running".into(),
        closed: None,
        containment: "cgroup".into(),
        degraded: vec![],
        n_workers: 2,
        n_adopted: 0,
        n_rows: 3,
        n_quarantined: 0,
        by_status: BTreeMap::new(),
        by_kind: BTreeMap::new(),
        grace_usec: 86_400_000_000,
        started: Timestamp(5),
        last_reap: None,
        state_dir: "/x".into(),
        spawned: 1,
        exits: BTreeMap::new(),
        refused: Default::default(),
        counted: Default::default(),
    }
}

/// Rows of the roll: more than one page of them.
pub fn roll() -> Vec<WorkerId> {
    let mut all: Vec<WorkerId> = (0..2_500).map(WorkerId::from_bits).collect();
    all.sort();
    all
}

impl Fake {
    pub fn start() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        let (commands, mut inbox) = mpsc::channel(64);
        let (changes, _) = broadcast::channel(1024);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let handle = Handle::new(
            commands,
            changes.clone(),
            Arc::default(),
            tokio::sync::watch::channel(false).1,
        );
        let log = Arc::new(FakeLog(Mutex::new(LogLevel::Info)));
        let notes = seen.clone();
        tokio::spawn(async move {
            while let Some(Queued { command, .. }) = inbox.recv().await {
                let mut seen = notes.lock().unwrap();
                if seen.hold_back && !matches!(command, Command::Service(_)) {
                    seen.kept.push(command);
                } else {
                    answer(&mut seen, command);
                }
            }
        });
        Self {
            server: Server::new(handle, Arc::new(NoPolkit), log.clone(), limits),
            changes,
            seen,
            log,
        }
    }

    /// One end of a socket whose other end is served.
    pub fn socket(&self) -> std::os::unix::net::UnixStream {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let theirs = tokio::net::UnixStream::from_std(theirs).unwrap();
        tokio::spawn(self.server.clone().serve_stream(theirs));
        ours
    }

    pub async fn client(&self) -> Client {
        Client::over(self.socket()).await.unwrap()
    }

    pub fn asked(&self) -> Vec<String> {
        self.seen.lock().unwrap().asked.clone()
    }
}

/// Polls until `done`; the bound is for a broken build only.
pub async fn until(mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .expect("the condition never came true");
}

fn answer(seen: &mut Seen, command: Command) {
    macro_rules! reply {
        ($by:expr, $to:expr, $note:expr, $answer:expr) => {{
            seen.callers.push($by);
            seen.asked.push($note);
            let answer = match seen.refuse.take() {
                Some(refused) => Err(refused),
                None => $answer,
            };
            // A caller that has gone is no fault here.
            let _ = $to.send(answer);
        }};
    }
    let named = |worker: &str| match worker {
        "missing" => Err(Refused::NoSuchWorker(worker.into())),
        _ => Ok(worker.parse().unwrap_or(id("0000000a"))),
    };
    match command {
        Command::Reload(by, to) => reply!(by, to, "reload".into(), Ok(2)),
        Command::Adopt(by, _, how, to) => {
            let spawned = Spawned {
                id: id("0000000a"),
                unenforced: vec![],
                durable: true,
            };
            reply!(by, to, format!("adopt {how:?}"), Ok(spawned))
        }
        Command::Attend(by, worker, to) => {
            let (theirs, _) = rustix::pipe::pipe().unwrap();
            reply!(
                by,
                to,
                format!("attend {worker}"),
                named(&worker).map(|_| theirs)
            )
        }
        Command::Inside(by, to) => reply!(by, to, "inside".into(), Ok(id("0000000a"))),
        Command::Report(worker, facts, to) => {
            seen.asked.push(format!("report {worker} {facts:?}"));
            let _ = to.send(Ok(()));
        }
        Command::BusQuiet | Command::Stop => {}
        Command::Outside(_, _, reply) => {
            let _ = reply.send(Ok(Vec::new()));
        }
        Command::Allowed(_, _, to) => {
            let _ = to.send(seen.refuse.take().map_or(Ok(()), Err));
        }
        Command::Spawn(by, spec, io, to) => {
            seen.spec = Some((*spec, io));
            let spawned = Spawned {
                id: id("0000000a"),
                unenforced: vec!["memory-max".into()],
                durable: true,
            };
            reply!(by, to, "spawn".into(), Ok(spawned))
        }
        Command::Resolve(by, worker, to) => {
            reply!(by, to, format!("resolve {worker}"), named(&worker))
        }
        Command::ByPid(by, pid, to) => reply!(by, to, format!("pid {pid}"), named("x")),
        Command::List(by, filter, to) => {
            let limit = match filter.limit {
                0 => 1000,
                n => (n as usize).min(1000),
            };
            let rows = roll().into_iter().filter(|id| Some(*id) > filter.after);
            let page = rows.take(limit).map(listed).collect();
            reply!(by, to, format!("list {filter:?}"), Ok(page))
        }
        Command::Views(by, filter, to) => {
            let page = roll().into_iter().take(1000).map(view).collect();
            reply!(by, to, format!("views {filter:?}"), Ok(page))
        }
        Command::View(by, worker, to) => {
            let row = named(&worker).map(|id| Box::new(view(id)));
            reply!(by, to, format!("view {worker}"), row)
        }
        Command::Service(to) => {
            let _ = to.send(service());
        }
        Command::Cancel(by, worker, reason, options, to) => {
            let found = CancelReply {
                state: CancelState::Begun,
                durable: true,
                descendants: vec![id("0000000b")],
                outcome: None,
            };
            let note = format!("cancel {worker} {reason} {options:?}");
            reply!(by, to, note, named(&worker).map(|_| found))
        }
        Command::Wait(by, worker, to) => {
            let ended = Ended {
                outcome: Outcome::Crashed,
                view: Box::new(view(id("0000000a"))),
            };
            reply!(
                by,
                to,
                format!("wait {worker}"),
                named(&worker).map(|_| ended)
            )
        }
        Command::Kill(by, worker, whom, signal, to) => {
            let note = format!("kill {worker} {whom:?} {signal}");
            reply!(by, to, note, named(&worker).map(|_| ()))
        }
        Command::Send(by, worker, frame, to) => {
            reply!(by, to, format!("send {worker} {frame}"), Ok(()))
        }
        Command::Freeze(by, worker, frozen, to) => {
            reply!(by, to, format!("freeze {worker} {frozen}"), Ok(()))
        }
        Command::Reap(by, options, to) => {
            let row = ReportRow {
                id: id("0000000a"),
                name: "n".into(),
                action: Action::Keep,
                reason: "within-grace".into(),
                seconds_left: Some(-3),
                detail: "d".into(),
                since: Some(Timestamp(4)),
            };
            let report = Report {
                counts: BTreeMap::from([("keep".into(), 1), ("reap".into(), 0)]),
                rows: vec![row],
                ..Report::default()
            };
            reply!(by, to, format!("reap {options:?}"), Ok(report))
        }
        Command::Hold(by, worker, held, to) => {
            reply!(by, to, format!("hold {worker} {held}"), Ok(()))
        }
        Command::Forget(by, worker, force, to) => {
            reply!(by, to, format!("forget {worker} {force}"), Ok(()))
        }
        Command::Drain(by, reason, options, to) => {
            reply!(by, to, format!("drain {reason} {options:?}"), Ok(()))
        }
        Command::Resume(by, to) => reply!(by, to, "resume".into(), Ok(())),
        Command::Restore(by, worker, to) => {
            reply!(by, to, format!("restore {worker}"), named(&worker))
        }
    }
}
