//! SIGKILL of the daemon: its workers end with it, at the latest at the next start, and each
//! row says what happened. Nobody else gets a signal.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::git::Repo;
use crate::support::rowfile::RowFile;
use crate::support::{Containment, Reaped, World, proc, text, wait_for, wait_until};

/// A leader, a plain helper and one in a session of its own that was forked twice.
fn start_family(world: &World, name: &str) -> (String, i32) {
    let mark = world.mark();
    let (leader, plain) = (world.helper("leader"), world.helper("plain"));
    let escaped = world.helper("escaped");
    let ready = format!("{mark}/{name}-ready");
    let script = format!(
        "trap '' TERM; {plain} nap {mark} & ( setsid sh -c '{escaped} nap {mark} {ready} & exit' & )
        until [ -e {ready} ]; do sleep 0.05; done; exec {leader} nap {mark} {ready}2"
    );
    let id = world.run(&["--name", name], &["sh", "-c", &script]);
    wait_until("the family is complete", || {
        fs::exists(format!("{ready}2")).unwrap()
    });
    let pid = world.show(&id)["pid"].as_i64().unwrap();
    (id, i32::try_from(pid).unwrap())
}

fn assert_end_is_told(row: &Value) {
    assert_eq!(text(&row["status"]), "exited", "{row}");
    assert_eq!(text(&row["outcome"]), "unknown", "{row}");
    let how = text(&row["how_known"]);
    assert!(
        matches!(how.as_str(), "daemon-lost" | "pid-gone"),
        "{how:?}: {row}"
    );
    assert!(row["exit"].is_null(), "an exit nobody saw: {row}");
}

fn daemon_is_killed(world: World) {
    let done = world.run_to_end(&["--name", "done"], &["sh", "-c", "exit 9"]);
    let (one, one_pid) = start_family(&world, "one");
    let (two, two_pid) = start_family(&world, "two");
    assert_eq!(world.worker_processes().len(), 6);

    world.kill_daemon();
    // Before anybody else has had a turn: the kernel's own work.
    wait_until("the leaders are gone at once", || {
        !proc::is_alive(one_pid) && !proc::is_alive(two_pid)
    });
    wait_until("the guardian ends the rest, and itself", || {
        world.processes().is_empty()
    });

    assert_eq!(world.rows().len(), 3, "a row was lost or made");
    for id in [&one, &two] {
        assert_end_is_told(&world.show(id));
    }
    let row = world.show(&done);
    assert_eq!(text(&row["outcome"]), "crashed");
    assert_eq!(row["exit"]["code"], 9);
    world.assert_no_worker_process();
    assert_eq!(world.service()["n_workers"], 0);
    assert_eq!(world.service()["spawned"], 0, "a start starts nothing");
    world.end();
}

#[test]
fn workers_in_leaves_end_with_a_killed_daemon_and_the_rows_tell() {
    let test = "workers_in_leaves_end_with_a_killed_daemon_and_the_rows_tell";
    if let Some(world) = World::in_leaves(test, "") {
        daemon_is_killed(world);
    }
}

#[test]
fn workers_without_a_cgroup_end_with_a_killed_daemon_and_the_rows_tell() {
    daemon_is_killed(World::without_cgroup(""));
}

fn guardian_is_killed_too(world: World) {
    let (id, pid) = start_family(&world, "family");
    world.kill_daemon_and_guardian();
    wait_until("the leader is gone at once", || !proc::is_alive(pid));
    // Nobody is there to end the others: the next start does.
    let row = world.show(&id);
    assert_end_is_told(&row);
    wait_until("what it had started is ended", || {
        world.worker_processes().is_empty()
    });
    let row = world.show(&id);
    let names: Vec<String> = row["leftovers"]["names"]
        .as_array()
        .unwrap()
        .iter()
        .map(text)
        .collect();
    assert!(
        names.iter().any(|n| n == "plain") && names.iter().any(|n| n == "escaped"),
        "the start names what it found: {row}"
    );
    world.end();
}

#[test]
fn a_start_ends_what_a_killed_daemon_and_guardian_left() {
    if crate::support::means::writable_cgroup2().is_some() {
        guardian_is_killed_too(World::new());
    }
    guardian_is_killed_too(World::without_cgroup(""));
}

#[test]
fn a_start_ends_workers_whose_row_was_never_written() {
    let world = World::without_cgroup("");
    let (id, _) = start_family(&world, "family");
    world.kill_daemon_and_guardian();
    // As if the kill had come between the start and the write.
    fs::remove_file(world.row_file(&id)).unwrap();
    assert!(!world.worker_processes().is_empty());
    assert!(world.rows().is_empty());
    wait_until("what it had started is ended", || {
        world.worker_processes().is_empty()
    });
    world.end();
}

#[test]
fn a_row_found_dead_is_stamped_first_and_stays_for_its_grace() {
    let world = World::new();
    let repo = Repo::new(world.path());
    let dir = repo.worktree("tree").to_str().unwrap().to_owned();
    let nap = world.helper("nap");
    let id = world.run(
        &["--name", "lost", "-d", &dir],
        &[&nap, "nap", world.mark()],
    );
    world.kill_daemon();
    wait_until("all of it is gone", || world.processes().is_empty());

    let report = world.json(&["reap"]);
    let row = &report["rows"][0];
    assert_eq!(text(&row["name"]), "lost");
    assert_ne!(text(&row["action"]), "reap", "{report}");
    let exited = world.show(&id)["exited"].as_i64();
    assert!(exited.is_some(), "its clock has not been started");
    assert_eq!(world.rows().len(), 1);
    // Its clock goes on over the next start.
    world.stop_daemon();
    assert_eq!(world.show(&id)["exited"].as_i64(), exited);
    let report = world.json(&["reap", "--grace", "0"]);
    assert_eq!(text(&report["rows"][0]["action"]), "reap", "{report}");
    world.end();
}

/// A process of somebody else that writes down every signal it gets.
struct Stranger {
    process: Reaped,
    got: std::path::PathBuf,
}

impl Stranger {
    fn start(world: &World) -> Stranger {
        let got = world.path().join("stranger-got");
        let ready = world.path().join("stranger-ready");
        let script = format!(
            "for s in HUP INT QUIT USR1 USR2 TERM CONT ALRM; do
                trap \"echo $s >> '{}'\" $s; done
            : > '{}'; while :; do read line || :; done",
            got.display(),
            ready.display()
        );
        let process = Command::new("sh")
            .args(["-c", &script])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        wait_until("the stranger is ready", || ready.exists());
        Stranger {
            process: Reaped(process),
            got,
        }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.process.0.id()).unwrap()
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let got = fs::read_to_string(&self.got).unwrap_or_default();
        assert_eq!(got, "", "the stranger got signals");
        assert!(proc::is_alive(self.pid()), "the stranger was killed");
    }
}

/// Rewrites the row of a killed daemon's worker, so that it claims a stranger's pid, and looks
/// at what the next start makes of it.
fn claims_a_stranger(containment: Containment, how: &str, forge: impl Fn(&mut RowFile, i32)) {
    let world = World::with(containment, "");
    let nap = world.helper("nap");
    let id = world.run(&["--name", "old"], &[&nap, "nap", world.mark()]);
    wait_until("its identity is on disk", || {
        RowFile::read(&world.row_file(&id))
            .table
            .contains_key("process")
    });
    world.kill_daemon();
    wait_until("all of it is gone", || world.processes().is_empty());
    let stranger = Stranger::start(&world);
    let mut file = RowFile::read(&world.row_file(&id));
    forge(&mut file, stranger.pid());
    file.write();

    let row = world.show(&id);
    assert_eq!(text(&row["status"]), "exited", "{row}");
    assert_eq!(text(&row["outcome"]), "unknown");
    assert_eq!(text(&row["how_known"]), how, "{row}");
    for verb in [
        &["cancel", &id][..],
        &["cancel", "--now", &id],
        &["reap", "--grace", "0"],
    ] {
        world.ctl(verb);
        stranger.assert_untouched();
    }
    world.stop_daemon();
    stranger.assert_untouched();
    proc::signal(stranger.pid(), Signal::SIGKILL);
    world.end();
}

#[test]
fn a_stranger_with_a_recycled_pid_gets_no_signal() {
    for containment in [Containment::Auto, Containment::None] {
        // The start ticks stay those of the worker that is gone.
        claims_a_stranger(containment, "pid-recycled", |file, pid| {
            file.set("process.pid", pid.into());
            file.set("pgid", pid.into());
        });
    }
}

#[test]
fn a_pid_of_an_earlier_boot_gets_no_signal_even_if_its_ticks_match() {
    for containment in [Containment::Auto, Containment::None] {
        claims_a_stranger(containment, "rebooted", |file, pid| {
            let ticks = proc::Process::read(pid).unwrap().start_ticks;
            file.set("process.pid", pid.into());
            file.set("pgid", pid.into());
            file.set("process.start_ticks", i64::try_from(ticks).unwrap().into());
            file.set(
                "process.boot_id",
                "0b6bd4c2-5b4c-4f2e-9d3f-1c1f6a1c2f3a".into(),
            );
        });
    }
}

#[test]
fn a_killed_daemon_is_followed_by_one_that_serves() {
    let world = World::new();
    for round in 0..3 {
        let id = world.run(&[], &[&world.helper("nap"), "nap", world.mark()]);
        world.kill_daemon();
        // At once, while the guardian may still be at its work.
        assert_eq!(world.rows().len(), round + 1);
        let row = wait_for("its row tells of the end", || {
            let row = world.show(&id);
            (text(&row["status"]) == "exited").then_some(row)
        });
        assert_end_is_told(&row);
    }
    world.assert_no_worker_process();
    world.end();
}
