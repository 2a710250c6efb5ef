//! System calls behind one door.

pub mod peer;
pub mod session;
