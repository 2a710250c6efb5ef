//! The message bus: connects, serves, takes the name last, and comes back when the bus does.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zbus::Connection;
use zbus::fdo::{DBusProxy, RequestNameFlags, RequestNameReply};
use zbus::names::{BusName, WellKnownName};

use super::connection::{Link, serve};
use super::{BUS_NAME, Server};

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
#[derive(Debug)]
pub struct BusLink {
    connection: Connection,
}

impl BusLink {
    /// Waits until the bus has gone.
    pub async fn gone(&self) {
        self.connection.closed().await;
    }

    /// Gives the name back, so that new calls start a new daemon; open ones are still answered.
    pub async fn release(&self) {
        let name = WellKnownName::from_static_str_unchecked(BUS_NAME);
        let released = async { proxy(&self.connection).await?.release_name(name).await };
        if let Err(error) = released.await {
            tracing::debug!(%error, "cannot release the bus name");
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

/// Keeps a bus that was connected: when it goes away, tries for ever to come back; gives the
/// name back while a reload is under way.
pub async fn keep(server: Arc<Server>, address: String, mut link: BusLink) {
    let mut quiet = server.handle.quiet();
    loop {
        tokio::select! {
            () = link.gone() => link = come_back(&server, &address).await,
            // Without the supervisor nobody asks for quiet any more.
            Ok(()) = quiet.changed() => {
                if *quiet.borrow_and_update() {
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
    tracing::warn!(address, "the message bus has gone; trying to come back");
    let mut pause = RETRY;
    loop {
        match once(server, address).await {
            Ok(link) => {
                tracing::info!(address, "back on the message bus");
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
    let unreachable = |why: String| BusError::Unreachable {
        address: address.to_owned(),
        why,
    };
    let building = zbus::connection::Builder::address(address).build_message_stream();
    let messages = tokio::time::timeout(PATIENCE, building)
        .await
        .map_err(|_| unreachable("no answer to the handshake".to_owned()))?
        .map_err(|e| unreachable(e.to_string()))?;
    let connection = Connection::from(&messages);
    // Calls that an activating bus has queued come with the name: they must find a reader.
    tokio::spawn(serve(server.clone(), messages, Link::bus()));
    match own_name(&connection).await {
        Ok(()) => Ok(BusLink { connection }),
        Err(error) => {
            if let Err(error) = connection.close().await {
                tracing::debug!(%error, "cannot close the connection to the bus");
            }
            Err(error)
        }
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
