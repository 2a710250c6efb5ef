//! The message bus: connects, serves, takes the name last, and comes back when the bus does.
//!
//! Over a reload the connection is kept, name and all, so that nobody on the bus notices: calls
//! wait in the socket. Were the name given back, each call in the gap would make the bus ask for
//! a start of the service, and systemd merges that into the running reload and repeats it.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use zbus::address::transport::{Transport, UnixSocket};
use zbus::fdo::{DBusProxy, RequestNameFlags, RequestNameReply};
use zbus::names::{BusName, WellKnownName};
use zbus::{Connection, MessageStream};

use super::connection::{Line, Link, serve};
use super::handshake::greet;
use super::socket::{OF_A_BUS, QuietSocket};
use super::{BUS_NAME, Server};

const DBUS: &str = "org.freedesktop.DBus";

/// Connection and name must be there in this time.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries, at first; doubles up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Why the bus does not know us.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// No bus.
    #[error("cannot connect to the message bus at {address}: {why}; is a bus running there?")]
    Unreachable {
        /// Where.
        address: String,
        /// What failed.
        why: String,
    },
    /// Somebody else has the name.
    #[error("the bus name {BUS_NAME} belongs to {holder}; end that one first")]
    NameTaken {
        /// `pid N`, or what is known of it.
        holder: String,
    },
    /// The bus does not let us.
    #[error(
        "the bus does not let this user own {BUS_NAME} ({why}); on the system bus that needs the \
         policy file /usr/share/dbus-1/system.d/org.muster1.conf"
    )]
    NotAllowed {
        /// The bus's words.
        why: String,
    },
}

/// A served connection to a bus that owns the name.
#[derive(Debug, Clone)]
pub struct BusLink {
    connection: Connection,
    asks: Connection,
    line: Option<Arc<Line>>,
}

/// A connection to a bus that goes over to the next image, name and all.
#[derive(Debug)]
pub struct KeptBus {
    /// Its socket, between two messages.
    pub fd: OwnedFd,
    /// Descriptors may be sent.
    pub fds: bool,
    /// The bus's guid.
    pub guid: String,
    /// Our unique name.
    pub name: String,
    /// Where the bus is.
    pub address: String,
}

impl Line {
    /// For the next image; none if the bus has not said our name yet.
    pub(super) fn keep(&self) -> Option<KeptBus> {
        Some(KeptBus {
            fd: self.stream.as_fd().try_clone_to_owned().ok()?,
            fds: self.fds,
            guid: self.guid.clone(),
            name: self.name.get()?.clone(),
            address: self.address.clone(),
        })
    }

    /// A connection whose messages are begun unless a reload wants quiet.
    async fn messages(&self, server: &Server) -> zbus::Result<MessageStream> {
        let socket = QuietSocket {
            bounds: OF_A_BUS,
            stream: self.stream.clone(),
            fds: self.fds,
            budget: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            held: self.held.clone(),
            quiet: server.handle.quiet(),
        };
        // "p2p" only means that zbus neither greets the bus nor keeps match rules: both are done.
        let mut builder =
            zbus::connection::Builder::authenticated_socket(socket, self.guid.as_str()).p2p();
        if let Some(name) = self.name.get() {
            builder = builder.unique_name(name.as_str());
        }
        builder.build_message_stream().await
    }
}

impl BusLink {
    /// Waits until the bus has gone.
    pub async fn gone(&self) {
        tokio::select! {
            () = self.connection.closed() => {}
            () = self.asks.closed() => {}
        }
    }

    /// Gives the name back, so that new calls start a new daemon; open ones are still answered.
    pub async fn release(&self) {
        let name = WellKnownName::from_static_str_unchecked(BUS_NAME);
        let released = async { proxy(&self.connection).await?.release_name(name).await };
        if let Err(error) = released.await {
            tracing::debug!(%error, "cannot release the bus name");
        }
    }

    /// It goes over to the next image.
    pub fn is_kept(&self) -> bool {
        self.line.is_some()
    }

    fn as_link(&self) -> Arc<Link> {
        Link::bus(self.asks.clone(), self.line.clone())
    }

    async fn close(self) {
        for connection in [self.connection, self.asks] {
            if let Err(error) = connection.close().await {
                tracing::debug!(%error, "cannot close a connection to the bus");
            }
        }
    }
}

/// Connects to the bus at `address`, serves there, then takes the name.
///
/// # Errors
/// What is missing, after trying for `patience`.
pub async fn connect(
    server: &Arc<Server>,
    address: &str,
    patience: Duration,
) -> Result<BusLink, BusError> {
    let end = Instant::now() + patience;
    let mut pause = RETRY;
    loop {
        let error = match once(server, address).await {
            Ok(link) => {
                server.set_named(true);
                return Ok(link);
            }
            Err(error) => error,
        };
        if Instant::now() + pause >= end {
            return Err(error);
        }
        tracing::debug!(%error, "no bus name yet");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}

/// Keeps a bus: when it goes away, or was not there, tries for ever to come back; gives the name
/// back while a reload is under way.
pub async fn keep(server: Arc<Server>, address: String, link: Option<BusLink>) {
    let mut quiet = server.handle.quiet();
    let mut link = match link {
        Some(link) => link,
        None => come_back(&server, &address).await,
    };
    loop {
        tokio::select! {
            () = link.gone() => {
                tracing::warn!(address, "the message bus has gone; trying to come back");
                server.set_named(false);
                // One of two may live: what it still brings would be served without a name.
                link.close().await;
                link = come_back(&server, &address).await;
            }
            // Without the supervisor nobody asks for quiet any more.
            Ok(()) = quiet.changed() => {
                let silent = *quiet.borrow_and_update();
                if link.is_kept() {
                    continue;
                }
                if silent {
                    link.release().await;
                    server.set_named(false);
                } else if let Err(error) = own_name(&link.connection).await {
                    tracing::error!(%error, "cannot take the bus name again");
                } else {
                    server.set_named(true);
                }
            }
        }
    }
}

async fn come_back(server: &Arc<Server>, address: &str) -> BusLink {
    let mut pause = RETRY;
    loop {
        match once(server, address).await {
            Ok(link) => {
                tracing::info!(address, "on the message bus again");
                server.set_named(true);
                return link;
            }
            Err(error) => tracing::debug!(%error, "not back on the message bus yet"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

async fn once(server: &Arc<Server>, address: &str) -> Result<BusLink, BusError> {
    let (messages, link) = tokio::time::timeout(PATIENCE, open(server, address))
        .await
        .map_err(|_| unreachable(address, "no answer to the handshake"))?
        .map_err(|e| unreachable(address, e))?;
    // Calls that an activating bus has queued come with the name: they must find a reader.
    tokio::spawn(serve(server.clone(), messages, link.as_link()));
    match own_name(&link.connection).await {
        Ok(()) => {
            *server.bus_link() = Some(link.clone());
            Ok(link)
        }
        Err(error) => {
            link.close().await;
            Err(error)
        }
    }
}

/// Goes on serving a bus that knows us from the image before.
///
/// # Errors
/// The connection has ended meanwhile, or the name is somebody else's by now.
pub async fn go_on(server: &Arc<Server>, kept: KeptBus) -> Result<BusLink, BusError> {
    let address = kept.address.clone();
    let resumed = async {
        let asks = asking(&address).await?;
        let stream = std::os::unix::net::UnixStream::from(kept.fd);
        stream.set_nonblocking(true)?;
        let line = Arc::new(Line {
            held: Arc::default(),
            stream: Arc::new(UnixStream::from_std(stream)?),
            fds: kept.fds,
            guid: kept.guid,
            address: kept.address,
            name: OnceLock::from(kept.name),
        });
        let messages = line.messages(server).await?;
        let link = BusLink {
            connection: Connection::from(&messages),
            asks,
            line: Some(line),
        };
        Ok::<_, zbus::Error>((messages, link))
    };
    let (messages, link) = tokio::time::timeout(PATIENCE, resumed)
        .await
        .map_err(|_| unreachable(&address, "no answer to the handshake"))?
        .map_err(|e| unreachable(&address, e))?;
    let owner = async {
        let name = WellKnownName::from_static_str_unchecked(BUS_NAME);
        proxy(&link.asks).await?.get_name_owner(name.into()).await
    };
    let ours = link.line.as_ref().and_then(|line| line.name.get().cloned());
    match owner.await {
        Ok(owner) if Some(owner.as_str()) == ours.as_deref() => {
            tokio::spawn(serve(server.clone(), messages, link.as_link()));
            server.set_named(true);
            *server.bus_link() = Some(link.clone());
            Ok(link)
        }
        Ok(owner) => {
            link.close().await;
            Err(BusError::NameTaken {
                holder: owner.to_string(),
            })
        }
        Err(error) => {
            link.close().await;
            Err(unreachable(&address, error))
        }
    }
}

fn unreachable(address: &str, why: impl std::fmt::Display) -> BusError {
    BusError::Unreachable {
        address: address.to_owned(),
        why: why.to_string(),
    }
}

async fn asking(address: &str) -> zbus::Result<Connection> {
    zbus::connection::Builder::address(address).build().await
}

/// A connection that has greeted the bus.
async fn open(server: &Server, address: &str) -> zbus::Result<(MessageStream, BusLink)> {
    let asks = asking(address).await?;
    let Some(path) = socket_path(address) else {
        let builder = zbus::connection::Builder::address(address);
        let messages = builder.build_message_stream().await?;
        let link = BusLink {
            connection: Connection::from(&messages),
            asks,
            line: None,
        };
        return Ok((messages, link));
    };
    let stream = UnixStream::connect(path).await?;
    let (guid, fds) = greet(&stream, rustix::process::geteuid().as_raw()).await?;
    let line = Arc::new(Line {
        held: Arc::default(),
        stream: Arc::new(stream),
        fds,
        guid,
        address: address.to_owned(),
        name: OnceLock::new(),
    });
    let messages = line.messages(server).await?;
    let connection = Connection::from(&messages);
    let hello = connection
        .call_method(
            Some(DBUS),
            "/org/freedesktop/DBus",
            Some(DBUS),
            "Hello",
            &(),
        )
        .await?;
    let name: String = hello.body().deserialize()?;
    connection.set_unique_name(name.as_str())?;
    let _ = line.name.set(name);
    let link = BusLink {
        connection,
        asks,
        line: Some(line),
    };
    Ok((messages, link))
}

/// Where to connect, if that is a Unix socket; an abstract one begins with a NUL.
fn socket_path(address: &str) -> Option<PathBuf> {
    let address: zbus::Address = address.parse().ok()?;
    match address.transport() {
        Transport::Unix(unix) => match unix.path() {
            UnixSocket::File(path) => Some(path.clone()),
            UnixSocket::Abstract(name) => {
                let bytes = [b"\0", name.as_bytes()].concat();
                Some(OsString::from_vec(bytes).into())
            }
            _ => None,
        },
        _ => None,
    }
}

async fn proxy(connection: &Connection) -> zbus::Result<DBusProxy<'_>> {
    DBusProxy::builder(connection)
        .cache_properties(zbus::proxy::CacheProperties::No)
        .build()
        .await
}

async fn own_name(connection: &Connection) -> Result<(), BusError> {
    let refused = |why: String| BusError::NotAllowed { why };
    let proxy = proxy(connection)
        .await
        .map_err(|e| refused(e.to_string()))?;
    let name = WellKnownName::from_static_str_unchecked(BUS_NAME);
    match proxy
        .request_name(name.clone(), RequestNameFlags::DO_NOT_QUEUE)
        .await
    {
        Ok(RequestNameReply::PrimaryOwner | RequestNameReply::AlreadyOwner) => Ok(()),
        Ok(RequestNameReply::Exists | RequestNameReply::InQueue) => {
            let pid = proxy
                .get_connection_unix_process_id(BusName::from(name))
                .await;
            Err(BusError::NameTaken {
                holder: pid.map_or_else(|e| format!("somebody else ({e})"), |p| format!("pid {p}")),
            })
        }
        Err(error) => Err(refused(error.to_string())),
    }
}
