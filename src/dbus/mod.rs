//! The bus: serves the contract `packaging/dbus/org.muster1.*.xml` peer to peer on the socket and
//! on a message bus, with the same code. It meets the supervisor only through its handle.
//!
//! Objects are not registered anywhere: a path is looked at when a call for it comes, so that
//! 100,000 rows cost nothing on any number of connections.

pub mod adopt;
pub mod auth;
pub mod bus;
pub mod client;
mod connection;
pub mod contract;
pub mod convert;
pub mod dict;
mod dispatch;
pub mod errors;
mod handshake;
mod kind;
mod list;
pub mod log_control;
mod manager;
mod metrics;
mod peer;
pub mod polkit;
mod properties;
mod replies;
pub mod report;
mod signals;
mod socket;
pub mod spec;
mod standard;
mod worker;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zbus::{ObjectPath, OwnedGuid};

use crate::supervisor::handle::Handle;
use crate::worker::WorkerId;

pub use auth::{Authority, NoPolkit};
pub use bus::{BusError, BusLink, KeptBus};
pub use log_control::LogControl;
pub use peer::Limits;
pub use polkit::Polkit;

/// Between two looks whether everything is quiet.
const LOOK: Duration = Duration::from_millis(1);
/// So many looks in a row must find nothing.
const CALM_LOOKS: u32 = 4;

/// A peer that has not taken what was sent to it for so long does not go over a reload.
const DEAF: Duration = Duration::from_secs(5);

/// Bus name.
pub const BUS_NAME: &str = "org.muster1";
/// The manager's object.
pub const OBJECT: &str = "/org/muster1";
/// Prefix of the workers' objects.
pub const WORKER_PREFIX: &str = "/org/muster1/worker/";
/// The manager's interface.
pub const MANAGER: &str = "org.muster1.Manager";
/// A worker's interface.
pub const WORKER: &str = "org.muster1.Worker";

/// The object of a worker.
pub fn object_path(id: WorkerId) -> ObjectPath<'static> {
    // An id holds nothing but lower-case letters and digits, all legal in a path.
    ObjectPath::from_string_unchecked(format!("{WORKER_PREFIX}{id}"))
}

/// Turns of the runtime after which a connection's task has counted what was queued for it.
const TURNS: usize = 16;

/// The connection of a peer that goes over to the next image.
#[derive(Debug)]
pub struct KeptPeer {
    /// Its socket, between two messages.
    pub fd: OwnedFd,
    /// Descriptors may be sent to it.
    pub fds: bool,
    /// It has had an answer, so it hears signals.
    pub answered: bool,
}

/// The connections that go over to the next image.
#[derive(Debug, Default)]
pub struct Kept {
    /// The peers.
    pub peers: Vec<KeptPeer>,
    /// The bus.
    pub bus: Option<KeptBus>,
}

/// Everything that serves callers. One for a daemon.
#[derive(Debug)]
pub struct Server {
    handle: Handle,
    authority: Arc<dyn Authority>,
    log: Arc<dyn LogControl>,
    limits: Limits,
    guid: OwnedGuid,
    hub: Arc<signals::Hub>,
    peers: peer::Peers,
    /// The bus whose name we own now.
    bus: Mutex<Option<BusLink>>,
    /// The bus name is ours.
    named: AtomicBool,
}

impl Server {
    /// Serves nobody yet. Must be called within the runtime: signals are sent from a task.
    pub fn new(
        handle: Handle,
        authority: Arc<dyn Authority>,
        log: Arc<dyn LogControl>,
        limits: Limits,
    ) -> Arc<Self> {
        let hub = Arc::new(signals::Hub::default());
        tokio::spawn(signals::run(handle.clone(), hub.clone()));
        Arc::new(Self {
            handle,
            authority,
            log,
            limits,
            guid: zbus::Guid::generate().into(),
            hub,
            peers: peer::Peers::default(),
            bus: Mutex::default(),
            named: AtomicBool::new(false),
        })
    }

    /// Accepts peers on a listening socket for ever; drop the future to stop accepting.
    pub async fn serve_socket(self: Arc<Self>, listener: Arc<tokio::net::UnixListener>) {
        peer::listen(self, listener).await;
    }

    /// Serves one connected peer to its end.
    pub async fn serve_stream(self: Arc<Self>, stream: tokio::net::UnixStream) {
        let busy = self.handle.activity().begin();
        peer::serve_peer(self, stream, busy).await;
    }

    /// Connects to a message bus, serves there, then takes the name; tries for 30 s. Hand the
    /// link to [`bus::keep`].
    pub async fn serve_bus(self: &Arc<Self>, address: &str) -> Result<BusLink, BusError> {
        bus::connect(self, address, bus::PATIENCE).await
    }

    /// Gives the bus name back, if it is ours: new calls activate another daemon. What the bus
    /// had delivered before is counted as busy when this returns.
    pub async fn release_name(&self) {
        let link = self.bus_link().take();
        if let Some(link) = link {
            link.release().await;
            self.set_named(false);
            // The reader of the connection queued them before the answer to the release.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        }
    }

    fn bus_link(&self) -> std::sync::MutexGuard<'_, Option<BusLink>> {
        self.bus.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepted peer connections.
    pub fn connections(&self) -> usize {
        self.peers.count()
    }

    /// Returns when every call has been answered, or after `limit`.
    pub async fn answered(&self, limit: Duration) {
        let end = tokio::time::Instant::now() + limit;
        while self.open_calls() > 0 && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Calls that are not answered yet.
    pub fn open_calls(&self) -> usize {
        let busy = usize::try_from(self.handle.activity().busy()).unwrap_or(usize::MAX);
        busy.saturating_sub(self.connections())
    }

    /// While a reload is under way: begins no signal, lets every call come to its answer, and
    /// tells the connections that go on, each between two messages. Bounded by the caller.
    pub async fn fall_silent(&self) -> Kept {
        self.hub.set_quiet(true);
        // Several looks in a row: a message that was read is a call a moment later.
        let mut calm = 0;
        let patience = tokio::time::Instant::now() + DEAF;
        while calm < CALM_LOOKS {
            tokio::time::sleep(LOOK).await;
            // Nobody may hold up a reload by not reading.
            if tokio::time::Instant::now() >= patience {
                self.hub.cut_deaf();
            }
            // A bus that cannot be kept gets its name back first.
            let kept = self.bus_link().as_ref().is_some_and(BusLink::is_kept);
            let named = self.named.load(Ordering::SeqCst) && !kept;
            // A peer that is still saying who it is cannot be handed over.
            let known = self.peers.count() == self.hub.peer_count();
            let quiet = !named && known && self.open_calls() == 0 && self.hub.is_quiet();
            calm = if quiet { calm + 1 } else { 0 };
        }
        Kept {
            peers: self.hub.peers(),
            bus: self.hub.bus(),
        }
    }

    fn set_named(&self, named: bool) {
        self.named.store(named, Ordering::SeqCst);
    }

    /// The reload came to nothing.
    pub fn speak_again(&self) {
        self.hub.set_quiet(false);
    }

    /// Goes on serving a peer of the image before.
    pub async fn resume_peer(self: Arc<Self>, kept: KeptPeer) {
        peer::resume_peer(self, kept).await;
    }
}
