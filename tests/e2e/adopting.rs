//! Processes that somebody else started and put on the roll: the row lives and dies with them,
//! and nobody but their owner's own word ends them.

use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Reaped, World, proc, text, wait_until};

/// A process that no daemon started. In a group of its own with `own_group`.
fn stranger(world: &World, name: &str, own_group: bool) -> Reaped {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(world.helper(name));
    command
        .args(["nap", world.mark()])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if own_group {
        command.process_group(0);
    }
    Reaped(command.spawn().unwrap())
}

#[track_caller]
fn adopt(world: &World, process: &Reaped) -> String {
    let pid = process.0.id().to_string();
    let said = world.ctl(&["adopt", "--quiet", &pid]).ok();
    said.stdout.trim().to_owned()
}

/// Looks until the row says so; the test is the process's parent and has to reap it.
fn ended(world: &World, id: &str, process: &mut Reaped) -> Value {
    wait_until("the process ends", || {
        process.0.try_wait().unwrap().is_some()
    });
    world.ended(id)
}

fn is_alive(process: &Reaped) -> bool {
    proc::is_alive(i32::try_from(process.0.id()).unwrap())
}

#[test]
fn an_adopted_row_lives_and_dies_with_its_process() {
    let world = World::new();
    let mut process = stranger(&world, "agent", true);
    let pid = process.0.id();
    let said = world
        .ctl(&[
            "adopt",
            "--name=found",
            "--kind=subagent:x",
            &pid.to_string(),
        ])
        .ok();
    assert!(said.stdout.contains("Adopted process"), "{said:?}");
    let row = world.show("found");
    let id = text(&row["id"]);
    assert_eq!(text(&row["status"]), "live", "{row}");
    assert_eq!(row["pid"].as_u64(), Some(u64::from(pid)));
    assert_eq!(row["adopted"].as_bool(), Some(true));
    assert!(text(&row["argv"][0]).ends_with("/agent"), "{row}");
    let again = world.ctl(&["adopt", &pid.to_string()]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(again.stderr.contains(&id), "{again:?}");
    world.ctl(&["reap", "--grace=0"]).ok();
    world.ctl(&["reload"]).ok();
    assert_eq!(world.status_of(&id), "live");
    process.0.kill().unwrap();
    let row = ended(&world, &id, &mut process);
    assert_eq!(text(&row["outcome"]), "unknown", "{row}");
    assert_eq!(text(&row["how_known"]), "pidfd-closed", "{row}");
    world.end();
}

#[test]
fn a_cancel_ends_the_process_alone_or_with_the_group_it_leads() {
    let world = World::new();
    // Two in one group that the first leads, and one in the group of the test.
    let mut leader = stranger(&world, "leader", true);
    let mut follower = {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(world.helper("follower"));
        command.args(["nap", world.mark()]);
        command.process_group(i32::try_from(leader.0.id()).unwrap());
        Reaped(command.spawn().unwrap())
    };
    let mut single = stranger(&world, "single", false);
    let bystander = stranger(&world, "bystander", false);
    for (process, also) in [(&mut leader, Some(&mut follower)), (&mut single, None)] {
        let id = adopt(&world, process);
        world.ctl(&["cancel", "--no-block", &id]).ok();
        let row = ended(&world, &id, process);
        assert_eq!(text(&row["outcome"]), "cancelled", "{row}");
        assert_eq!(text(&row["rung"]), "term", "{row}");
        if let Some(also) = also {
            wait_until("its group ends with it", || {
                also.0.try_wait().unwrap().is_some()
            });
        }
    }
    assert!(
        is_alive(&bystander),
        "it shared a group with `single`, which led none"
    );
    drop(bystander);
    world.end();
}

#[test]
fn neither_a_drain_nor_a_parents_end_nor_the_services_end_touches_it() {
    let world = World::new();
    let mut process = stranger(&world, "agent", true);
    let id = adopt(&world, &process);
    world.ctl(&["drain", "--no-block"]).ok();
    let own = world.ctl(&["run", "true"]);
    assert_eq!(own.code, 8, "it drains: {own:?}");
    world.ctl(&["resume"]).ok();
    assert_eq!(world.status_of(&id), "live");
    world.stop_daemon();
    assert!(is_alive(&process));
    // The next daemon finds it by its identity, and so does one after a crash.
    assert_eq!(world.status_of(&id), "live");
    world.kill_daemon_and_guardian();
    assert!(is_alive(&process));
    let row = world.show(&id);
    assert_eq!(text(&row["status"]), "live", "{row}");
    assert_eq!(row["pid"].as_u64(), Some(u64::from(process.0.id())));
    world.ctl(&["cancel", "--no-block", &id]).ok();
    let row = ended(&world, &id, &mut process);
    assert_eq!(text(&row["outcome"]), "cancelled", "{row}");
    world.end();
}

#[test]
fn one_that_ended_while_no_daemon_looked_is_found_gone() {
    let world = World::new();
    let mut process = stranger(&world, "agent", true);
    let id = adopt(&world, &process);
    world.stop_daemon();
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    let row = world.show(&id);
    assert_eq!(text(&row["status"]), "exited", "{row}");
    assert_eq!(text(&row["outcome"]), "unknown", "{row}");
    assert_eq!(text(&row["how_known"]), "pid-gone", "{row}");
    world.end();
}

#[test]
fn what_must_not_be_adopted_is_refused_with_the_reason() {
    let world = World::new();
    let worker = world.run(&[], &[&world.helper("nap"), "nap", world.mark()]);
    let pid = world.show(&worker)["pid"].as_u64().unwrap();
    let daemon = world.daemon_pid().unwrap();
    let guardian = proc::Process::read(daemon).unwrap().ppid;
    for (pid, words) in [
        ("1".to_owned(), ""),
        (daemon.to_string(), "this daemon itself"),
        (guardian.to_string(), "musterd's own"),
        (pid.to_string(), &worker),
    ] {
        let said = world.ctl(&["adopt", &pid]);
        assert_ne!(said.code, 0, "{pid}: {said:?}");
        assert!(said.stderr.contains(words), "{pid}: {said:?}");
    }
    let mut gone = stranger(&world, "gone", true);
    let pid = gone.0.id().to_string();
    proc::signal(i32::try_from(gone.0.id()).unwrap(), Signal::SIGKILL);
    gone.0.wait().unwrap();
    let said = world.ctl(&["adopt", &pid]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(world.rows().len(), 1, "nothing came on the roll");
    world.ctl(&["cancel", "--now", &worker]).ok();
    world.end();
}

#[test]
fn what_an_adopted_process_starts_has_it_as_its_parent() {
    let world = World::new();
    let ctl = crate::common::program("musterctl").display().to_string();
    let script = format!(
        "until [ -e {0}/go ]; do sleep 0.05; done; {ctl} run --quiet -- sleep 1000 > {0}/child; exec sleep 1000",
        world.mark()
    );
    let mut command = world.command(&[] as &[&str]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, world.mark()]);
    shell.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let process = Reaped(shell.spawn().unwrap());
    command.arg("list");
    let id = adopt(&world, &process);
    std::fs::write(world.path().join("go"), "").unwrap();
    let child = crate::support::wait_for("it has started one", || {
        let id = std::fs::read_to_string(world.path().join("child")).ok()?;
        (id.trim().len() == 8).then(|| id.trim().to_owned())
    });
    let row = world.show(&child);
    assert_eq!(text(&row["parent"]), id, "{row}");
    assert_eq!(row["depth"].as_u64(), Some(1), "{row}");
    world.ctl(&["cancel", "--now", &child]).ok();
    drop(process);
    world.end();
}

#[test]
fn a_drain_does_not_wait_for_an_adopted_process_and_says_that_it_is_left() {
    let world = World::new();
    let process = stranger(&world, "agent", true);
    let id = adopt(&world, &process);
    let said = world.ctl(&["drain"]).ok();
    assert!(
        said.stdout
            .contains("no worker is left (1 adopted process is left alone)"),
        "{said:?}"
    );
    assert!(is_alive(&process));
    assert_eq!(world.status_of(&id), "live");
    world.ctl(&["resume"]).ok();
    drop(process);
    world.end();
}

#[test]
fn an_adopted_process_can_be_let_go() {
    let world = World::new();
    let process = stranger(&world, "agent", true);
    let id = adopt(&world, &process);
    let said = world.ctl(&["forget", &id]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(
        said.stderr.contains("with --force its row goes"),
        "{said:?}"
    );
    world.ctl(&["forget", "--force", &id]).ok();
    assert!(is_alive(&process));
    assert_eq!(world.ctl(&["status", &id]).code, 4);
    // It may be adopted anew.
    let again = adopt(&world, &process);
    assert_ne!(again, id);
    drop(process);
    world.ended(&again);
    world.end();
}

#[test]
fn an_adopted_process_whose_end_is_awaited_is_not_let_go() {
    let world = World::new();
    // Its end releases something.
    let mut process = stranger(&world, "agent", true);
    let kind = ["--kind=step:r/s", "--kind-field=reservation=7"];
    let pid = process.0.id().to_string();
    let said = world.ctl(&["adopt", "-q", kind[0], kind[1], &pid]).ok();
    let id = said.stdout.trim();
    let said = world.ctl(&["forget", "--force", id]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("releases a reservation"), "{said:?}");
    process.0.kill().unwrap();
    let row = ended(&world, id, &mut process);
    assert_eq!(row["reservation"].as_u64(), Some(7), "{row}");

    // Its end was asked for, and it does not obey at once.
    let deaf = Command::new("env")
        .args(["--ignore-signal=TERM", &world.helper("deaf"), "nap"])
        .arg(world.mark())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut process = Reaped(deaf.unwrap());
    wait_until("env has made way", || {
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", process.0.id()));
        comm.is_ok_and(|comm| comm.trim() == "deaf")
    });
    let id = adopt(&world, &process);
    world.ctl(&["cancel", "--no-block", &id]).ok();
    let said = world.ctl(&["forget", "--force", &id]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("its end was asked for"), "{said:?}");
    let row = ended(&world, &id, &mut process);
    assert_eq!(text(&row["outcome"]), "cancelled", "{row}");
    world.end();
}
