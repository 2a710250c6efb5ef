//! What is refused, and how a client is told.

use crate::support::{Containment, World, text};

#[test]
fn a_program_that_cannot_be_started_is_told_with_path_and_reason() {
    let world = World::new();
    let plain = world.path().join("no-program");
    std::fs::write(&plain, "text").unwrap();
    let plain = plain.to_str().unwrap();
    for (argv0, why) in [
        ("/nonexistent/program", "No such file or directory"),
        ("nowhere-in-the-path", "No such file or directory"),
        (plain, "Permission denied"),
        ("/", "Permission denied"),
    ] {
        let said = world.ctl(&["run", "-E", "PATH=/usr/bin:/bin", "--", argv0]);
        assert!(said.code != 0 && said.code != 8, "{said:?}");
        assert!(
            said.stderr.contains(argv0) && said.stderr.contains(why),
            "{said:?}"
        );
    }
    for (flag, dir, why) in [
        ("-d", "/nonexistent/dir", "No such file or directory"),
        ("-d", plain, "Not a directory"),
        (
            "--worktree",
            "/nonexistent/dir",
            "No such file or directory",
        ),
        ("--worktree", plain, "is not a directory"),
    ] {
        let said = world.ctl(&["run", flag, dir, "--", "true"]);
        assert_ne!(said.code, 0);
        assert!(
            said.stderr.contains(dir) && said.stderr.contains(why),
            "{said:?}"
        );
        assert!(!said.stderr.contains("Success"), "{said:?}");
    }
    // No row claims to run; what was recorded of a failed start is terminal.
    for row in world.rows() {
        assert_eq!(text(&row["status"]), "exited", "{row}");
        let shown = world.show(&text(&row["id"]));
        assert_eq!(text(&shown["how_known"]), "start-failed", "{shown}");
        assert!(shown["pid"].is_null());
    }
    world.assert_no_worker_process();
    world.end();
}

#[test]
fn one_worker_more_than_allowed_is_refused_with_the_limit() {
    let world = World::with(Containment::Auto, "[limits]\nmax_workers = 2\n");
    let nap = world.helper("nap");
    for _ in 0..2 {
        world.run(&[], &[&nap, "nap", world.mark()]);
    }
    let said = world.ctl(&["run", "--no-wait", "--", "true"]);
    assert_eq!(said.code, 8, "{said:?}");
    assert!(said.stderr.contains('2'), "{said:?}");
    assert_eq!(world.rows().len(), 2);
    world.end();
}

#[test]
fn a_worker_asks_for_a_sibling_and_a_cancel_takes_it_along() {
    for containment in [Containment::Auto, Containment::None] {
        let world = World::with(containment, "");
        let (nap, mark) = (world.helper("nap"), world.mark().to_owned());
        let ctl = crate::common::program("musterctl");
        let script = format!(
            "{} run -q --name child -- {nap} nap {mark} && exec {nap} nap {mark} {mark}/ready",
            ctl.display()
        );
        let parent = world.run(&["--name", "parent"], &["sh", "-c", &script]);
        crate::support::wait_until("both run", || world.path().join("ready").exists());
        let child = world.show("child");
        assert_eq!(text(&child["parent"]), parent, "{child}");
        assert_eq!(child["depth"], 1);
        world.ctl(&["cancel", "parent"]).ok();
        assert_eq!(text(&world.ended("child")["outcome"]), "cancelled");
        world.assert_no_worker_process();
        world.end();
    }
}

/// What a script inside a worker does: `ctl run --no-wait -- true` at the same time, and keeps
/// each exit code.
fn asks(world: &World, times: u32, more: &str) -> String {
    let ctl = crate::common::program("musterctl");
    let (ctl, mark) = (ctl.display(), world.mark());
    format!(
        "for i in $(seq {times}); do ({ctl} run -q --no-wait -- true >/dev/null 2>>{mark}/err; \
         echo $? >>{mark}/codes) & done; wait; {more}; touch {mark}/done; sleep 60 # {mark}"
    )
}

fn codes(world: &World) -> Vec<String> {
    crate::support::wait_until("the script is through", || {
        world.path().join("done").exists()
    });
    let text = std::fs::read_to_string(world.path().join("codes")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_worker_that_asks_too_fast_is_refused_and_one_that_waits_gets_its_turn() {
    let world = World::with(
        Containment::Auto,
        "[limits]\nspawn_burst = 3\nspawn_per_second = 1\n",
    );
    let ctl = crate::common::program("musterctl");
    let patient = format!(
        "{} run -q -- true >/dev/null 2>{m}/patient; echo $? >{m}/patient-code",
        ctl.display(),
        m = world.mark()
    );
    world.run(&[], &["sh", "-c", &asks(&world, 12, &patient)]);
    let codes = codes(&world);
    let count = |code: &str| codes.iter().filter(|c| *c == code).count();
    assert!(count("0") >= 3 && count("8") >= 1, "{codes:?}");
    assert_eq!(count("0") + count("8"), 12, "{codes:?}");
    let read = |name: &str| std::fs::read_to_string(world.path().join(name)).unwrap();
    assert_eq!(read("patient-code"), "0\n");
    assert!(read("err").contains("too fast"), "{}", read("err"));
    assert_eq!(read("patient").matches("waiting for room").count(), 1);
    let refused = world.service()["refused"]["spawn-rate"].as_u64();
    assert!(refused.is_some_and(|n| n > 0), "{refused:?}");
    // A person's own spawns have no such limit.
    for _ in 0..5 {
        world.run(&["--no-wait"], &["true"]);
    }
    world.end();
}

#[test]
fn a_worker_whose_tokens_are_spent_gets_no_helper() {
    let world = World::new();
    let ctl = crate::common::program("musterctl");
    let script = format!(
        "trap '' TERM; {} report --input 100; {}",
        ctl.display(),
        asks(&world, 1, ":")
    );
    let id = world.run(
        &["--tokens-max=50", "--kill-grace=20s"],
        &["sh", "-c", &script],
    );
    assert_eq!(codes(&world), ["8"]);
    let err = std::fs::read_to_string(world.path().join("err")).unwrap();
    assert!(err.contains("spent its tokens"), "{err}");
    world.ctl(&["cancel", "--now", &id]).ok();
    assert_eq!(
        text(&world.ended(&id)["cancelled"]["reason"]),
        "token-budget"
    );
    world.end();
}

#[test]
fn a_worker_that_is_being_ended_starts_nothing_that_would_escape() {
    let world = World::new();
    let script = format!(
        "trap '' TERM; until [ -e {m}/go ]; do sleep 0.05; done; {}",
        asks(&world, 1, ":"),
        m = world.mark()
    );
    let id = world.run(&["--kill-grace=20s"], &["sh", "-c", &script]);
    world.ctl(&["cancel", "--no-block", &id]).ok();
    std::fs::write(world.path().join("go"), "").unwrap();
    assert_eq!(codes(&world), ["8"]);
    world.ctl(&["cancel", "--now", &id]).ok();
    assert_eq!(world.rows().len(), 1);
    world.end();
}

#[test]
fn depth_names_and_a_drain_refuse_with_exit_code_8() {
    let world = World::with(Containment::Auto, "[limits]\nmax_depth = 0\n");
    world.run(&["--name=one"], &["sh", "-c", &asks(&world, 1, ":")]);
    assert_eq!(codes(&world), ["8"]);
    let err = std::fs::read_to_string(world.path().join("err")).unwrap();
    assert!(err.contains("max_depth"), "{err}");
    let said = world.ctl(&["run", "--name=one", "--", "true"]);
    assert_eq!(said.code, 8, "{said:?}");
    world.ctl(&["drain", "--no-block"]).ok();
    let said = world.ctl(&["run", "--", "true"]);
    assert_eq!(said.code, 8, "{said:?}");
    let refused = world.service()["refused"].clone();
    for reason in ["depth", "name-taken", "draining"] {
        assert_eq!(refused[reason], 1, "{refused}");
    }
    world.end();
}

#[test]
fn low_priorities_are_turned_away_where_the_cpu_is_short() {
    let Some(world) = World::in_leaves("admission", "[limits]\ncpu_pressure = 1\n") else {
        return;
    };
    let spin = format!("while :; do :; done # {}", world.mark());
    let workers = std::thread::available_parallelism().map_or(4, |n| 2 * n.get());
    for _ in 0..workers {
        world.run(&["--priority=high", "--no-wait"], &["sh", "-c", &spin]);
    }
    let said = crate::support::wait_for("one is turned away", || {
        let said = world.ctl(&["run", "--no-wait", "--priority=low", "--", "true"]);
        (said.code != 0).then_some(said)
    });
    assert_eq!(said.code, 8, "{said:?}");
    assert!(said.stderr.contains("CPU pressure"), "{said:?}");
    world.ctl(&["drain", "--reason", "over"]);
    world.end();
}

#[test]
fn a_limit_that_nothing_here_can_enforce_is_said_at_spawn_and_in_status() {
    let world = World::without_cgroup("");
    let nap = world.helper("nap");
    let said = world.ctl(&[
        "run",
        "--name=w",
        "--memory-max=64M",
        "--tasks-max=20",
        "--",
        &nap,
        "nap",
        world.mark(),
    ]);
    assert!(
        said.stderr
            .contains("cannot enforce: memory-max, tasks-max"),
        "{said:?}"
    );
    let status = world.ctl(&["status", "w"]).ok().stdout;
    assert!(
        status.contains("Unenforced: memory-max, tasks-max"),
        "{status}"
    );
    world.end();
}
