//! Signs of life of real workers, and what comes of their absence.

use std::fs;

use crate::support::{Containment, World, text, wait_until};

#[test]
fn cpu_time_is_progress_for_a_worker_that_says_nothing() {
    let Some(world) = World::in_leaves("liveness", "[liveness]\nprogress = \"300ms\"\n") else {
        return;
    };
    let nap = world.helper("nap");
    let quiet = world.run(&[], &[&nap, "nap", world.mark()]);
    let spin = format!("while :; do :; done # {}", world.mark());
    let busy = world.run(&[], &["sh", "-c", &spin]);
    let health = |id: &str| text(&world.show(id)["health"]);
    wait_until("the quiet one is busy", || health(&quiet) == "busy");
    for _ in 0..5 {
        wait_until("the working one is healthy", || health(&busy) == "healthy");
    }
    let row = world.show(&busy);
    assert_eq!(row["liveness"]["progress_timeout_usec"], 300_000, "{row}");
    assert!(row["liveness"]["last_pong"].is_null(), "{row}");
    // Left alone, both.
    for id in [&quiet, &busy] {
        assert_eq!(world.status_of(id), "live");
    }
    world.ctl(&["cancel", "--now", &busy]).ok();
    world.end();
}

#[test]
fn a_configured_deadline_holds_for_who_asks_for_none() {
    let world = World::with(Containment::Auto, "[liveness]\ndeadline = \"300ms\"\n");
    let nap = world.helper("nap");
    let id = world.run(&[], &[&nap, "nap", world.mark()]);
    let row = world.ended(&id);
    assert_eq!(
        text(&row["cancelled"]["reason"]),
        "deadline exceeded",
        "{row}"
    );
    assert_eq!(text(&row["outcome"]), "cancelled", "{row}");
    let id = world.run(&["--deadline=1h"], &[&nap, "nap", world.mark()]);
    assert_eq!(world.status_of(&id), "live");
    world.end();
}

#[test]
fn a_token_budget_ends_a_worker_that_only_ever_reports() {
    let world = World::new();
    let ctl = crate::common::program("musterctl");
    let script = format!(
        "while {} report --input 30 --output 20; do :; done; sleep 60 # {}",
        ctl.display(),
        world.mark()
    );
    let id = world.run(&["--tokens-max=200"], &["sh", "-c", &script]);
    let row = world.ended(&id);
    assert_eq!(text(&row["cancelled"]["reason"]), "token-budget", "{row}");
    assert_eq!(text(&row["outcome"]), "cancelled", "{row}");
    let tokens = |row: &serde_json::Value| {
        row["tokens"]["input"].as_u64().unwrap() + row["tokens"]["output"].as_u64().unwrap()
    };
    assert!(tokens(&row) >= 200, "{row}");
    assert_eq!(row["tokens"]["input"].as_u64().unwrap() % 30, 0, "{row}");
    // What was counted is on disk.
    world.stop_daemon();
    assert_eq!(tokens(&world.show(&id)), tokens(&row));
    world.assert_no_worker_process();
    world.end();
}

#[test]
fn tokens_survive_the_death_of_the_daemon() {
    let world = World::new();
    let ctl = crate::common::program("musterctl");
    let script = format!(
        "{} report --input 7 --output 5; touch {m}/said; sleep 60 # {m}",
        ctl.display(),
        m = world.mark()
    );
    let id = world.run(&[], &["sh", "-c", &script]);
    wait_until("it has said so", || world.path().join("said").exists());
    wait_until("it is on disk", || {
        fs::read_to_string(world.row_file(&id)).is_ok_and(|text| text.contains("input = 7"))
    });
    world.kill_daemon_and_guardian();
    let row = world.ended(&id);
    assert_eq!(
        (
            row["tokens"]["input"].as_u64(),
            row["tokens"]["output"].as_u64()
        ),
        (Some(7), Some(5))
    );
    world.end();
}

#[test]
fn a_report_that_is_faster_than_the_start_of_its_worker_counts() {
    let world = World::new();
    let ctl = crate::common::program("musterctl");
    let ctl = ctl.to_str().unwrap();
    let ids: Vec<String> = (0..16)
        .map(|_| world.run(&[], &[ctl, "report", "--input", "5"]))
        .collect();
    for id in ids {
        let row = world.ended(&id);
        assert_eq!(row["exit"]["code"], 0, "{row}");
        assert_eq!(row["tokens"]["input"].as_u64(), Some(5), "{row}");
    }
    world.end();
}
