//! End-to-end tests: the real programs, real processes, a real git, a private daemon.
//!
//! Each test has a world of its own (`support`). They run as root and as an ordinary user; as
//! root, and where a cgroup2 can be written, also with workers in leaves.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's name is its documentation, and a panic its verdict"
)]

#[path = "../common/mod.rs"]
mod common;
mod support;

mod admission;
mod adopting;
mod bad_input;
mod burst;
mod collecting;
mod control;
mod daemon_death;
mod endings;
mod environment;
mod heartbeat;
mod hostile;
mod journal;
mod leftovers_wait;
mod liveness;
mod notify;
mod output;
mod reload;
mod restarts;
mod service;
mod service_manager;
mod settling;
mod siblings;
mod sick_disk;
mod state_files;
mod terminal;
mod two_hundred;
