//! System calls behind one door.

pub mod session;
