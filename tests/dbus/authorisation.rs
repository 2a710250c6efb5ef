//! Section 15 as a table: method × caller × own and foreign row × bus and socket, before the real
//! supervisor and an authority that answers by uid. Callers are threads with other ids, so this
//! runs as root only.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use musterd::config::{Config, LogLevel};
use musterd::dbus::auth::{Answer, Subject};
use musterd::dbus::client::{CallError, Client};
use musterd::dbus::errors::Code;
use musterd::dbus::{Authority, Limits, Server};
use musterd::registry::Registry;
use musterd::registry::store::Store;
use musterd::registry::writer::Writer;
use musterd::supervisor::adopt::Adoption;
use musterd::supervisor::handle::{
    CancelOptions, DrainOptions, ListFilter, ReapOptions, Right, Stdio, Whom,
};
use musterd::supervisor::reload::Again;
use musterd::supervisor::report::Facts;
use musterd::supervisor::signals::Signals;
use musterd::supervisor::{Parts, Settings, Supervisor};
use musterd::sys::fdslots::Slots;
use musterd::sys::privilege::Privileges;
use musterd::sys::spawn::{forker, main_thread};
use musterd::worker::{Outcome, Owner, Row, Spec, Status, Timestamp, WorkerId, WorktreeChoice};

use crate::bus::Bus;
use crate::fake::FakeLog;

/// Root.
const ROOT: u32 = 0;
/// The daemon's own user.
const DAEMON: u32 = 4;
/// A user as polkit's defaults see one.
const ALICE: u32 = 1;
/// A user whom rules deny everything.
const CAROL: u32 = 3;
/// A user whom rules allow everything.
const ADMIN: u32 = 5;
const CALLERS: [u32; 5] = [ROOT, DAEMON, ALICE, CAROL, ADMIN];
/// Only owns a row.
const BOB: u32 = 2;

/// What every text of a row holds that only its owner may see.
const SECRET: &str = "secret";

/// polkit's rules, and what it was asked.
#[derive(Debug, Default)]
struct Rules {
    asked: Mutex<Vec<(u32, Right, bool)>>,
}

impl Authority for Rules {
    fn check<'a>(
        &'a self,
        subject: &'a Subject,
        right: Right,
        interactive: bool,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move {
            let uid = match subject {
                Subject::Peer { uid, .. } => *uid,
                Subject::Bus { connection, name } => {
                    let bus = zbus::fdo::DBusProxy::new(connection).await.unwrap();
                    let name = zbus::names::BusName::try_from(name.as_str()).unwrap();
                    bus.get_connection_unix_user(name).await.unwrap()
                }
            };
            self.asked.lock().unwrap().push((uid, right, interactive));
            match (uid, right) {
                (ADMIN, _) | (ALICE, Right::Spawn | Right::ListAll) => Ok(()),
                _ => Err("the rules say no".to_owned().into()),
            }
        })
    }
}

fn row(number: u64, uid: u32) -> Row {
    let id = WorkerId::from_bits(number);
    let mut row = Row::new(id, Owner { uid, gid: uid }, Timestamp(1));
    row.name = format!("{SECRET}-name-{uid}");
    row.argv = vec!["true".into(), SECRET.into()];
    row.cwd = PathBuf::from(format!("/{SECRET}"));
    row.trace_id = format!("{SECRET}-trace");
    row.note = Some(SECRET.to_owned());
    row.leftovers.names = vec![SECRET.to_owned()];
    row.leftovers.count = 1;
    row.status = Status::Exited;
    row.outcome = Some(Outcome::Completed);
    row.exited = Some(Timestamp(2));
    row
}

fn own_row(uid: u32) -> String {
    WorkerId::from_bits(100 + u64::from(uid)).to_string()
}

fn foreign_row() -> String {
    own_row(BOB)
}

/// The real thing in directories of its own, whose own user is [`DAEMON`].
struct World {
    dir: tempfile::TempDir,
    rules: Arc<Rules>,
    server: Arc<Server>,
    log: Arc<FakeLog>,
}

impl World {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        open_to_all(dir.path(), 0o711);
        let store = Arc::new(Store::open(dir.path()).unwrap());
        let mut registry = Registry::new();
        for uid in CALLERS.into_iter().chain([BOB]) {
            let row = row(100 + u64::from(uid), uid);
            registry.insert(row, None).unwrap();
        }
        let slots = Slots::reserve().unwrap();
        let (forker, jobs) = forker(slots, Duration::from_secs(10)).unwrap();
        std::thread::spawn(move || main_thread(jobs));
        for part in ["output", "w"] {
            std::fs::create_dir(dir.path().join(part)).unwrap();
        }
        // Workers' directories are made with their owners' ids and our group.
        open_to_all(&dir.path().join("w"), 0o771);
        let settings = Settings {
            config: Config::default(),
            state_dir: dir.path().into(),
            runtime_dir: dir.path().into(),
            socket: dir.path().join("sock"),
            me: Owner {
                uid: DAEMON,
                gid: DAEMON,
            },
            privileges: Privileges {
                other_ids: true,
                drop_bounding: false,
            },
            watchdog: None,
            system: true,
            journal: None,
            idle_exit: None,
            nofile: None,
            generation: 1,
            again: Again {
                image: "/nonexistent/musterd".into(),
                args: Vec::new(),
            },
        };
        let parts = Parts {
            registry,
            writer: Writer::start(store.clone()).unwrap(),
            store,
            tree: Err("a test".to_owned()),
            forker,
            signals: Signals::new().unwrap(),
            quarantined: 0,
            degraded: Vec::new(),
            clock: None,
            adopted: Vec::new(),
            settled: Vec::new(),
            doors: tokio::sync::mpsc::unbounded_channel().0,
        };
        let (supervisor, handle) = Supervisor::new(settings, parts, None).unwrap();
        tokio::spawn(supervisor.run());
        let rules = Arc::new(Rules::default());
        let log = Arc::new(FakeLog(Mutex::new(LogLevel::Info)));
        let server = Server::new(handle, rules.clone(), log.clone(), Limits::default());
        Self {
            dir,
            rules,
            server,
            log,
        }
    }

    fn listen(&self) -> Way {
        let path = self.dir.path().join("sock");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        open_to_all(&path, 0o666);
        tokio::spawn(self.server.clone().serve_socket(listener.into()));
        Way::Socket(path)
    }
}

fn open_to_all(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// How a caller comes.
#[derive(Debug, Clone)]
enum Way {
    Socket(PathBuf),
    Bus(String),
}

impl Way {
    async fn client(&self) -> Client {
        match self {
            Way::Socket(path) => Client::peer(path).await.unwrap(),
            Way::Bus(address) => Client::bus(address).await.unwrap(),
        }
    }
}

/// Runs a caller in a thread with these ids; credentials are the thread's on Linux.
async fn as_user<T, F>(uid: u32, work: impl FnOnce() -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let thread = move || {
        use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
        let (u, g) = (
            rustix::fs::Uid::from_raw(uid),
            rustix::fs::Gid::from_raw(uid),
        );
        set_thread_groups(&[g]).unwrap();
        set_thread_res_gid(g, g, g).unwrap();
        set_thread_res_uid(u, u, u).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(work())
    };
    let (send, receive) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || send.send(thread()));
    receive.await.expect("the caller's thread panicked")
}

/// What a cell of the table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// Carried out, or refused for another reason than rights.
    Yes,
    /// Ids and states without text.
    Redacted,
    /// AccessDenied.
    No,
}
use Cell::{No, Redacted, Yes};

fn done<T>(result: Result<T, CallError>) -> Cell {
    match result {
        Err(error) if error.code() == Some(Code::AccessDenied) => No,
        Err(CallError::Unreachable(why) | CallError::BadReply(why)) => panic!("{why}"),
        _ => Yes,
    }
}

fn seen<T: std::fmt::Debug>(result: Result<T, CallError>) -> Cell {
    match result {
        Ok(answer) if format!("{answer:?}").contains(SECRET) => Yes,
        Ok(_) => Redacted,
        Err(error) => {
            assert_eq!(error.code(), Some(Code::AccessDenied), "{error}");
            No
        }
    }
}

/// Of callers root, the daemon's user, alice, carol, admin on a row of somebody else.
const FOREIGN: &[(&str, [Cell; 5])] = &[
    ("GetWorker", [Yes, Yes, Yes, No, Yes]),
    ("Status", [Yes, Yes, Redacted, No, Yes]),
    ("Properties", [Yes, Yes, Redacted, No, Yes]),
    ("Cancel", [Yes, Yes, No, No, Yes]),
    ("Wait", [Yes, Yes, No, No, Yes]),
    ("Kill", [Yes, Yes, No, No, Yes]),
    ("Send", [Yes, Yes, No, No, Yes]),
    ("Freeze", [Yes, Yes, No, No, Yes]),
    ("Thaw", [Yes, Yes, No, No, Yes]),
    ("Attend", [Yes, Yes, No, No, Yes]),
    ("Hold", [Yes, Yes, No, No, Yes]),
    ("Reap it", [Yes, Yes, No, No, Yes]),
    ("Forget", [Yes, Yes, No, No, Yes]),
    ("Restore", [Yes, Yes, No, No, Yes]),
];

/// Of the same callers, about no row.
const SERVICE: &[(&str, [Cell; 5])] = &[
    ("Spawn", [Yes, Yes, Yes, No, Yes]),
    ("Spawn as another", [Yes, No, No, No, No]),
    ("Adopt", [Yes, Yes, Yes, No, Yes]),
    ("Adopt another's", [Yes, No, No, No, No]),
    ("Report", [Yes, Yes, Yes, Yes, Yes]),
    ("Drain", [Yes, Yes, No, No, Yes]),
    ("Resume", [Yes, Yes, No, No, Yes]),
    ("LogLevel", [Yes, Yes, No, No, Yes]),
    ("Reload", [Yes, Yes, No, No, Yes]),
];

async fn on_row(client: &Client, method: &str, id: &str) -> Cell {
    let dry = ReapOptions {
        dry_run: true,
        workers: vec![id.to_owned()],
        ..ReapOptions::default()
    };
    match method {
        "GetWorker" => done(client.get_worker(id).await),
        "Status" => seen(client.status(id).await),
        "Properties" => seen(client.worker_properties(id).await),
        "Cancel" => done(client.cancel(id, "why", CancelOptions::default()).await),
        "Wait" => done(client.wait(id).await),
        "Kill" => done(client.kill(id, Whom::All, 15).await),
        "Send" => done(client.send(id, "{\"type\":\"pause\"}").await),
        "Freeze" => done(client.freeze(id, true).await),
        "Thaw" => done(client.freeze(id, false).await),
        "Attend" => done(client.attend(id).await),
        "Hold" => done(client.hold(id, false).await),
        "Reap it" => done(client.reap(&dry).await),
        "Forget" => done(client.forget(id, true).await),
        "Restore" => done(client.restore(id).await),
        other => panic!("{other}"),
    }
}

async fn on_service(client: &Client, method: &str, uid: u32, sleepers: &Sleepers) -> Cell {
    let mut spec = Spec {
        argv: vec!["/nonexistent/program".into()],
        cwd: "/".into(),
        ..Spec::default()
    };
    match method {
        "Spawn" => done(client.spawn(&spec, Stdio::default()).await),
        "Spawn as another" => {
            spec.uid = Some(if uid == BOB { ALICE } else { BOB });
            done(client.spawn(&spec, Stdio::default()).await)
        }
        "Adopt" => done(sleepers.adopt(client, uid).await),
        "Adopt another's" => done(sleepers.adopt(client, BOB).await),
        // From outside of every worker it fails for everybody, and not for want of a right.
        "Report" => {
            let facts = Facts {
                progress: true,
                ..Facts::default()
            };
            let answer = client.report(&facts).await;
            assert_eq!(answer.clone().unwrap_err().code(), Some(Code::NoSuchWorker));
            done(answer)
        }
        "Drain" => {
            let options = DrainOptions {
                wait: true,
                exit: false,
            };
            done(client.drain("a test", options).await)
        }
        "Resume" => done(client.resume().await),
        "Reload" => done(client.reload().await),
        "LogLevel" => done(client.set_log_level("debug").await),
        other => panic!("{other}"),
    }
}

/// A process of each uid, to be adopted.
struct Sleepers(HashMap<u32, (std::process::Child, OwnedFd)>);

impl Sleepers {
    fn start() -> Arc<Self> {
        use std::os::unix::process::CommandExt;
        let start = |uid| {
            let mut sleep = std::process::Command::new("sleep");
            let child = sleep.arg("1000").uid(uid).gid(uid).spawn().unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            let flags = rustix::process::PidfdFlags::empty();
            let pidfd = rustix::process::pidfd_open(pid, flags).unwrap();
            (uid, (child, pidfd))
        };
        let mut all: HashMap<_, _> = CALLERS.into_iter().map(start).collect();
        all.extend([start(BOB)]);
        Arc::new(Self(all))
    }

    async fn adopt(&self, client: &Client, uid: u32) -> Result<(), CallError> {
        let how = Adoption {
            worktree: WorktreeChoice::None,
            ..Adoption::default()
        };
        client.adopt(self.0[&uid].1.as_fd(), &how).await.map(drop)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for (child, _) in self.0.values_mut() {
            // The supervisor under test is of this process and may have waited for it.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Brings the row back if a cell took it away, or takes it away for one that brings it back.
async fn prepare(root: &Client, method: &str, id: &str) {
    let there = root.get_worker(id).await.is_ok();
    match (method, there) {
        ("Restore", true) => root.forget(id, true).await.unwrap(),
        ("Restore", false) | (_, true) => {}
        (_, false) => drop(root.restore(id).await.unwrap()),
    }
}

async fn every_cell(way: Way) {
    let root = way.client().await;
    let sleepers = Sleepers::start();
    let mut wrong = Vec::new();
    for (place, caller) in CALLERS.into_iter().enumerate() {
        for (method, expected) in FOREIGN {
            for (id, expected) in [(foreign_row(), expected[place]), (own_row(caller), Yes)] {
                prepare(&root, method, &id).await;
                let (to, method, target) = (way.clone(), *method, id.clone());
                let found = as_user(caller, move || async move {
                    on_row(&to.client().await, method, &target).await
                })
                .await;
                if found != expected {
                    wrong.push(format!("{method} of {id} by {caller}: {found:?}"));
                }
                prepare(&root, "", &id).await;
            }
        }
        for (method, expected) in SERVICE {
            let (to, method, sleepers) = (way.clone(), *method, sleepers.clone());
            let found = as_user(caller, move || async move {
                on_service(&to.client().await, method, caller, &sleepers).await
            })
            .await;
            if found != expected[place] {
                wrong.push(format!("{method} by {caller}: {found:?}"));
            }
            root.resume().await.unwrap();
        }
    }
    assert!(wrong.is_empty(), "{way:?}: {wrong:#?}");
}

/// Owners of the rows that a list, a Status of the whole and a sweep show.
async fn owners_shown(way: &Way, caller: u32) -> (Vec<u32>, Vec<u32>, usize, bool) {
    let to = way.clone();
    as_user(caller, move || async move {
        let client = to.client().await;
        let all = ListFilter {
            all: true,
            ..ListFilter::default()
        };
        let rows = client.list(all).await.unwrap();
        let foreign = rows.iter().filter(|row| row.uid != caller);
        let leaks = foreign
            .clone()
            .any(|row| format!("{row:?}").contains(SECRET));
        let mut listed: Vec<u32> = rows.iter().map(|row| row.uid).collect();
        listed.sort_unstable();
        listed.dedup();
        let theirs = ListFilter {
            all: true,
            owner: Some(BOB),
            ..ListFilter::default()
        };
        let theirs = client.list(theirs).await.unwrap();
        let theirs = theirs.iter().map(|row| row.uid).collect();
        let dry = ReapOptions {
            dry_run: true,
            ..ReapOptions::default()
        };
        let swept = client.reap(&dry).await.unwrap();
        // The start that failed in another test's cell is a row, too.
        let swept = swept.rows.iter();
        let swept =
            swept.filter(|row| (100..200).any(|n| row.id == WorkerId::from_bits(n).to_string()));
        (listed, theirs, swept.count(), leaks)
    })
    .await
}

/// As an ordinary user there is nobody else to call as; root's run has seen it.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn every_cell_of_the_table_holds_on_the_socket() {
    if !is_root() {
        return;
    }
    let world = World::start();
    every_cell(world.listen()).await;
    assert_eq!(*world.log.0.lock().unwrap(), LogLevel::Debug);
    let asked = world.rules.asked.lock().unwrap().clone();
    assert!(
        asked
            .iter()
            .all(|(uid, _, _)| ![ROOT, DAEMON].contains(uid)),
        "{asked:?}"
    );
}

#[tokio::test]
async fn every_cell_of_the_table_holds_on_a_bus() {
    if !is_root() {
        return;
    }
    let (world, bus) = (World::start(), Bus::for_all_users());
    let _link = world.server.serve_bus(&bus.address).await.unwrap();
    every_cell(Way::Bus(bus.address.clone())).await;
}

#[tokio::test]
async fn without_the_right_to_list_others_one_sees_ones_own_rows_and_no_error() {
    if !is_root() {
        return;
    }
    let world = World::start();
    let way = world.listen();
    let all = vec![ROOT, ALICE, BOB, CAROL, DAEMON, ADMIN];
    let number = all.len();
    for (caller, listed, theirs, swept, leaks) in [
        (ROOT, all.clone(), vec![BOB], number, true),
        (DAEMON, all.clone(), vec![BOB], number, true),
        (ALICE, all.clone(), vec![BOB], 1, false),
        (CAROL, vec![CAROL], vec![], 1, false),
        (ADMIN, all, vec![BOB], number, true),
    ] {
        let found = owners_shown(&way, caller).await;
        assert_eq!(found, (listed, theirs, swept, leaks), "{caller}");
    }
}

#[tokio::test]
async fn somebody_elses_name_is_unknown_and_ones_own_is_found_beside_it() {
    if !is_root() {
        return;
    }
    let world = World::start();
    let way = world.listen();
    let code = as_user(ALICE, move || async move {
        let client = way.client().await;
        let own = client.resolve(&format!("{SECRET}-name-{ALICE}")).await;
        assert_eq!(own.unwrap(), own_row(ALICE));
        let error = client.resolve(&format!("{SECRET}-name-{BOB}")).await;
        error.unwrap_err().code()
    })
    .await;
    assert_eq!(code, Some(Code::NoSuchWorker));
}

#[tokio::test]
async fn a_person_may_be_asked_for_an_action_and_never_for_a_look() {
    if !is_root() {
        return;
    }
    let world = World::start();
    let way = world.listen();
    as_user(CAROL, move || async move {
        let client = way.client().await.interactive(true);
        assert_eq!(seen(client.status(&foreign_row()).await), No);
        assert_eq!(done(client.hold(&foreign_row(), true).await), No);
    })
    .await;
    let asked = world.rules.asked.lock().unwrap().clone();
    let (last, looks) = asked.split_last().unwrap();
    assert_eq!(*last, (CAROL, Right::ManageAll, true));
    assert!(
        looks.iter().all(|(_, _, interactive)| !interactive),
        "{asked:?}"
    );
}

#[tokio::test]
async fn signals_that_everybody_hears_hold_no_text_of_a_worker() {
    if !is_root() {
        return;
    }
    use futures_core::Stream;
    let world = World::start();
    let way = world.listen();
    let root = way.client().await;
    let (ready, go) = tokio::sync::oneshot::channel();
    let heard = tokio::spawn(as_user(CAROL, move || async move {
        let client = way.client().await;
        let mut messages = zbus::MessageStream::from(client.connection());
        client.service().await.unwrap();
        ready.send(()).unwrap();
        let mut heard = Vec::new();
        loop {
            let next = std::future::poll_fn(|cx| Pin::new(&mut messages).poll_next(cx));
            let message = next.await.unwrap().unwrap();
            if message.message_type() != zbus::message::Type::Signal {
                continue;
            }
            let member = message.header().member().map(ToString::to_string);
            heard.push(format!("{member:?} {:?}", message.body().data().bytes()));
            assert!(
                !message
                    .body()
                    .data()
                    .bytes()
                    .windows(SECRET.len())
                    .any(|w| w == SECRET.as_bytes()),
                "{heard:?}"
            );
            if member.as_deref() == Some("WorkerRemoved") {
                return heard;
            }
        }
    }));
    go.await.unwrap();
    let id = own_row(ALICE);
    root.hold(&id, true).await.unwrap();
    // Told together within 50 ms otherwise.
    tokio::time::sleep(Duration::from_millis(200)).await;
    root.hold(&id, false).await.unwrap();
    root.forget(&id, true).await.unwrap();
    let heard = heard.await.unwrap();
    assert!(
        heard.iter().any(|h| h.contains("PropertiesChanged")),
        "{heard:?}"
    );
}
