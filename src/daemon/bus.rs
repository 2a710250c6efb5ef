//! Which message bus the daemon serves, and what is made of its absence.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::options::Options;
use crate::dbus::{BusError, KeptBus, Server, bus};
use crate::error::Fault;
use crate::places::{self, Real};

/// Where the system bus is (dbus-daemon(1)).
const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";

/// Which message bus.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bus {
    None,
    /// This one, and it must be there.
    Named(String),
    /// The usual one; where there is none, the socket is enough.
    Usual(String),
}

impl Bus {
    pub(super) fn chosen(options: &Options) -> Self {
        let usual = |variable: &str, path: Option<PathBuf>| {
            let given = std::env::var(variable).ok().filter(|a| !a.is_empty());
            let address = given.or_else(|| Some(format!("unix:path={}", path?.display())));
            address.map_or(Bus::None, Bus::Usual)
        };
        match &options.address {
            Some(address) => Bus::Named(address.clone()),
            None if options.no_bus || options.embedded => Bus::None,
            None if options.user => usual(
                "DBUS_SESSION_BUS_ADDRESS",
                places::runtime_root(&Real).map(|dir| dir.join("bus")),
            ),
            None => usual("DBUS_SYSTEM_BUS_ADDRESS", Some(SYSTEM_BUS.into())),
        }
    }
}

/// Serves the bus and takes the name there, the last step before the service is ready. `resumed`:
/// workers run already, so the lack of a name is no reason to end. `kept`: the bus of the image
/// before.
pub(super) async fn take_name(
    server: &Arc<Server>,
    bus: Bus,
    resumed: bool,
    kept: Option<KeptBus>,
) -> Result<(), Fault> {
    let (address, must) = match bus {
        Bus::None => return Ok(()),
        Bus::Named(address) => (address, true),
        Bus::Usual(address) => (address, false),
    };
    if let Some(kept) = kept.filter(|kept| kept.address == address) {
        match bus::go_on(server, kept).await {
            Ok(link) => {
                tokio::spawn(bus::keep(Arc::clone(server), address, Some(link)));
                return Ok(());
            }
            Err(error) => tracing::warn!("the message bus was lost in the reload: {error}"),
        }
    }
    let path = address.strip_prefix("unix:path=");
    let patience = match path {
        // No bus at all is nothing to wait for. One that is only slow listens already.
        Some(path) if !must && UnixStream::connect(path).is_err() => Duration::ZERO,
        _ => bus::PATIENCE,
    };
    match bus::connect(server, &address, patience).await {
        Ok(link) => {
            tokio::spawn(bus::keep(Arc::clone(server), address, Some(link)));
            Ok(())
        }
        Err(error) if resumed || (!must && matches!(error, BusError::Unreachable { .. })) => {
            tracing::warn!("serving the socket only: {error}");
            tokio::spawn(bus::keep(Arc::clone(server), address, None));
            Ok(())
        }
        Err(error) => Err(Fault::Unreachable(error.to_string())),
    }
}
