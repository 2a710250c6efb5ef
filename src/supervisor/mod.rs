//! The one owner of state.

pub mod admission;
pub mod handle;
pub mod ladder;
pub mod liveness;
pub mod refused;
pub mod step;
