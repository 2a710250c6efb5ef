//! Crash tests: the daemon is killed before every single system call by which it writes its roll,
//! and what it had told somebody by then must be true for the daemon that follows.
//!
//! `make crash-test`. They need root and strace, and take minutes.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's name is its documentation, and a panic its verdict"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../e2e/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "it serves the end-to-end tests too"
)]
mod support;

mod facts;
mod killer;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use facts::Told;
use killer::{Killer, Point, points};
use support::{World, means, proc, wait_until};

/// Less than the client's own patience with a daemon that does not come up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Nothing of the daemon and its workers is left, then the next daemon is asked.
fn after_the_crash(world: &World, told: &Told, point: &Point) {
    wait_until("all of it has ended", || world.processes().is_empty());
    let service = world.service();
    assert_eq!(service["n_quarantined"], 0, "{point}: {service}");
    told.check(world, point);
    world.run_to_end(&["--name", "next"], &["true"]);
    // While it runs it keeps files of older versions to be written over.
    world.stop_daemon();
    for name in names(&world.state().join("rows")) {
        let is_row = name.ends_with(".toml") && !name.starts_with('.');
        assert!(is_row, "{point}: left behind: {name}");
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

/// Ends whatever runs, for a point that was never reached.
fn end_it(world: &World) {
    if world.daemon_pid().is_some() {
        world.kill_daemon();
    }
}

/// One line for whoever looks on, and the verdict: fewer points than there are is a failure.
fn verdict(what: &str, all: usize, reached: usize) {
    eprintln!("{what}: {all} kill points, {reached} reached");
    assert!(all > 0 && reached * 10 >= all * 8, "{what}: too few");
}

#[test]
fn what_was_told_is_true_after_a_kill_before_any_system_call_of_a_write() {
    let test = "what_was_told_is_true_after_a_kill_before_any_system_call_of_a_write";
    if !means::traceable(test) {
        return;
    }
    let world = World::new();
    world.ctl(&["list"]).ok();
    let watcher = Killer::watch(&world);
    let mut told = Told::default();
    assert!(told.work(&world), "{told:?}");
    let all = points(&watcher.over());
    told.check(&world, &Point::none());
    world.end();
    let mut reached = 0;
    for point in &all {
        let world = World::new();
        world.ctl(&["list"]).ok();
        let killer = Killer::before(&world, point);
        let mut told = Told::default();
        reached += usize::from(!told.work(&world));
        end_it(&world);
        drop(killer);
        after_the_crash(&world, &told, point);
        world.end();
    }
    verdict("while it runs", all.len(), reached);
}

#[test]
fn a_start_that_is_killed_anywhere_is_made_good_by_the_next() {
    let test = "a_start_that_is_killed_anywhere_is_made_good_by_the_next";
    if !means::traceable(test) {
        return;
    }
    // What a daemon left that was killed with its workers.
    let lost = |world: &World| {
        world.ctl(&["list"]).ok();
        let mut told = Told::default();
        assert!(told.work(world), "{told:?}");
        world.kill_daemon_and_guardian();
        for left in world.worker_processes() {
            proc::signal(left.pid, nix::sys::signal::Signal::SIGKILL);
        }
        wait_until("all of it has ended", || world.processes().is_empty());
        told
    };
    let world = World::new();
    let told = lost(&world);
    let log = Killer::start(&world, None);
    told.check(&world, &Point::none());
    world.stop_daemon();
    let all = points(&fs::read_to_string(log).unwrap());
    world.end();
    let mut reached = 0;
    for point in &all {
        let world = World::new();
        let told = lost(&world);
        let begun = Instant::now();
        Killer::start(&world, Some(point));
        let took = begun.elapsed();
        assert!(took < PATIENCE, "{point}: the client waited for {took:?}");
        reached += usize::from(world.daemon_pid().is_none());
        end_it(&world);
        after_the_crash(&world, &told, point);
        world.end();
    }
    verdict("while it starts", all.len(), reached);
}
