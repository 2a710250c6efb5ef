//! How workers end, and that nothing of them is left: counted in `/proc` at the moment the
//! client is told so.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::git::Repo;
use crate::support::{Containment, World, code, proc, signal, text, wait_for, wait_until};

/// Short rungs, so that a ladder is walked to its end in a test.
const LADDER: &str = "[ladder]\nkill_grace = \"1s\"\n";

fn leftovers(row: &Value) -> (u64, Vec<String>) {
    let names = row["leftovers"]["names"].as_array().unwrap();
    (
        row["leftovers"]["count"].as_u64().unwrap(),
        names.iter().map(text).collect(),
    )
}

/// The five of one repository: each in a linked worktree, started by the real client.
struct Five {
    well: String,
    helpers: String,
    stubborn: String,
    stopped: String,
    tree: String,
}

fn start_five(world: &World) -> Five {
    let repo = Repo::new(world.path());
    let mark = world.mark();
    let start = |name: &str, script: &str| {
        let tree = repo.worktree(name);
        let dir = tree.to_str().unwrap().to_owned();
        world.run(&["--name", name, "-d", &dir], &["sh", "-c", script])
    };
    let (one, two) = (world.helper("helper-one"), world.helper("helper-two"));
    let ready = lossy_ready(world);
    Five {
        well: start("well", "cat file other && exit 0"),
        // The second one makes its own session and is forked twice.
        helpers: start(
            "helpers",
            &format!(
                "{one} nap {mark} {ready}1 & ( setsid sh -c '{two} nap {mark} {ready}2 & exit' & )
                until [ -e {ready}1 ] && [ -e {ready}2 ]; do sleep 0.05; done; exit 0"
            ),
        ),
        // An ignored signal stays ignored over exec.
        stubborn: start(
            "stubborn",
            &format!(
                "trap '' TERM; exec {} nap {mark} {ready}3",
                world.helper("stubborn")
            ),
        ),
        stopped: start(
            "stopped",
            &format!("exec {} nap {mark} {ready}4", world.helper("stopped")),
        ),
        tree: start(
            "tree",
            &format!("exec {} tree 100 4 {mark}/tree", world.helper("forktree")),
        ),
    }
}

fn lossy_ready(world: &World) -> String {
    format!("{}/ready-", world.mark())
}

fn processes_of(world: &World, id: &str) -> usize {
    let mut all = world.worker_processes();
    all.retain(|p| p.env("MUSTER_WORKER") == Some(id));
    all.len()
}

fn five_workers(world: World) {
    let five = start_five(&world);

    let row = world.ended(&five.well);
    assert_eq!(text(&row["outcome"]), "completed");
    assert_eq!((code(&row), text(&row["rung"])), (Some(0), "none".into()));
    assert_eq!(leftovers(&row).0, 0);
    assert_eq!(text(&row["how_known"]), "waited");

    let row = world.ended(&five.helpers);
    assert_eq!(processes_of(&world, &five.helpers), 0);
    assert_eq!(text(&row["outcome"]), "completed");
    assert_eq!(code(&row), Some(0));
    let (count, names) = leftovers(&row);
    assert_eq!(count, 2, "{names:?}");
    for name in ["helper-one", "helper-two"] {
        assert!(names.iter().any(|n| n == name), "{names:?}");
    }

    let ready = lossy_ready(&world);
    wait_until("the stubborn one ignores SIGTERM", || {
        std::path::Path::new(&format!("{ready}3")).exists()
    });
    world
        .ctl(&["cancel", "stubborn", "--reason", "enough of it"])
        .ok();
    assert_eq!(processes_of(&world, &five.stubborn), 0);
    let row = world.show(&five.stubborn);
    assert_eq!(text(&row["status"]), "exited");
    assert_eq!(text(&row["outcome"]), "cancelled");
    assert_eq!((signal(&row), text(&row["rung"])), (Some(9), "kill".into()));
    assert_eq!(text(&row["cancelled"]["reason"]), "enough of it");
    assert_eq!(
        row["cancelled"]["by"].as_u64(),
        Some(u64::from(nix::unistd::geteuid().as_raw()))
    );
    assert!(row["took_usec"].as_u64().unwrap() >= 1_000_000, "{row}");

    wait_until("the one to be stopped runs", || {
        std::path::Path::new(&format!("{ready}4")).exists()
    });
    let pid = i32::try_from(world.show(&five.stopped)["pid"].as_i64().unwrap()).unwrap();
    proc::signal(pid, Signal::SIGSTOP);
    wait_until("it is stopped", || {
        proc::Process::read(pid).is_some_and(|p| p.state == 'T')
    });
    world.ctl(&["cancel", "stopped"]).ok();
    assert_eq!(processes_of(&world, &five.stopped), 0);
    let row = world.show(&five.stopped);
    assert_eq!(text(&row["outcome"]), "cancelled");
    // SIGTERM alone would wait for a SIGCONT that nobody sends.
    assert_eq!(
        (signal(&row), text(&row["rung"])),
        (Some(15), "term".into())
    );

    wait_until("the whole tree has grown", || {
        processes_of(&world, &five.tree) == 401
    });
    world.ctl(&["cancel", &five.tree]).ok();
    assert_eq!(processes_of(&world, &five.tree), 0);
    let row = world.show(&five.tree);
    assert_eq!(text(&row["outcome"]), "cancelled");
    assert_eq!(signal(&row), Some(15), "{row}");
    assert!(row["processes"].as_u64().unwrap() >= 400, "{row}");

    world.assert_no_worker_process();
    world.end();
}

#[test]
fn five_workers_in_leaves_end_without_a_process_left() {
    let test = "five_workers_in_leaves_end_without_a_process_left";
    if let Some(world) = World::in_leaves(test, LADDER) {
        let containment = text(&world.service()["containment"]);
        assert!(containment.starts_with("cgroup"), "{containment}");
        five_workers(world);
    }
}

#[test]
fn five_workers_without_a_cgroup_end_without_a_process_left() {
    let world = World::without_cgroup(LADDER);
    let containment = text(&world.service()["containment"]);
    assert!(containment.starts_with("weak"), "{containment}");
    five_workers(world);
}

#[test]
fn a_helper_that_wipes_its_environment_and_forks_twice_does_not_leave_its_leaf() {
    let test = "a_helper_that_wipes_its_environment_and_forks_twice_does_not_leave_its_leaf";
    let Some(world) = World::in_leaves(test, LADDER) else {
        return;
    };
    let (helper, mark) = (world.helper("escaped"), world.mark().to_owned());
    let script = format!(
        "( setsid env -i sh -c '{helper} nap {mark} {mark}/ready & exit' & )
        until [ -e {mark}/ready ]; do sleep 0.05; done; exit 3"
    );
    let id = world.run_to_end(&[], &["sh", "-c", &script]);
    world.assert_no_worker_process();
    let row = world.show(&id);
    assert_eq!(code(&row), Some(3));
    assert_eq!(leftovers(&row), (1, vec!["escaped".to_owned()]));
    world.end();
}

#[test]
fn without_a_cgroup_a_helper_of_another_session_and_environment_is_found_by_its_parents() {
    let world = World::without_cgroup(LADDER);
    let (helper, mark) = (world.helper("estranged"), world.mark().to_owned());
    let leader = world.helper("leader");
    let script = format!(
        "env -i setsid {helper} nap {mark} {mark}/ready &
        until [ -e {mark}/ready ]; do sleep 0.05; done; exec {leader} nap {mark} {mark}/ready2"
    );
    let id = world.run(&[], &["sh", "-c", &script]);
    wait_until("both run", || world.path().join("ready2").exists());
    // After the leader's end nothing names the helper any more.
    world.ctl(&["cancel", &id]).ok();
    world.assert_no_worker_process();
    world.end();
}

fn a_leader_that_leaves_its_pipes_to_a_grandchild(world: World) {
    let (helper, mark) = (world.helper("holder"), world.mark().to_owned());
    let script = format!("{helper} nap {mark} & exit 7");
    let mut command = world.command(&["run", "--pipe", "--", "sh", "-c", &script]);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut client = crate::support::Reaped(command.spawn().unwrap());
    let status = wait_for("the client ends though a grandchild holds the pipe", || {
        client.0.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(7));
    world.assert_no_worker_process();
    let rows = world.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!(text(&rows[0]["status"]), "exited");
    world.end();
}

#[test]
fn a_row_does_not_wait_for_a_grandchild_that_holds_the_pipes() {
    a_leader_that_leaves_its_pipes_to_a_grandchild(World::new());
    a_leader_that_leaves_its_pipes_to_a_grandchild(World::without_cgroup(""));
}

#[test]
fn leftovers_that_are_waited_for_keep_the_worker_alive() {
    for containment in [Containment::Auto, Containment::None] {
        let world = World::with(containment, "");
        let (helper, mark) = (world.helper("last-one"), world.mark().to_owned());
        let script = format!("{helper} nap {mark} {mark}/ready & exit 5");
        let id = world.run(&["--leftovers", "wait"], &["sh", "-c", &script]);
        wait_until("the helper runs", || world.path().join("ready").exists());
        let helper = wait_for("only the helper is left", || {
            let all = world.worker_processes();
            (all.len() == 1).then(|| all[0].clone())
        });
        assert_eq!(helper.comm, "last-one");
        assert_ne!(world.status_of(&id), "exited");
        proc::signal(helper.pid, Signal::SIGTERM);
        let row = world.ended(&id);
        assert_eq!(
            (text(&row["outcome"]), code(&row)),
            ("crashed".into(), Some(5))
        );
        world.end();
    }
}

#[test]
fn the_ladder_goes_on_when_only_the_leader_obeys() {
    for containment in [Containment::Auto, Containment::None] {
        let world = World::with(containment, LADDER);
        let (helper, mark) = (world.helper("deaf"), world.mark().to_owned());
        let script = format!(
            "( trap '' TERM; exec {helper} nap {mark} {mark}/ready ) &
            trap 'exit 0' TERM; while :; do sleep 0.05; done"
        );
        let id = world.run(&[], &["sh", "-c", &script]);
        wait_until("the helper runs", || world.path().join("ready").exists());
        world.ctl(&["cancel", &id]).ok();
        world.assert_no_worker_process();
        let row = world.show(&id);
        assert_eq!((code(&row), text(&row["rung"])), (Some(0), "kill".into()));
        assert_eq!(text(&row["outcome"]), "cancelled");
        world.end();
    }
}

#[test]
fn a_process_whose_main_thread_has_ended_is_not_taken_for_dead() {
    for containment in [Containment::Auto, Containment::None] {
        let world = World::with(containment, LADDER);
        let (helper, mark) = (world.helper("headless"), world.mark().to_owned());
        let script = format!(
            "setsid {helper} headless {mark} {mark}/ready &
            until [ -e {mark}/ready ]; do sleep 0.05; done"
        );
        let row = world.ended(&world.run(&[], &["sh", "-c", &script]));
        world.assert_no_worker_process();
        assert_eq!(leftovers(&row), (1, vec!["headless".into()]));
        assert_eq!((code(&row), text(&row["rung"])), (Some(0), "kill".into()));
        world.end();
    }
}

#[test]
fn a_cancel_does_not_wait_out_its_timers_when_everybody_has_gone() {
    let world = World::with(Containment::Auto, "[ladder]\nkill_grace = \"10min\"\n");
    let (helper, mark) = (world.helper("obedient"), world.mark().to_owned());
    let ids: Vec<String> = (0..5)
        .map(|_| world.run(&[], &[&helper, "nap", &mark]))
        .collect();
    let mut args = vec!["cancel"];
    args.extend(ids.iter().map(String::as_str));
    // The bound of `ctl` is far below the ten minutes.
    world.ctl(&args).ok();
    world.assert_no_worker_process();
    for id in &ids {
        assert_eq!(text(&world.show(id)["rung"]), "term");
    }
    world.end();
}

#[test]
fn force_overtakes_a_ladder_that_is_under_way() {
    let world = World::with(Containment::Auto, "[ladder]\nkill_grace = \"10min\"\n");
    let (helper, mark) = (world.helper("deaf"), world.mark().to_owned());
    let script = format!("trap '' TERM; exec {helper} nap {mark} {mark}/ready");
    let id = world.run(&[], &["sh", "-c", &script]);
    wait_until("it runs", || world.path().join("ready").exists());
    world
        .ctl(&["cancel", "--no-block", &id, "--reason", "first"])
        .ok();
    assert_eq!(world.status_of(&id), "stopping");
    let held = world.ctl(&["reap", "--grace", "0"]).ok();
    assert_eq!(world.rows().len(), 1, "{held:?}");
    world
        .ctl(&["cancel", "--no-block", &id, "--reason", "again"])
        .ok();
    world.ctl(&["cancel", "--now", &id]).ok();
    world.assert_no_worker_process();
    let row = world.show(&id);
    assert_eq!((signal(&row), text(&row["rung"])), (Some(9), "kill".into()));
    assert_eq!(text(&row["cancelled"]["reason"]), "first");
    // One that has ended is found so, and that is no error.
    world.ctl(&["cancel", &id]).ok();
    assert_eq!(text(&world.show(&id)["outcome"]), "cancelled");
    world.end();
}

#[test]
fn a_worker_past_its_deadline_is_ended_with_that_reason() {
    let world = World::with(Containment::Auto, "[liveness]\ndeadline_slack = \"0s\"\n");
    let (helper, mark) = (world.helper("late"), world.mark().to_owned());
    let id = world.run(&["--deadline", "300ms"], &[&helper, "nap", &mark]);
    let row = world.ended(&id);
    assert_eq!(text(&row["outcome"]), "cancelled");
    let reason = text(&row["cancelled"]["reason"]);
    assert!(reason.contains("deadline"), "{reason:?}");
    world.assert_no_worker_process();
    world.end();
}

#[test]
fn a_leader_killed_from_outside_is_seen_at_once() {
    let world = World::new();
    let (helper, mark) = (world.helper("victim"), world.mark().to_owned());
    let id = world.run(&[], &[&helper, "nap", &mark]);
    let pid = i32::try_from(world.show(&id)["pid"].as_i64().unwrap()).unwrap();
    proc::signal(pid, Signal::SIGKILL);
    let row = world.ended(&id);
    assert_eq!(
        (text(&row["outcome"]), signal(&row)),
        ("crashed".into(), Some(9))
    );
    assert!(row["cancelled"].is_null(), "{row}");
    world.end();
}

#[test]
fn a_daemon_that_is_told_to_end_takes_its_workers_with_it() {
    for containment in [Containment::Auto, Containment::None] {
        let world = World::with(containment, LADDER);
        let (helper, mark) = (world.helper("deaf"), world.mark().to_owned());
        let script = format!("trap '' TERM; exec {helper} nap {mark} {mark}/ready");
        let id = world.run(&[], &["sh", "-c", &script]);
        let obedient = world.run(&[], &[&helper, "nap", &mark]);
        wait_until("it runs", || world.path().join("ready").exists());
        world.stop_daemon();
        world.assert_no_worker_process();
        for id in [&id, &obedient] {
            let row = world.show(id);
            assert_eq!(text(&row["status"]), "exited", "{row}");
            assert_eq!(text(&row["outcome"]), "cancelled", "{row}");
        }
        world.end();
    }
}
