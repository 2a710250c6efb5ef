//! The contract on real connections: peer to peer and over a private dbus-daemon, before a
//! supervisor that answers from a table.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod abuse;
mod authorisation;
mod bus;
mod contract;
mod fake;
mod log_control;
mod methods;
mod polkit;
mod signals;
mod spawn;
