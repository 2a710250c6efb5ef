//! The one owner of state.

pub mod handle;
pub mod refused;
