//! System calls behind one door.

#[allow(unsafe_code)]
pub mod pdeathsig;
