//! Verbs about the daemon itself, and the tree.

use std::process::Stdio;

use crate::support::{BOUND, Reaped, World, text, wait_for, wait_until, wait_within};

fn state(world: &World) -> String {
    text(&world.service()["state"])
}

#[test]
fn a_drain_ends_all_and_lets_nobody_in_until_resume() {
    let world = World::new();
    let one = world.run(&["--name", "one"], &["sleep", "1000"]);
    let two = world.run(&[], &["sh", "-c", "trap '' TERM; sleep 1000"]);
    let said = world.ctl(&["drain", "--reason", "new disk"]).ok();
    assert!(said.stdout.contains("no worker is left"), "{said:?}");
    for id in [one, two] {
        let row = world.show(&id);
        assert_eq!(
            (text(&row["status"]), text(&row["outcome"])),
            ("exited".into(), "cancelled".into())
        );
        let reason = text(&row["cancelled"]["reason"]);
        assert_eq!(reason, "the service is draining: new disk");
    }
    world.assert_no_worker_process();
    assert_eq!(state(&world), "draining");
    let refused = world.ctl(&["run", "--no-wait", "--", "true"]);
    assert_eq!(refused.code, 8, "{refused:?}");
    world.ctl(&["resume"]).ok();
    assert_eq!(state(&world), "running");
    world.run_to_end(&[], &["true"]);
    world.end();
}

#[test]
fn a_drain_that_waits_lets_workers_finish() {
    let world = World::new();
    let gate = world.path().join("gate");
    let script = format!(
        "until [ -e {} ]; do sleep 0.05; done; exit 7",
        gate.display()
    );
    let id = world.run(&[], &["sh", "-c", &script]);
    let mut command = world.command(&["drain", "--wait"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut drain = Reaped(command.spawn().unwrap());
    wait_until("it drains", || state(&world) == "draining");
    assert_eq!(world.status_of(&id), "live");
    assert!(drain.0.try_wait().unwrap().is_none());
    std::fs::write(&gate, "").unwrap();
    let status = wait_for("the drain ends", || drain.0.try_wait().unwrap());
    assert!(status.success());
    let row = world.ended(&id);
    assert_eq!(row["exit"]["code"], 7);
    assert!(row["cancelled"].is_null());
    // Told to end them after all, and only then.
    world.ctl(&["drain", "--no-block"]).ok();
    world.ctl(&["resume"]).ok();
    world.end();
}

#[test]
fn a_drain_outlives_a_reload_with_its_reason_and_its_time() {
    let world = World::new();
    let id = world.run(&[], &["sleep", "1000"]);
    world
        .ctl(&["drain", "--wait", "--no-block", "--reason", "new disk"])
        .ok();
    let closed = world.service()["closed"].clone();
    assert_eq!(closed["reason"], "new disk");
    for _ in 0..2 {
        world.ctl(&["reload"]).ok();
        assert_eq!(
            (state(&world), &world.service()["closed"]),
            ("draining".into(), &closed)
        );
        let refused = world.ctl(&["run", "--no-wait", "--", "true"]);
        assert_eq!(refused.code, 8, "{refused:?}");
    }
    let said = world.ctl(&["status"]).ok().stdout;
    assert!(said.contains("State: draining since "), "{said}");
    assert!(said.contains(": new disk\n"), "{said}");
    assert!(said.contains("Refused: 2 draining\n"), "{said}");
    assert_eq!(world.status_of(&id), "live");
    world.ctl(&["resume"]).ok();
    assert!(world.service()["closed"].is_null());
    world.run_to_end(&[], &["true"]);
    // On its way out it takes no new image.
    world.ctl(&["drain", "--wait", "--exit", "--no-block"]).ok();
    let refused = world.ctl(&["reload"]);
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(refused.stderr.contains("shutting down"), "{refused:?}");
    world.ctl(&["resume"]).ok();
    world.end();
}

#[test]
fn a_drain_that_is_taken_back_is_not_waited_for_and_says_so() {
    let world = World::new();
    let id = world.run(&[], &["sleep", "1000"]);
    let mut command = world.command(&["drain", "--wait"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let drain = command.stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it drains", || state(&world) == "draining");
    world.ctl(&["resume"]).ok();
    let said = drain.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("opened again"), "{said}");
    world.ctl(&["cancel", "--now", &id]).ok();
    world.end();
}

#[test]
fn what_only_a_running_worker_can_have_done_to_it_has_exit_code_3() {
    let world = World::new();
    let id = world.run_to_end(&[], &["true"]);
    for verb in [
        &["kill", &id][..],
        &["freeze", &id],
        &["thaw", &id],
        &["send", &id, "pause"],
    ] {
        let said = world.ctl(verb);
        assert_eq!(said.code, 3, "{verb:?}: {said:?}");
    }
    assert_eq!(world.ctl(&["kill", "nobody"]).code, 5);
    // That it has no channel is another thing.
    let id = world.run(&[], &["sleep", "1000"]);
    assert_eq!(world.ctl(&["send", &id, "pause"]).code, 1);
    world.ctl(&["cancel", "--now", &id]).ok();
    let again = world.ctl(&["cancel", &id]).ok();
    assert!(again.stdout.contains("had ended already"), "{again:?}");
    world.end();
}

#[test]
fn a_drain_that_exits_ends_the_daemon_with_its_last_worker() {
    let world = World::new();
    let id = world.run(&[], &["sleep", "1000"]);
    world.ctl(&["drain", "--exit"]).ok();
    wait_within(BOUND, "the daemon and its guardian end", || {
        world.daemons().is_empty().then_some(())
    });
    world.assert_no_worker_process();
    // A new daemon knows nothing of the drain.
    assert_eq!(text(&world.ended(&id)["outcome"]), "cancelled");
    assert_eq!(state(&world), "running");
    world.end();
}

#[test]
fn a_stop_signal_during_a_drain_that_waits_ends_the_workers() {
    let world = World::new();
    world.run(&[], &["sleep", "1000"]);
    world.ctl(&["drain", "--wait", "--no-block"]).ok();
    world.stop_daemon();
    world.assert_no_worker_process();
    world.end();
}

#[test]
fn the_log_level_is_set_while_the_daemon_runs() {
    let world = World::new();
    assert_eq!(world.ctl(&["log-level"]).ok().stdout, "info\n");
    world.ctl(&["log-level", "debug"]).ok();
    assert_eq!(world.ctl(&["log-level"]).ok().stdout, "debug\n");
    assert_eq!(world.ctl(&["log-level", "loud"]).code, 2);
    world.end();
}

#[test]
fn the_tree_shows_processes_below_workers_and_workers_below_their_parents() {
    let world = World::new();
    let musterctl = crate::common::program("musterctl");
    let script = format!(
        "{} run --quiet --name child -- sleep 1000; exec sleep 1001",
        musterctl.display()
    );
    let parent = world.run(&["--name", "parent"], &["sh", "-c", &script]);
    let tree = wait_for("the child is there", || {
        let tree = world.json(&["tree"]);
        let below = tree[0]["children"][0]["processes"][0]["argv"][1] == "1000";
        below.then_some(tree)
    });
    assert_eq!(
        (&tree[0]["id"], &tree[0]["children"][0]["name"]),
        (&parent.clone().into(), &"child".into())
    );
    let said = world.ctl(&["tree"]).ok().stdout;
    assert!(
        said.contains("sleep 1000") && said.contains("2 workers."),
        "{said}"
    );
    world.ctl(&["cancel", &parent]).ok();
    world.end();
}

/// The value of one line of the metrics.
fn metric(world: &World, name: &str) -> f64 {
    let text = world.ctl(&["metrics"]).ok().stdout;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
        .parse()
        .unwrap()
}

#[test]
fn metrics_count_what_happened_also_over_a_reload() {
    let world = World::without_cgroup("[limits]\nmax_workers_per_owner = 2\n");
    world.run_to_end(&[], &["true"]);
    let crashed = world.run(&[], &["sh", "-c", "exit 3"]);
    world.ended(&crashed);
    let id = world.run(&[], &["sleep", "1000"]);
    let two = world.run(&[], &["sleep", "1000"]);
    let refused = world.ctl(&["run", "--no-wait", "--", "true"]);
    assert_eq!(refused.code, 8, "{refused:?}");
    world.ctl(&["cancel", &id]).ok();
    world.ctl(&["reap", "--dry-run"]).ok();
    world.ctl(&["reap"]).ok();
    let check = || {
        for (name, wanted) in [
            ("musterd_spawned_total", 4.0),
            ("musterd_exits_total{outcome=\"completed\"}", 1.0),
            ("musterd_exits_total{outcome=\"crashed\"}", 1.0),
            ("musterd_exits_total{outcome=\"cancelled\"}", 1.0),
            ("musterd_ladders_total{rung=\"term\"}", 1.0),
            ("musterd_refused_total{reason=\"too-many\"}", 1.0),
            ("musterd_rows{status=\"live\"}", 1.0),
            ("musterd_rows{status=\"exited\"}", 3.0),
            ("musterd_sweep_seconds_count", 2.0),
            (
                "musterd_swept_rows_total{action=\"keep\",reason=\"within-grace\"}",
                3.0,
            ),
        ] {
            assert!((metric(&world, name) - wanted).abs() < 0.5, "{name}");
        }
        assert!(metric(&world, "musterd_loop_lag_seconds_count") > 5.0);
    };
    check();
    world.ctl(&["reload"]).ok();
    check();
    world.ctl(&["cancel", &two]).ok();
    world.end();
}

#[test]
fn a_stderr_that_cannot_be_written_changes_no_exit_code() {
    let world = World::new();
    let code = |words: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut command = world.command(words);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(full.unwrap());
        command.status().unwrap().code()
    };
    assert_eq!(
        code(&["run", "--wait", "--", "sh", "-c", "exit 3"]),
        Some(3)
    );
    assert_eq!(code(&["status", "nosuch"]), Some(4));
    assert_eq!(code(&["cancel", "nosuch"]), Some(5));
    world.end();
}
