//! Workers with a restart policy: back-off, ceiling, cancel, drain, reload, the death of the daemon.

use std::fs;

use serde_json::Value;

use crate::support::{Containment, World, code, text, wait_for, wait_until};

const QUICK: &str = "[restart]\nbackoff_min = \"20ms\"\nbackoff_max = \"100ms\"\n";
const SLOW: &str = "[restart]\nbackoff_min = \"1h\"\nbackoff_max = \"1h\"\n";

fn both() -> [Containment; 2] {
    [Containment::Auto, Containment::None]
}

/// Waits until a row is what it is to be.
#[track_caller]
fn row_when(world: &World, worker: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    wait_for(&format!("{worker} {what}"), || {
        let row = world.show(worker);
        is(&row).then_some(row)
    })
}

fn restarting(row: &Value) -> bool {
    text(&row["status"]) == "restarting"
}

#[test]
fn a_crash_loop_ends_in_permanent_dead_and_never_has_two_generations() {
    for containment in both() {
        let world = World::with(containment, QUICK);
        let mark = world.mark().to_owned();
        // Each generation leaves a helper that ignores SIGTERM; the next one must not meet it.
        let helper =
            format!("trap '' TERM; exec 9<&-; while :; do sleep 0.05; done # {mark}/helper");
        let script = format!(
            "old=$(cat {mark}/alive 2>/dev/null); [ -n \"$(tr -d '\\0' </proc/${{old:-none}}/cmdline 2>/dev/null)\" ] && touch {mark}/two; \
             echo generation >>{mark}/runs; sh -c \"{helper}\" & echo $! >{mark}/alive; exit 3 # {mark}"
        );
        let id = world.run(
            &[
                "--restart=on-failure",
                "--restart-max=3",
                "--kill-grace=200ms",
            ],
            &["sh", "-c", &script],
        );
        let row = row_when(&world, &id, "is permanently dead", |row| {
            text(&row["status"]) == "permanent-dead"
        });
        assert_eq!(row["restarts"], 3, "{row}");
        assert_eq!(
            (code(&row), text(&row["outcome"])),
            (Some(3), "crashed".into())
        );
        assert!(text(&row["note"]).contains("3 restarts within"), "{row}");
        assert!(row["pid"].is_null() && !row["exited"].is_null(), "{row}");
        let runs = fs::read_to_string(world.path().join("runs")).unwrap();
        assert_eq!(runs.lines().count(), 4);
        assert!(
            !world.path().join("two").exists(),
            "two generations at once"
        );
        // A wait that comes late is answered like one that was there all the time.
        assert_eq!(world.ctl(&["wait", &id]).code, 3);
        world.assert_no_worker_process();
        world.end();
    }
}

#[test]
fn a_wait_returns_with_the_last_generation_and_output_goes_on_in_one_file() {
    let world = World::with(Containment::Auto, QUICK);
    let mark = world.mark().to_owned();
    let script = format!(
        "echo x >>{mark}/n; n=$(wc -l <{mark}/n); echo round $n; test ${{#SECRET}} = 6 || exit 9; \
         test $n -lt 3 && exit 5; exit 0 # {mark}"
    );
    let said = world.ctl(&[
        "run",
        "--wait",
        "--restart=on-failure",
        "--name=w",
        "-E",
        "SECRET=s3cret",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    assert_eq!(said.code, 0, "{said:?}");
    let row = world.show("w");
    assert_eq!(
        (row["restarts"].as_u64(), text(&row["status"])),
        (Some(2), "exited".into())
    );
    assert!(
        row["oom_killed"] == false && text(&row["outcome"]) == "completed",
        "{row}"
    );
    let output = fs::read_to_string(text(&row["output"])).unwrap();
    assert_eq!(output, "round 1\nround 2\nround 3\n");
    // The environment is needed again and is written nowhere.
    let found = std::process::Command::new("grep")
        .args(["-r", "s3cret"])
        .arg(world.state())
        .output()
        .unwrap();
    assert!(found.stdout.is_empty(), "{found:?}");
    world.end();
}

#[test]
fn policies_ask_for_what_they_say() {
    let world = World::with(Containment::Auto, SLOW);
    for (policy, exit, again) in [
        ("no", "1", false),
        ("on-failure", "0", false),
        ("on-failure", "1", true),
        ("always", "0", true),
    ] {
        let option = format!("--restart={policy}");
        let id = world.run(&[&option], &["sh", "-c", &format!("exit {exit}")]);
        let row = row_when(&world, &id, "has ended once", |row| !row["exit"].is_null());
        assert_eq!(restarting(&row), again, "{policy} {exit} {row}");
        assert_eq!(row["restart_at"].is_null(), !again, "{row}");
        assert!(row["pid"].is_null(), "{row}");
    }
    let nap = world.helper("nap");
    let id = world.run(&["--restart=always"], &[&nap, "nap", world.mark()]);
    world.ctl(&["cancel", &id]).ok();
    assert_eq!(text(&world.show(&id)["status"]), "exited");
    world.end();
}

#[test]
fn a_cancel_and_a_drain_end_the_wait_for_the_next_generation() {
    let world = World::with(Containment::Auto, SLOW);
    let ids: Vec<String> = (0..3)
        .map(|_| world.run(&["--restart=always"], &["sh", "-c", "exit 4"]))
        .collect();
    for id in &ids {
        row_when(&world, id, "waits", restarting);
    }
    let mut wait = world.command(&["wait", &ids[0]]).spawn().unwrap();
    world.ctl(&["cancel", "--reason=enough", &ids[0]]).ok();
    wait_until("the wait ends", || wait.try_wait().unwrap().is_some());
    let row = world.show(&ids[0]);
    assert_eq!(
        (text(&row["status"]), text(&row["outcome"])),
        ("exited".into(), "cancelled".into())
    );
    assert_eq!(text(&row["cancelled"]["reason"]), "enough");

    // A worker that may finish is not started again once admission is closed.
    let go = format!("{}/go", world.mark());
    let late = world.run(
        &["--restart=always"],
        &[
            "sh",
            "-c",
            &format!("until [ -e {go} ]; do sleep 0.05; done"),
        ],
    );
    world.ctl(&["drain", "--wait", "--no-block"]).ok();
    row_when(&world, &ids[1], "is ended by the drain", |row| {
        text(&row["outcome"]) == "cancelled" && text(&row["status"]) == "exited"
    });
    fs::write(&go, "").unwrap();
    let row = world.ended(&late);
    assert_eq!(text(&row["outcome"]), "completed", "{row}");
    assert!(
        text(&row["note"]).ends_with("not started again: the service is draining"),
        "{row}"
    );
    world.ctl(&["resume"]).ok();
    world.end();
}

#[test]
fn a_reload_keeps_the_wait_and_what_the_next_generation_is_made_from() {
    let config = "[restart]\nbackoff_min = \"3s\"\nbackoff_max = \"3s\"\n";
    let world = World::with(Containment::Auto, config);
    let mark = world.mark().to_owned();
    let script =
        format!("echo \"$SECRET\" >>{mark}/n; test $(wc -l <{mark}/n) -lt 2 && exit 5; exit 0");
    let id = world.run(
        &["--restart=on-failure", "-E", "SECRET=s3cret"],
        &["sh", "-c", &script],
    );
    row_when(&world, &id, "waits", restarting);
    let mut wait = world.command(&["wait", &id]).spawn().unwrap();
    world.ctl(&["reload"]).ok();
    assert!(restarting(&world.show(&id)), "still waiting");
    let row = world.ended(&id);
    assert_eq!(
        (code(&row), row["restarts"].as_u64()),
        (Some(0), Some(1)),
        "{row}"
    );
    let seen = fs::read_to_string(world.path().join("n")).unwrap();
    assert_eq!(seen, "s3cret\ns3cret\n");
    wait_until("the wait ends", || wait.try_wait().unwrap().is_some());
    world.end();
}

#[test]
fn after_the_death_of_the_daemon_a_policy_is_told_why_it_is_not_followed() {
    let world = World::with(Containment::Auto, SLOW);
    let nap = world.helper("nap");
    let living = world.run(&["--restart=on-failure"], &[&nap, "nap", world.mark()]);
    let waiting = world.run(&["--restart=always"], &["sh", "-c", "exit 4"]);
    row_when(&world, &waiting, "waits", restarting);
    wait_until("that is on disk", || {
        fs::read_to_string(world.row_file(&waiting))
            .is_ok_and(|text| text.contains("status = \"restarting\""))
    });
    world.kill_daemon_and_guardian();
    for (id, outcome) in [(&living, "unknown"), (&waiting, "crashed")] {
        let row = world.ended(id);
        assert_eq!(text(&row["outcome"]), outcome, "{row}");
        assert!(text(&row["note"]).contains("environment"), "{row}");
    }
    assert_eq!(code(&world.show(&waiting)), Some(4));
    world.assert_no_worker_process();
    world.end();
}

#[test]
fn descriptors_that_end_with_the_first_generation_are_refused() {
    let world = World::new();
    let said = world.ctl(&["run", "--pipe", "--restart=always", "--", "true"]);
    assert!(
        said.code != 0 && said.stderr.contains("restart"),
        "{said:?}"
    );
    assert_eq!(world.rows().len(), 0);
    world.end();
}
