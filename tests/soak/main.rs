//! Soak: rounds of starts, ends of every kind, sweeps and reloads, for as long as one likes. After
//! each round nothing of it may be left, and memory may not grow from round to round.
//!
//! `make soak`, with `MINUTES=…` (10). As root, or as a user who has no leaves.

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

mod held;

use std::time::{Duration, Instant};

use held::Held;
use serde_json::Value;
use support::control::{python, speak};
use support::{World, text, wait_until, wait_within};

/// Workers of each sort in a round.
const EACH: usize = 6;
/// Rounds between two reloads.
const RELOAD_EVERY: usize = 5;
/// Rounds that are not judged: caches fill, the heap finds its size.
const WARM_UP: usize = 5;
/// What the memory of the later rounds may be above that of the earlier ones.
const GROWTH: f64 = 0.05;
/// The same for a daemon so small that pages decide, KiB.
const GROWTH_KIB: f64 = 512.0;

fn minutes() -> f64 {
    let minutes = std::env::var("MINUTES").ok();
    minutes.map_or(10.0, |text| text.parse().expect("MINUTES is no number"))
}

/// One of everything that starts and ends; all of it has ended afterwards.
fn round(world: &World, with_python: bool) {
    let stubborn = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & \
                    setsid sh -c 'while :; do sleep 1; done' & while :; do sleep 1; done";
    let restarts = ["--restart=on-failure", "--restart-max=1"];
    let mut last = Vec::new();
    for n in 0..EACH {
        world.run(&[], &["true"]);
        world.run(&[], &["sh", "-c", "echo some output; exit 3"]);
        world.run(&["--deadline=1s"], &["sleep", "1000"]);
        last.push((world.run(&restarts, &["false"]), &["crashed"][..]));
        let cancelled = world.run(&["--kill-grace=1s"], &["sh", "-c", stubborn]);
        let now: &[&str] = if n % 2 == 0 {
            &["--now"]
        } else {
            &["--no-block"]
        };
        world.ctl(&[&["cancel", &cancelled][..], now].concat()).ok();
        last.push((cancelled, &["cancelled"]));
        if with_python {
            let script = "spawned(); send(type='usage', input_tokens=5, output_tokens=1); \
                          send(type='turn_done'); leave(0)";
            last.push((
                speak(world, &["--kind", "turn:soak"], script),
                &["completed"],
            ));
        }
    }
    let over = |row: &Value| ["exited", "permanent-dead"].contains(&text(&row["status"]).as_str());
    wait_until("all but the one that stays has ended", || {
        world.rows().iter().filter(|row| !over(row)).count() == 1
    });
    for (id, outcomes) in last {
        let row = world.show(&id);
        let outcome = text(&row["outcome"]);
        assert!(outcomes.contains(&outcome.as_str()), "{row}");
    }
    wait_within(Duration::from_secs(60), "the roll is empty", || {
        world.ctl(&["reap", "--grace", "0"]).ok();
        (world.rows().len() == 1).then_some(())
    });
}

#[test]
fn nothing_piles_up_from_round_to_round() {
    let world = World::new();
    let with_python = python("the workers with a control channel");
    let stays = world.run(&[], &["sleep", "inf"]);
    let daemon = world.daemon_pid().unwrap();
    let end = Instant::now() + Duration::from_secs_f64(minutes() * 60.0);
    let mut all: Vec<Held> = Vec::new();
    while Instant::now() < end || all.len() < WARM_UP + 6 {
        round(&world, with_python);
        if all.len() % RELOAD_EVERY == RELOAD_EVERY - 1 {
            world.ctl(&["reload"]).ok();
        }
        assert_eq!(world.daemon_pid(), Some(daemon), "another daemon");
        let first = all.get(WARM_UP);
        let held = Held::at_rest(&world, daemon, first);
        eprintln!("round {}: {held}", all.len());
        all.push(held);
    }
    assert_eq!(world.status_of(&stays), "live");
    held::judge(&all[WARM_UP..], GROWTH, GROWTH_KIB);
    world.end();
}
