//! Changes become signals on every connection. Each message is built once and shared. Changes of
//! one worker's properties within 50 ms are told once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::sync::{broadcast, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use zbus::{Connection, Message, Variant};

use super::bus::KeptBus;
use super::connection::Link;
use super::convert::put_exit;
use super::dict::{Details, put};
use super::properties::{News, Source, Told};
use super::socket::Held;
use super::{KeptPeer, MANAGER, OBJECT, object_path};
use crate::supervisor::handle::{Caller, Change, Handle, Right};
use crate::worker::WorkerId;

/// Changes of properties are gathered for so long.
const GATHER: Duration = Duration::from_millis(50);
/// Workers whose properties are looked at in one go; the rest is next.
const VIEWS_MAX: usize = 256;
/// Signals that wait for one connection to take them.
const QUEUE_MAX: usize = 1024;
/// Signals handed to a socket at once.
const BATCH: usize = 64;

/// The connections that hear signals.
#[derive(Debug, Default)]
pub struct Hub {
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Default)]
struct Listeners {
    /// No signal is begun any more: an image is about to be replaced.
    quiet: bool,
    next: u64,
    all: HashMap<u64, Listener>,
}

#[derive(Debug)]
struct Listener {
    queue: mpsc::Sender<Message>,
    link: Arc<Link>,
    pump: AbortHandle,
    /// Signals that are queued or being sent.
    open: Arc<AtomicUsize>,
    dropped: u64,
}

impl Hub {
    /// From now on `connection` hears everything; a peer that has not called yet, from its first
    /// answer on: libraries made for a bus take nothing before the answer to their greeting.
    pub fn join(&self, connection: &Connection, link: &Arc<Link>) -> u64 {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let open = Arc::new(AtomicUsize::new(0));
        let pump = tokio::spawn(pump(connection.clone(), waiting, open.clone())).abort_handle();
        let mut listeners = self.lock();
        let id = listeners.next;
        listeners.next += 1;
        let listener = Listener {
            queue,
            link: link.clone(),
            pump,
            open,
            dropped: 0,
        };
        listeners.all.insert(id, listener);
        id
    }

    /// The connection has ended.
    pub fn leave(&self, id: u64) {
        if let Some(listener) = self.lock().all.remove(&id) {
            listener.pump.abort();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Listeners> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins no signal any more, or does again. A listener that is told nothing for a moment
    /// loses signals, never a part of one.
    pub fn set_quiet(&self, quiet: bool) {
        self.lock().quiet = quiet;
    }

    /// Everything begun is sent, and everything received is in a call.
    pub fn is_quiet(&self) -> bool {
        self.lock().all.values().all(|listener| {
            let held = listener.link.held().is_none_or(Held::is_quiet);
            held && listener.open.load(Ordering::Relaxed) == 0
        })
    }

    /// Ends the connections of peers that do not take what is sent to them.
    pub fn cut_deaf(&self) {
        for listener in self.lock().all.values() {
            if let Link::Peer { stream, .. } = &*listener.link
                && !is_writable(stream.as_fd())
            {
                listener.link.cut();
            }
        }
    }

    /// How many of them are peers.
    pub fn peer_count(&self) -> usize {
        let listeners = self.lock();
        listeners
            .all
            .values()
            .filter(|listener| matches!(&*listener.link, Link::Peer { .. }))
            .count()
    }

    /// All peers that are between two messages.
    pub fn peers(&self) -> Vec<KeptPeer> {
        let listeners = self.lock();
        let peers = listeners
            .all
            .values()
            .filter_map(|listener| match &*listener.link {
                Link::Peer {
                    stream, fds, held, ..
                } if held.is_quiet() => Some(KeptPeer {
                    fd: stream.as_fd().try_clone_to_owned().ok()?,
                    fds: *fds,
                    answered: listener.link.was_answered(),
                }),
                Link::Peer { .. } | Link::Bus { .. } => None,
            });
        peers.collect()
    }

    /// The connection to the bus at which we are named, between two messages.
    pub fn bus(&self) -> Option<KeptBus> {
        let listeners = self.lock();
        listeners
            .all
            .values()
            .find_map(|listener| match &*listener.link {
                Link::Bus {
                    line: Some(line), ..
                } if line.held.is_quiet() => line.keep(),
                _ => None,
            })
    }

    fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    fn send<B>(&self, path: &str, interface: &str, member: &str, body: &B)
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        let message = match Message::signal(path, interface, member).build(body) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(%error, member, "cannot write a signal");
                return;
            }
        };
        let mut listeners = self.lock();
        if listeners.quiet {
            return;
        }
        let all = listeners.all.values_mut();
        for listener in all.filter(|listener| listener.link.was_answered()) {
            listener.open.fetch_add(1, Ordering::Relaxed);
            let sent = listener.queue.try_send(message.clone());
            if sent.is_err() {
                listener.open.fetch_sub(1, Ordering::Relaxed);
            }
            match sent {
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
                Err(mpsc::error::TrySendError::Full(_)) => listener.full(),
            }
        }
    }
}

fn is_writable(socket: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    !matches!(
        rustix::event::poll(&mut fds, Some(&Timespec::default())),
        Ok(0)
    )
}

impl Listener {
    fn full(&mut self) {
        self.dropped += 1;
        if self.dropped > 1 {
            return;
        }
        match &*self.link {
            Link::Peer { who, .. } => tracing::warn!(
                uid = who.uid,
                "a client on the socket does not read; {QUEUE_MAX} signals wait for it, so its \
                 connection is closed"
            ),
            Link::Bus { .. } => {
                tracing::warn!("the message bus does not read; signals to it are dropped");
            }
        }
        self.link.cut();
    }
}

async fn pump(
    connection: Connection,
    mut waiting: mpsc::Receiver<Message>,
    open: Arc<AtomicUsize>,
) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        if let Err(error) = connection.send_all(&batch).await {
            tracing::debug!(%error, "a listener has gone");
            // Nothing is sent any more. While a reload falls silent nobody reads that it has
            // gone, and what is left would be waited for.
            open.store(0, Ordering::Relaxed);
            return;
        }
        open.fetch_sub(batch.len(), Ordering::Relaxed);
        batch.clear();
    }
}

/// Turns changes into signals until the supervisor has ended.
pub async fn run(handle: Handle, hub: Arc<Hub>) {
    let mut changes = handle.changes();
    let mut teller = Teller {
        handle,
        hub,
        told: HashMap::new(),
        service: Told::default(),
        dirty: BTreeSet::new(),
        service_dirty: false,
    };
    let mut due: Option<Instant> = None;
    loop {
        let flush = async {
            match due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            change = changes.recv() => match change {
                Ok(change) => teller.tell(change),
                Err(broadcast::error::RecvError::Lagged(lost)) => {
                    tracing::warn!(lost, "changes came faster than signals could be sent");
                    teller.service_dirty = true;
                }
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = flush => {
                due = None;
                teller.flush().await;
            }
        }
        if due.is_none() && teller.has_news() {
            due = Some(Instant::now() + GATHER);
        }
    }
}

struct Teller {
    handle: Handle,
    hub: Arc<Hub>,
    told: HashMap<WorkerId, Told>,
    service: Told,
    dirty: BTreeSet<WorkerId>,
    service_dirty: bool,
}

impl Teller {
    fn has_news(&self) -> bool {
        self.service_dirty || !self.dirty.is_empty()
    }

    fn tell(&mut self, change: Change) {
        match change {
            Change::New(id) => {
                self.manager("WorkerNew", &(id.as_str(), object_path(id)));
                self.service_dirty = true;
            }
            Change::Exited {
                id,
                outcome,
                kind,
                exit,
                settled,
                reservation,
            } => {
                let mut details = Details::new();
                put(&mut details, "kind", Some(kind.as_str()));
                put_exit(&mut details, exit);
                put(&mut details, "settled", Some(settled));
                put(&mut details, "reservation", reservation);
                let body = (id.as_str(), object_path(id), outcome.as_str(), details);
                self.manager("WorkerExited", &body);
                self.dirty.insert(id);
                self.service_dirty = true;
            }
            Change::Changed(id) => {
                self.dirty.insert(id);
            }
            Change::Removed { id, why } => {
                self.told.remove(&id);
                self.dirty.remove(&id);
                self.manager("WorkerRemoved", &(id.as_str(), object_path(id), why));
                self.service_dirty = true;
            }
            Change::Reaped { counts, removed } => {
                let removed: Vec<&str> = removed.iter().take(1000).map(WorkerId::as_str).collect();
                self.manager("Reaped", &(counts, removed));
                self.service_dirty = true;
            }
            Change::Service => self.service_dirty = true,
        }
    }

    fn manager<B>(&self, member: &str, body: &B)
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        self.hub.send(OBJECT, MANAGER, member, body);
    }

    async fn flush(&mut self) {
        if self.hub.is_empty() {
            self.dirty.clear();
            self.told.clear();
            self.service_dirty = false;
            return;
        }
        if std::mem::take(&mut self.service_dirty)
            && let Ok(view) = self.handle.service().await
        {
            let source = Source::Service(Box::new(view));
            let news = self.service.news(&source);
            self.properties(OBJECT, &source, news);
        }
        for _ in 0..VIEWS_MAX {
            let Some(id) = self.dirty.pop_first() else {
                break;
            };
            // A row that has gone meanwhile has told so itself.
            let Ok(view) = self.handle.view(oneself(), id.to_string()).await else {
                continue;
            };
            let ended = view.status.is_terminal();
            let source = Source::Worker(view);
            let mut told = self.told.remove(&id).unwrap_or_default();
            let news = told.news(&source);
            self.properties(object_path(id).as_str(), &source, news);
            if !ended {
                self.told.insert(id, told);
            }
        }
    }

    fn properties(&self, path: &str, source: &Source, news: News) {
        if news.is_empty() {
            return;
        }
        let changed: BTreeMap<&str, Variant<'_>> = news.changed.into_iter().collect();
        let body = (source.interface().name, changed, news.invalidated);
        let interface = "org.freedesktop.DBus.Properties";
        self.hub.send(path, interface, "PropertiesChanged", &body);
    }
}

/// The daemon asks for itself; what it tells holds no text of a worker.
fn oneself() -> Caller {
    Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: Vec::new(),
        pid: None,
        rights: vec![Right::ListAll, Right::ManageAll],
    }
}
