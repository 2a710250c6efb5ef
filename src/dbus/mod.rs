//! The bus: serves the contract `packaging/dbus/org.muster1.*.xml` peer to peer on the socket and
//! on a message bus, with the same code. It meets the supervisor only through its handle.

pub mod client;
pub mod convert;
pub mod errors;
mod kind;

use zbus::ObjectPath;

use crate::worker::WorkerId;

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
