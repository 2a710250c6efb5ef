//! A worker whose leader has ended and whose leftovers may go on is a worker still: its limits
//! hold, and its row says who ended it.

use crate::common::program;
use crate::support::control::{python, speak};
use crate::support::{Containment, World, text, wait_until};

const WAIT: &[&str] = &["--leftovers", "wait"];

/// `musterctl` is the one that was built.
fn with_program(script: &str) -> String {
    let path = program("musterctl");
    script.replace("musterctl", path.to_str().unwrap())
}

fn run(world: &World, options: &[&str], script: &str) -> String {
    let options = [WAIT, options].concat();
    world.run(&options, &["sh", "-c", &with_program(script)])
}

#[test]
fn a_budget_ends_what_the_leader_has_left() {
    // Only its leaf tells whose report it is when the leader has ended.
    let Some(world) = World::in_leaves("a_budget_ends_what_the_leader_has_left", "") else {
        return;
    };
    let script = "(while :; do musterctl report --input 100; sleep 0.05; done) & exit 3";
    let id = run(&world, &["--tokens-max", "500"], script);
    let row = world.ended(&id);
    assert_eq!(text(&row["cancelled"]["reason"]), "token-budget", "{row}");
    // What the leader made of it was said before.
    assert_eq!(row["exit"]["code"], 3, "{row}");
    assert!(row["tokens"]["input"].as_u64().unwrap() < 1500, "{row}");
    world.assert_no_worker_process();
    world.end();
}

#[test]
fn deadline_and_idleness_end_what_the_leader_has_left() {
    let world = World::new();
    let late = run(&world, &["--deadline", "1s"], "sleep 1000 & exit 0");
    let idle = run(
        &world,
        &["--idle-timeout", "1s"],
        "musterctl report --turn-done; sleep 1000 & exit 0",
    );
    for (id, why) in [(late, "deadline exceeded"), (idle, "idle")] {
        let row = world.ended(&id);
        assert_eq!(text(&row["cancelled"]["reason"]), why, "{row}");
        assert_eq!(text(&row["outcome"]), "completed", "{row}");
    }
    world.assert_no_worker_process();
    world.end();
}

#[test]
fn it_is_no_dead_worker_and_a_cancel_of_it_leaves_its_trace() {
    let world = World::new();
    let id = run(&world, &[], "sleep 1000 & exit 0");
    wait_until("the leader has ended", || world.show(&id)["pid"].is_null());
    let row = world.show(&id);
    assert_eq!(
        (text(&row["status"]), text(&row["health"])),
        ("live".into(), "healthy".into()),
        "{row}"
    );
    let roll = world.ctl(&["list", "--json=short"]).ok().json();
    assert!(roll[0]["pid"].is_null() || roll[0]["pid"] == 0, "{roll}");
    let said = world.ctl(&["kill", "--signal", "USR1", "--kill-whom", "main", &id]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("has ended already"), "{said:?}");
    let said = world.ctl(&["cancel", "--reason", "by me", &id]).ok();
    assert!(said.stdout.contains("reason: by me"), "{said:?}");
    let row = world.show(&id);
    assert_eq!(text(&row["cancelled"]["reason"]), "by me", "{row}");
    assert_eq!(text(&row["outcome"]), "completed", "{row}");
    world.end();
}

#[test]
fn a_spent_budget_is_not_spent_further_by_another_generation() {
    let test = "a_spent_budget_is_not_spent_further_by_another_generation";
    let Some(world) = World::in_leaves(test, "") else {
        return;
    };
    let id = world.run(
        &["--restart", "always", "--tokens-max", "300"],
        &[
            "sh",
            "-c",
            &with_program("musterctl report --input 400; sleep 1000"),
        ],
    );
    let row = world.ended(&id);
    assert_eq!(row["restarts"].as_u64(), Some(0), "{row}");
    // Reported by a helper, so late that the leader had ended.
    let id = run(
        &world,
        &["--restart", "always", "--tokens-max", "300"],
        "(musterctl report --input 400) & exit 1",
    );
    let row = world.ended(&id);
    assert_eq!(row["restarts"].as_u64(), Some(0), "{row}");
    world.end();
}

#[test]
fn however_many_tokens_are_reported_they_are_shown() {
    let world = World::new();
    let script = "musterctl report --input 18446744073709551615 --output 18446744073709551615; \
                  musterctl report --input 7; sleep 1000";
    let id = world.run(&[], &["sh", "-c", &with_program(script)]);
    wait_until("it has reported", || {
        world.show(&id)["tokens"]["input"].as_u64() == Some(u64::MAX)
    });
    let said = world.ctl(&["status", &id]).ok();
    assert!(
        said.stdout.contains(&format!("Tokens: {} in", u64::MAX)),
        "{said:?}"
    );
    world.ctl(&["list"]).ok();
    world.ctl(&["cancel", &id]).ok();
    world.end();
}

#[test]
fn leftovers_of_a_worker_with_a_channel_outlive_it() {
    if !python("leftovers_of_a_worker_with_a_channel_outlive_it") {
        return;
    }
    let world = World::with(Containment::Auto, "[liveness]\npong = \"1s\"\n");
    let script = "import subprocess\nspawned()\nsubprocess.Popen(['sleep', '1000'])\nleave(0)";
    let id = speak(&world, WAIT, script);
    wait_until("the leader has ended", || world.show(&id)["pid"].is_null());
    // Longer than a lost channel and a missed heartbeat are borne.
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(world.status_of(&id), "live", "{}", world.show(&id));
    world.ctl(&["cancel", &id]).ok();
    world.assert_no_worker_process();
    world.end();
}
