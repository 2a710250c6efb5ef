//! The worktree probe on real repositories, with the real helper.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up fails by it"
)]

mod bench;
#[path = "../common/mod.rs"]
mod common;
mod helpers;
mod hostile;
mod states;
