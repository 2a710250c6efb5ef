//! The bus: serves the contract `packaging/dbus/org.muster1.*.xml` peer to peer on the socket and
//! on a message bus, with the same code. It meets the supervisor only through its handle.

pub mod client;
pub mod convert;
pub mod errors;

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
