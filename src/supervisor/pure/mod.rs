//! What the supervisor decides by: plain functions and small machines that are given the time and
//! what was seen, and answer with what is to be done. No I/O, no clock, no log.

pub mod admission;
pub mod ladder;
pub mod life;
pub mod liveness;
pub mod restart;
pub mod settle;
pub mod step;
