//! The loop's thread: supervisor, socket and bus brought up, and down again in order.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::bus::{Bus, take_name};
use super::door::{self, Door};
use super::ground::Ground;
use super::options::Options;
use super::status::say_ready;
use super::{End, again};
use crate::dbus::{Authority, Kept, KeptPeer, Limits, NoPolkit, Polkit, Server};
use crate::error::Fault;
use crate::log::{Control, id};
use crate::registry::writer::Writer;
use crate::service_event;
use crate::supervisor::handle::Handle;
use crate::supervisor::handover::{Handover, PeerState};
use crate::supervisor::signals::Signals;
use crate::supervisor::{Parts, Settings, Stopped, Supervisor};
use crate::sys::spawn::Forker;
use crate::sys::systemd;

/// What callers get to take the last answers when the service ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What a disk gets to take the last changes when the service ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The event loop, on the thread that calls this.
pub(super) fn run_loop(
    options: &Options,
    ground: Ground,
    forker: Forker,
    ready: Option<OwnedFd>,
    log: Arc<Control>,
) -> Result<End, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        // Exits and timers are seen by the reactor only: among tasks that always have something
        // to do they would wait for 61 of them.
        .event_interval(1)
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
    let found = ground.reconcile();
    let Ground {
        set,
        registry,
        lock,
        image,
        before,
        ..
    } = ground;
    let writer = Writer::start(Arc::clone(&ground.store)).map_err(io("start the writer"))?;
    let (doors_in, doors) = mpsc::unbounded_channel();
    let parts = Parts {
        registry,
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
    let (socket, again) = (set.socket.clone(), set.again.clone());
    let limits = limits(options, &set);
    let generation = set.generation;
    let door = door(options, before.as_ref(), ground.listener, &socket)?;
    let peers = before.iter().flat_map(|b| b.peers.clone()).collect();
    let kept = before.as_ref().and_then(|b| b.bus.clone());
    let kept = kept.map(again::kept_bus).transpose()?;
    let (supervisor, handle) =
        Supervisor::new(set, parts, before).map_err(io("start the supervisor"))?;
    let running = tokio::spawn(supervisor.run());
    let server = Server::new(handle.clone(), authority(options), log, limits);
    let listening = door.duplicate().map_err(io("keep the socket"))?;
    let Door { listener, made } = door;
    let accepting = tokio::spawn(door::keep_doors(Arc::clone(&server), listener, doors));
    keep_peers(&server, peers)?;
    let silence = tokio::spawn(watch_quiet(Arc::clone(&server), handle.clone()));
    let bus = take_name(&server, Bus::chosen(options), generation > 1, kept);
    let stopped = match until_stopped(&handle, running, bus, generation, ready, &socket).await {
        Ok(stopped) => stopped,
        Err(fault) => {
            leave(made.as_deref(), writer).await;
            return Err(fault);
        }
    };
    let Stopped::Reload(mut handed) = stopped else {
        // Whoever calls from now on is answered by the next start.
        systemd::stopping("Leaving.", LAST_ANSWERS + LAST_WRITES);
        server.release_name().await;
        server.answered(LAST_ANSWERS).await;
        accepting.abort();
        leave(made.as_deref(), writer).await;
        return Ok(over(&stopped));
    };
    accepting.abort();
    leave(None, writer).await;
    let kept = silence.await.unwrap_or_default();
    let lock = lock.duplicate().map_err(io("keep the lock"))?;
    handed.handover.socket_passed = made.is_none();
    handed.handover.socket_path = Some(socket);
    let next = again::next(*handed, again, lock, listening, image, kept);
    Ok(End::Again(Box::new(next)))
}

/// Takes the name, says that it serves, and waits for the supervisor's end.
async fn until_stopped(
    handle: &Handle,
    mut running: JoinHandle<Stopped>,
    bus: impl Future<Output = Result<(), Fault>>,
    generation: u64,
    ready: Option<OwnedFd>,
    socket: &Path,
) -> Result<Stopped, Fault> {
    let stopped = tokio::select! {
        biased;
        // A stop signal ends the wait for the bus.
        stopped = &mut running => stopped,
        named = bus => match named {
            Ok(()) => {
                say_serving(socket, generation);
                say_ready(ready, handle).await;
                running.await
            }
            Err(fault) => {
                // The socket has served meanwhile: its workers are ended in order.
                handle.stop().await;
                let _ = running.await;
                return Err(fault);
            }
        },
    };
    stopped.map_err(|e| Fault::Other(format!("the supervisor died: {e}")))
}

fn say_serving(socket: &Path, generation: u64) {
    if generation == 1 {
        service_event!(INFO, id::STARTED, "serving on {}", socket.display());
    } else {
        let release = crate::RELEASE;
        service_event!(
            INFO,
            id::RELOADED,
            "reloaded: generation {generation}, release {release}"
        );
    }
}

fn io(what: &'static str) -> impl Fn(std::io::Error) -> Fault {
    move |e| Fault::Other(format!("cannot {what}: {e}"))
}

fn over(stopped: &Stopped) -> End {
    match stopped {
        Stopped::Abandoned(left) => End::Abandoned(*left),
        Stopped::Drained | Stopped::Idle | Stopped::Reload(_) => End::Over,
    }
}

fn limits(options: &Options, set: &Settings) -> Limits {
    Limits {
        connections_per_owner: set.config.limits.max_connections_per_owner as usize,
        only_uid: only_uid(options, set),
        ..Limits::default()
    }
}

fn authority(options: &Options) -> Arc<dyn Authority> {
    if options.is_user() {
        Arc::new(NoPolkit)
    } else {
        Arc::new(Polkit::default())
    }
}

/// Serves on the connections of the image before.
fn keep_peers(server: &Arc<Server>, peers: Vec<PeerState>) -> Result<(), Fault> {
    for peer in peers {
        let peer = KeptPeer {
            fd: again::taken(peer.fd)?,
            fds: peer.fds,
            answered: peer.answered,
        };
        tokio::spawn(Arc::clone(server).resume_peer(peer));
    }
    Ok(())
}

/// Whom alone a daemon serves that can start workers of no other.
fn only_uid(options: &Options, set: &Settings) -> Option<u32> {
    (options.is_user() || !set.privileges.other_ids).then_some(set.me.uid)
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
        drop(again::taken(before.image)?);
        if let Some(number) = options.resume_fd {
            drop(again::taken(number)?);
        }
        let made = (!before.socket_passed).then(|| path.to_owned());
        return Door::of(again::taken(before.socket)?.into(), made);
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

/// Falls silent when a reload wants it; answers what goes on once everything is quiet.
async fn watch_quiet(server: Arc<Server>, handle: Handle) -> Kept {
    let mut quiet = handle.quiet();
    let mut loud = handle.quiet();
    while quiet.wait_for(|quiet| *quiet).await.is_ok() {
        let silent = tokio::select! {
            kept = server.fall_silent() => Some(kept),
            _ = loud.wait_for(|quiet| !*quiet) => None,
        };
        if let Some(kept) = silent {
            handle.bus_is_quiet().await;
            tokio::select! {
                // The supervisor has ended: it is handing over.
                () = handle.closed() => return kept,
                gave_up = loud.wait_for(|quiet| !*quiet) => {
                    if gave_up.is_err() {
                        return kept;
                    }
                }
            }
        }
        server.speak_again();
    }
    Kept::default()
}
