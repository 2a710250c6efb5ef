//! The daemon from its start to its end: what comes up in which order, and down again.
//!
//! ```text
//! main thread:  signals blocked -> passed descriptors taken, others reserved -> capabilities
//!               -> configuration -> log -> directories -> lock -> control groups -> roll loaded -> reconciled -> forks until the end
//! loop thread:  supervisor -> socket -> bus name -> ready
//! ```

mod again;
mod bus;
mod dirs;
mod door;
mod status;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::sync::mpsc;

use crate::config::{Cgroup, Config, Paths};
use crate::dbus::{Authority, Limits, NoPolkit, Polkit, Server};
use crate::error::{Fault, exit};
use crate::log::{Control, Log, Target, id};
use crate::places::{self, Real};
use crate::registry::Registry;
use crate::registry::store::Store;
use crate::registry::writer::Writer;
use crate::service_event;
use crate::supervisor::handle::Handle;
use crate::supervisor::handover::Handover;
use crate::supervisor::output::journal_for;
use crate::supervisor::reconcile::{Reconciled, reconcile};
use crate::supervisor::signals::Signals;
use crate::supervisor::unrecorded::end_unrecorded;
use crate::supervisor::{Parts, Settings, Stopped, Supervisor};
use crate::sys::cgroup::{self, Choice, Tree};
use crate::sys::fdslots::Slots;
use crate::sys::guardian::{self, DaemonSide};
use crate::sys::lock::{LockError, StateLock, acquire};
use crate::sys::privilege::{self, Privileges};
use crate::sys::spawn::{Forker, Jobs, forker, main_thread};
use crate::sys::systemd::{self, Passed};
use crate::sys::{process, reexec, signals};
use crate::worker::Owner;
use bus::{Bus, take_name};
use dirs::{clear_runtime, directories, private_dir};
use door::Door;
use status::say_ready;

/// What callers get to take the last answers when the service ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What a disk gets to take the last changes when the service ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The command line of `musterd`.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "musterd",
    version,
    about = "Calls the roll of the agent workers on this machine"
)]
pub struct Options {
    /// A private daemon for this user, under a guardian that outlives it
    #[arg(long)]
    pub embedded: bool,
    /// A user's own instance: its directories and its configuration, without a guardian
    #[arg(long)]
    pub user: bool,
    /// Where the roll is kept
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Where sockets and workers' private directories lie
    #[arg(long, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
    /// The peer-to-peer socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// A message bus to take the name org.muster1 on
    #[arg(long, value_name = "ADDRESS", conflicts_with = "no_bus")]
    pub address: Option<String>,
    /// Serve the socket only
    #[arg(long)]
    pub no_bus: bool,
    /// Read the configuration below this directory
    #[arg(long, value_name = "DIR")]
    pub config_root: Option<PathBuf>,
    /// Executed as root: give that up for this user, but for the needed capabilities
    #[arg(long, value_name = "USER", conflicts_with_all = ["embedded", "user"])]
    pub run_as: Option<String>,
    /// Leave after so much idleness (for example 30s; 0 to stay)
    #[arg(long, value_name = "DURATION", value_parser = crate::config::parse_duration)]
    pub idle_exit: Option<Duration>,
    /// Say "ready" on this descriptor when it serves
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<i32>,
    /// Go on where the image before stopped (set by the daemon itself)
    #[arg(long, value_name = "N", hide = true)]
    pub resume_fd: Option<i32>,
    /// Only say whether this image could take over (set by the daemon itself)
    #[arg(long, value_name = "N", hide = true, conflicts_with = "resume_fd")]
    pub trial_fd: Option<i32>,
    /// Where the log goes: auto, journal or stderr
    #[arg(long, value_name = "TARGET", default_value = "auto")]
    pub log: Target,
}

/// Runs `musterd`.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() {
                exit::USAGE
            } else {
                exit::OK
            });
        }
    };
    if let Some(number) = options.trial_fd {
        return again::trial(&options, number);
    }
    if !options.embedded || options.resume_fd.is_some() {
        return run(&options, None);
    }
    // Before any thread exists: the guardian is this process, the daemon its child.
    match guardian::run(|side| run(&options, Some(side))) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("musterd: cannot start the guardian: {error}");
            ExitCode::from(exit::FAILED)
        }
    }
}

fn run(options: &Options, guardian: Option<DaemonSide>) -> ExitCode {
    match try_run(options, guardian) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("musterd: {fault}");
            ExitCode::from(fault.exit_code())
        }
    }
}

/// What the main thread has brought up when the loop begins.
struct Ground {
    set: Settings,
    store: Arc<Store>,
    registry: Registry,
    tree: Result<Tree, String>,
    prefix: String,
    quarantined: u32,
    degraded: Vec<String>,
    clock: Option<i64>,
    lock: StateLock,
    before: Option<Handover>,
    image: OwnedFd,
    /// The socket that the service manager passed.
    listener: Option<std::os::unix::net::UnixListener>,
}

fn try_run(options: &Options, guardian: Option<DaemonSide>) -> Result<(), Fault> {
    signals::block_all().map_err(|e| Fault::Other(format!("cannot block signals: {e}")))?;
    // The descriptor to say "ready" on must not be taken for a free number.
    let ready = options
        .ready_fd
        .map(crate::sys::fdslots::inherited)
        .transpose();
    let ready = ready.map_err(|e| Fault::Usage(format!("--ready-fd: {e}")))?;
    let passed = systemd::take_passed()
        .map_err(|e| Fault::Other(format!("cannot take the passed sockets: {e}")))?;
    let slots =
        Slots::reserve().map_err(|e| Fault::Other(format!("cannot reserve descriptors: {e}")))?;
    let before = options.resume_fd.map(again::read).transpose()?;
    match try_serve(options, guardian, slots, ready, passed, before.clone()) {
        Ok(End::Over) => Ok(()),
        Ok(End::Again(next)) => Err(again::execute_next(*next)),
        Err(fault) => {
            if let (Some(number), Some(before)) = (options.resume_fd, &before) {
                again::go_back(number, before, &fault);
            }
            Err(fault)
        }
    }
}

/// How a life of this image ends.
enum End {
    Over,
    Again(Box<again::Next>),
}

fn try_serve(
    options: &Options,
    guardian: Option<DaemonSide>,
    slots: Slots,
    ready: Option<OwnedFd>,
    passed: Passed,
    before: Option<Handover>,
) -> Result<End, Fault> {
    let privileges = privileges(options)?;
    let config = load_config(options)?;
    let log = Log::start(options.log, config.log.level)
        .map_err(|e| Fault::Other(format!("cannot start the log: {e}")))?;
    for name in &passed.unknown {
        tracing::warn!("closed a passed descriptor that nobody asked for: {name:?}");
    }
    let mut ground = ground(options, config, privileges, guardian.as_ref(), before)?;
    if let Some(listener) = passed.listener {
        let address = listener.local_addr().ok();
        if let Some(path) = address.as_ref().and_then(|a| a.as_pathname()) {
            ground.set.socket = path.to_owned();
        }
        ground.listener = Some(listener);
    }
    let output = ground.set.config.workers.output;
    let logs_there = !options.embedded && log.control().to_journal();
    ground.set.journal = journal_for(output, logs_there);
    let (forker, jobs) = forker(slots, ground.set.config.workers.spawn_timeout)
        .map_err(|e| Fault::Other(format!("cannot prepare to fork: {e}")))?;
    let result = serve(options.clone(), ground, forker, jobs, ready, log.control());
    drop(log);
    result
}

fn privileges(options: &Options) -> Result<Privileges, Fault> {
    if let Some(user) = &options.run_as {
        privilege::become_user(user)
            .map_err(|e| Fault::Other(format!("cannot run as {user}: {e}")))?;
    }
    match is_user(options) {
        true => privilege::look_at_capabilities(),
        false => privilege::settle_capabilities(),
    }
    .map_err(|e| Fault::Other(format!("cannot settle the capabilities: {e}")))
}

fn load_config(options: &Options) -> Result<Config, Fault> {
    let root = options
        .config_root
        .clone()
        .or_else(|| places::config_root(&Real));
    let paths = match (is_user(options), root) {
        (true, root) => {
            let home = root.or_else(|| places::config_home(&Real));
            Paths::user(&home.unwrap_or_else(|| PathBuf::from("/nonexistent")))
        }
        (false, root) => Paths::system(&root.unwrap_or_else(|| PathBuf::from("/"))),
    };
    Ok(Config::load(&paths)?.0)
}

/// A user's instance, root's private daemon included, or the system's.
fn is_user(options: &Options) -> bool {
    options.embedded || options.user
}

/// Directories, lock, control groups, the roll as it is.
fn ground(
    options: &Options,
    config: Config,
    privileges: Privileges,
    guardian: Option<&DaemonSide>,
    before: Option<Handover>,
) -> Result<Ground, Fault> {
    let me = Owner {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    let (state_dir, runtime_dir) = directories(options)?;
    // Users get through to what is theirs below, and see no other's.
    let open = privileges.other_ids && !is_user(options);
    let through = if open { 0o711 } else { 0o700 };
    private_dir(&state_dir, me, through)?;
    private_dir(&state_dir.join("output"), me, through)?;
    private_dir(&runtime_dir, me, through)?;
    // A start may only touch the directory under its lock: another daemon may be at work in it.
    // Where the lock came with the execution, what can fail is done before it is taken over.
    let (lock, store) = match &before {
        Some(before) => {
            let store = Store::open(&state_dir)?;
            (StateLock::handed_over(taken(before.lock)?), store)
        }
        None => {
            let lock = acquire(&state_dir).map_err(|e| lock_fault(e, &state_dir))?;
            (lock, Store::open(&state_dir)?)
        }
    };
    let store = Arc::new(store);
    privilege::become_subreaper()
        .map_err(|e| Fault::Other(format!("cannot become a subreaper: {e}")))?;
    let raised = privilege::raise_nofile();
    let nofile = match &before {
        Some(before) => before.nofile,
        None => Some((raised.soft, raised.hard)),
    };
    let prefix = run_prefix(&state_dir, me);
    let mut degraded = Vec::new();
    let choice = match &config.containment.cgroup {
        Cgroup::Auto => Choice::Auto,
        Cgroup::None => Choice::None,
        Cgroup::Path(path) => Choice::Path(path.clone()),
    };
    let tree = match before.as_ref().map(|before| before.tree.clone()) {
        Some(tree) => tree.map(|root| Tree::reopen(&root)),
        None => own_tree(&choice, &format!("{prefix}{}", own_mark())),
    };
    match (&tree, guardian) {
        (Ok(tree), Some(side)) => side
            .tell_tree(tree.root())
            .map_err(|e| Fault::Other(format!("cannot tell the guardian: {e}")))?,
        (Ok(_), None) => {}
        (Err(why), _) => {
            service_event!(WARN, id::CONTAINMENT_WEAK, "containment is weaker: {why}");
        }
    }
    let (registry, quarantined) = load(&store, &mut degraded)?;
    let clock = store
        .read_clock()
        .filter(|mark| process::boot_id().is_ok_and(|boot| boot == mark.boot_id))
        .map(|mark| mark.wall_minus_boot_usec);
    if before.is_none() {
        clear_runtime(&runtime_dir, me, privileges)?;
    }
    let handed = before
        .as_ref()
        .and_then(|before| before.socket_path.clone());
    let socket = handed
        .or_else(|| options.socket.clone())
        .unwrap_or_else(|| runtime_dir.join("sock"));
    let idle = options.idle_exit.unwrap_or(config.service.idle_exit);
    let set = Settings {
        socket,
        state_dir,
        runtime_dir,
        me,
        privileges,
        watchdog: systemd::watchdog(),
        system: !is_user(options),
        journal: None,
        idle_exit: (!idle.is_zero()).then_some(idle),
        nofile,
        generation: before.as_ref().map_or(1, |before| before.generation + 1),
        again: again::again(None),
        config,
    };
    Ok(Ground {
        set,
        store,
        registry,
        tree,
        prefix,
        quarantined,
        degraded,
        clock,
        lock,
        before,
        image: reexec::own_image().map_err(Fault::io("open", "/proc/self/exe"))?,
        listener: None,
    })
}

fn own_tree(choice: &Choice, name: &str) -> Result<Tree, String> {
    let mut tree = Tree::find(choice, name).map_err(|weaker| weaker.to_string())?;
    match tree.enter() {
        Ok(()) => Ok(tree),
        Err(error) => {
            let why = format!("cannot enter {}: {error}", tree.root().display());
            let _ = tree.remove();
            Err(why)
        }
    }
}

/// What a life of this daemon left in the hierarchy when nobody cleaned up after it.
fn end_old_runs(tree: &Tree, prefix: &str) {
    for old in cgroup::leftovers_of_old_runs(tree.parent(), prefix) {
        if old != tree.root() {
            let _ = cgroup::kill(&old);
            let _ = cgroup::remove(&old);
        }
    }
}

fn lock_fault(error: LockError, dir: &Path) -> Fault {
    match error {
        LockError::Held { pid: Some(pid), .. } => Fault::AlreadyRunning {
            dir: dir.to_owned(),
            pid,
        },
        LockError::Io { path, source } => Fault::io("lock", path)(source),
        held => Fault::Other(held.to_string()),
    }
}

/// What the last daemon had started and not yet written down.
fn end_lost_workers(ground: &mut Ground) {
    let (registry, runtime) = (&ground.registry, &ground.set.runtime_dir);
    let ended = ground.store.list_reaped().map(|mut reaped| {
        reaped.sort_unstable();
        let known = |id| registry.get(id).is_some() || reaped.binary_search(&id).is_ok();
        end_unrecorded(known, runtime)
    });
    match ended {
        Ok(Ok(ended)) => {
            for sentence in ended {
                tracing::warn!("{sentence}");
            }
        }
        Ok(Err(error)) => ground.degraded.push(format!("cannot read /proc: {error}")),
        Err(error) => ground.degraded.push(error.to_string()),
    }
}

/// Names the trees of one state directory, whoever serves it.
fn run_prefix(state_dir: &Path, me: Owner) -> String {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    state_dir.hash(&mut hasher);
    format!("{}-{:08x}-", me.uid, hasher.finish() & 0xffff_ffff)
}

/// Names one life of the daemon: a guardian that is late must not strike the next one's workers.
fn own_mark() -> String {
    format!(
        "{}-{:x}",
        std::process::id(),
        crate::sys::clock::now().boot.0
    )
}

fn load(store: &Store, degraded: &mut Vec<String>) -> Result<(Registry, u32), Fault> {
    let loaded = store.load()?;
    for file in &loaded.quarantined {
        let (name, why) = (&file.name, &file.why);
        service_event!(
            ERROR,
            id::ROW_QUARANTINED,
            "row file {name} cannot be read and was moved to quarantine: {why}"
        );
        degraded.push(format!("quarantined {name}: {why}"));
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let mut registry = Registry::new();
    for row in loaded.rows {
        if let Err(row) = registry.insert_loaded(row) {
            degraded.push(format!("row {} is there twice", row.id));
        }
    }
    let quarantined = store.quarantined().map_or(0, |names| names.len());
    Ok((registry, u32::try_from(quarantined).unwrap_or(u32::MAX)))
}

/// The loop on its own thread, the forks on this one.
fn serve(
    options: Options,
    ground: Ground,
    forker: Forker,
    jobs: Jobs,
    ready: Option<OwnedFd>,
    log: Arc<Control>,
) -> Result<End, Fault> {
    let stop = forker.clone();
    let thread = std::thread::Builder::new()
        .name("loop".to_owned())
        .spawn(move || {
            let result = run_loop(&options, ground, forker, ready, log);
            stop.stop();
            result
        })
        .map_err(|e| Fault::Other(format!("cannot start the event loop: {e}")))?;
    main_thread(jobs);
    thread
        .join()
        .unwrap_or_else(|_| Err(Fault::Other("the event loop died".to_owned())))
}

fn run_loop(
    options: &Options,
    ground: Ground,
    forker: Forker,
    ready: Option<OwnedFd>,
    log: Arc<Control>,
) -> Result<End, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(16)
        .thread_keep_alive(Duration::from_secs(2))
        .build()
        .map_err(|e| Fault::Other(format!("cannot start the runtime: {e}")))?;
    let result = runtime.block_on(run_service(options, ground, forker, ready, log));
    // A probe that hangs on a dead mount must not keep the service from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn run_service(
    options: &Options,
    mut ground: Ground,
    forker: Forker,
    ready: Option<OwnedFd>,
    log: Arc<Control>,
) -> Result<End, Fault> {
    let io =
        |what: &'static str| move |e: std::io::Error| Fault::Other(format!("cannot {what}: {e}"));
    let found = match &ground.before {
        Some(_) => Reconciled::default(),
        None => reconcile(&mut ground.registry),
    };
    ground.degraded.extend(found.errors);
    if ground.before.is_none() {
        end_lost_workers(&mut ground);
    }
    if let Ok(tree) = &ground.tree
        && ground.before.is_none()
    {
        end_old_runs(tree, &ground.prefix);
    }
    let writer = Writer::start(Arc::clone(&ground.store)).map_err(io("start the writer"))?;
    let socket = ground.set.socket.clone();
    let limits = Limits {
        connections_per_owner: ground.set.config.limits.max_connections_per_owner as usize,
        only_uid: only_uid(options, &ground.set),
        ..Limits::default()
    };
    let (doors_in, doors) = mpsc::unbounded_channel();
    let parts = Parts {
        registry: ground.registry,
        store: ground.store,
        writer: writer.clone(),
        tree: ground.tree,
        forker,
        signals: Signals::new().map_err(io("read signals"))?,
        quarantined: ground.quarantined,
        degraded: ground.degraded,
        clock: ground.clock,
        adopted: found.adopted,
        settled: found.settled,
        doors: doors_in,
    };
    let again = ground.set.again.clone();
    let before = ground.before;
    let resumed = before.is_some();
    let door = door(options, before.as_ref(), ground.listener, &socket)?;
    let peers = before
        .as_ref()
        .map(|before| before.peers.clone())
        .unwrap_or_default();
    let (supervisor, handle) =
        Supervisor::new(ground.set, parts, before).map_err(io("start the supervisor"))?;
    let mut running = tokio::spawn(supervisor.run());
    let authority: Arc<dyn Authority> = if is_user(options) {
        Arc::new(NoPolkit)
    } else {
        Arc::new(Polkit::default())
    };
    let server = Server::new(handle.clone(), authority, log, limits);
    let listening = door.duplicate().map_err(io("keep the socket"))?;
    let Door { listener, made } = door;
    let accepting = tokio::spawn(door::keep_doors(Arc::clone(&server), listener, doors));
    for peer in peers {
        let stream = stream_of(taken(peer.fd)?).map_err(io("keep a connection"))?;
        tokio::spawn(Arc::clone(&server).resume_peer(stream, peer.fds));
    }
    let silence = tokio::spawn(watch_quiet(Arc::clone(&server), handle.clone()));
    let stopped = tokio::select! {
        biased;
        // A stop signal ends the wait for the bus.
        stopped = &mut running => stopped,
        named = take_name(&server, Bus::chosen(options), resumed) => match named {
            Ok(()) => {
                service_event!(INFO, id::STARTED, "serving on {}", socket.display());
                say_ready(ready, &handle).await;
                running.await
            }
            Err(fault) => {
                // The socket has served meanwhile: its workers are ended in order.
                handle.stop().await;
                let _ = running.await;
                leave(made.as_deref(), writer).await;
                return Err(fault);
            }
        },
    };
    let stopped = stopped.map_err(|e| Fault::Other(format!("the supervisor died: {e}")))?;
    if !matches!(stopped, Stopped::Reload(_)) {
        server.answered(LAST_ANSWERS).await;
    }
    accepting.abort();
    let gone = match &stopped {
        Stopped::Reload(_) => None,
        _ => made.as_deref(),
    };
    leave(gone, writer).await;
    match stopped {
        Stopped::Reload(mut handed) => {
            let peers = silence.await.unwrap_or_default();
            let lock = ground.lock.duplicate().map_err(io("keep the lock"))?;
            handed.handover.socket_passed = made.is_none();
            handed.handover.socket_path = Some(socket);
            let next = again::next(*handed, again, lock, listening, ground.image, peers);
            Ok(End::Again(Box::new(next)))
        }
        Stopped::Drained | Stopped::Idle => Ok(End::Over),
        Stopped::Abandoned(left) => Err(Fault::Other(format!(
            "{left} workers did not end in time and were killed"
        ))),
    }
}

/// Whom alone a daemon serves that can start workers of no other.
fn only_uid(options: &Options, set: &Settings) -> Option<u32> {
    (is_user(options) || !set.privileges.other_ids).then_some(set.me.uid)
}

/// The socket: from the image before, from the service manager, or made.
fn door(
    options: &Options,
    before: Option<&Handover>,
    passed: Option<std::os::unix::net::UnixListener>,
    path: &Path,
) -> Result<Door, Fault> {
    if let Some(before) = before {
        // Only kept for the way back until here.
        drop(taken(before.image)?);
        if let Some(number) = options.resume_fd {
            drop(taken(number)?);
        }
        let made = (!before.socket_passed).then(|| path.to_owned());
        return Door::of(taken(before.socket)?.into(), made);
    }
    match passed {
        Some(listener) => Door::of(listener, None),
        None => Door::make(path),
    }
}

async fn leave(socket: Option<&Path>, writer: Writer) {
    if let Some(socket) = socket {
        let _ = std::fs::remove_file(socket);
    }
    let stop = tokio::task::spawn_blocking(move || writer.stop());
    let _ = tokio::time::timeout(LAST_WRITES, stop).await;
}

/// Falls silent when a reload wants it; answers the peers' sockets once everything is quiet.
async fn watch_quiet(server: Arc<Server>, handle: Handle) -> Vec<(OwnedFd, bool)> {
    let mut quiet = handle.quiet();
    let mut loud = handle.quiet();
    while quiet.wait_for(|quiet| *quiet).await.is_ok() {
        let silent = tokio::select! {
            peers = server.fall_silent() => Some(peers),
            _ = loud.wait_for(|quiet| !*quiet) => None,
        };
        if let Some(peers) = silent {
            handle.bus_is_quiet().await;
            tokio::select! {
                // The supervisor has ended: it is handing over.
                () = handle.closed() => return peers,
                gave_up = loud.wait_for(|quiet| !*quiet) => {
                    if gave_up.is_err() {
                        return peers;
                    }
                }
            }
        }
        server.speak_again();
    }
    Vec::new()
}

fn taken(number: i32) -> Result<OwnedFd, Fault> {
    reexec::take(number)
        .map_err(|e| Fault::Other(format!("descriptor {number} of the image before: {e}")))
}

fn stream_of(fd: OwnedFd) -> std::io::Result<tokio::net::UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(stream)
}
