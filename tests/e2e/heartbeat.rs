//! Workers with a control channel that hang, answer, work, or fall idle.

use std::fs;

use serde_json::Value;

use crate::support::control::{python, speak};
use crate::support::{Containment, World, text, wait_until};

/// Windows of progress and of pongs, in seconds, and a ladder that does not ask long. A busy
/// machine takes seconds to start Python, so what is to live has one window that is long.
fn windows(progress: u32, pong: u32) -> String {
    format!(
        "[liveness]\nprogress = \"{progress}s\"\npong = \"{pong}s\"\n[ladder]\ngrace = \"100ms\"\n"
    )
}

/// Answers every ping and does nothing else.
const ANSWERS: &str = "spawned()\nwhile True:\n f = read()\n \
                       if f['type'] == 'ping': send(type='pong', seq=f['seq'])\n \
                       if f['type'] == 'cancel': leave(0)\n";

fn sign(row: &Value, of: &str) -> i64 {
    row["liveness"][of].as_i64().unwrap_or(0)
}

/// Waits until a sign of life has been renewed so many times.
fn renewed(world: &World, id: &str, of: &str, times: u32) {
    let mut last = 0;
    for _ in 0..times {
        wait_until("a newer sign of life", || {
            // The two clocks are read one after the other, so a sign moves by microseconds.
            let at = sign(&world.show(id), of);
            let newer = at > last + 10_000;
            last = last.max(at);
            newer
        });
    }
}

fn reason(row: &Value) -> String {
    text(&row["cancelled"]["reason"])
}

#[test]
fn one_that_neither_works_nor_answers_is_stuck_and_one_that_answers_is_left_alone() {
    if !python("heartbeat") {
        return;
    }
    for containment in [Containment::Auto, Containment::None] {
        let world = World::with(containment, &windows(1, 1));
        let stuck = speak(&world, &["--restart=on-failure"], "spawned(); wait()");
        let row = world.ended(&stuck);
        assert!(reason(&row).starts_with("stuck"), "{row}");
        let by = row["cancelled"]["by"].as_u64();
        assert_eq!(by, Some(u64::from(own_uid())), "{row}");
        let end = (text(&row["outcome"]), row["restarts"].as_u64());
        assert_eq!(end, ("cancelled".into(), Some(0)), "{row}");
        world.end();

        let world = World::with(containment, &windows(1, 60));
        let busy = speak(&world, &["--grace=20s"], ANSWERS);
        wait_until("it is busy", || {
            text(&world.show(&busy)["health"]) == "busy"
        });
        renewed(&world, &busy, "last_pong", 2);
        assert_eq!(world.status_of(&busy), "live");
        world.ctl(&["cancel", &busy]).ok();
        assert_eq!(text(&world.show(&busy)["rung"]), "cancel");
        world.assert_no_worker_process();
        world.end();
    }
}

fn own_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[test]
fn work_is_enough_and_a_reload_forgets_nobody() {
    if !python("heartbeat") {
        return;
    }
    let world = World::with(Containment::Auto, &windows(10, 1));
    let works = "spawned()\nwhile True: send(type='event', event='x', fields={}); time.sleep(0.1)";
    let works = speak(&world, &[], works);
    let go = format!("{}/go", world.mark());
    let hangs = format!(
        "spawned(); [(send(type='event', event='x', fields={{}}), time.sleep(0.1)) \
         for _ in iter(lambda: os.path.exists({go:?}), True)]; wait()"
    );
    let hangs = speak(&world, &[], &hangs);
    renewed(&world, &works, "last_progress", 10);
    assert_eq!(text(&world.show(&works)["health"]), "healthy");
    world.ctl(&["reload"]).ok();
    fs::write(&go, "").unwrap();
    let row = world.ended(&hangs);
    assert!(reason(&row).starts_with("stuck"), "{row}");
    assert_eq!(world.status_of(&works), "live");
    world.ctl(&["cancel", "--now", &works]).ok();
    world.end();
}

#[test]
fn a_worker_that_lives_without_its_channel_is_ended_and_one_that_just_exits_is_not() {
    if !python("heartbeat") {
        return;
    }
    let world = World::new();
    let lost = speak(&world, &[], "spawned(); channel.close(); wait()");
    let exits = speak(
        &world,
        &[],
        "spawned(); send(type='turn_done'); channel.close(); leave(3)",
    );
    let row = world.ended(&exits);
    assert_eq!(
        (text(&row["outcome"]), row["cancelled"].is_null()),
        ("crashed".into(), true),
        "{row}"
    );
    let row = world.ended(&lost);
    assert!(reason(&row).starts_with("control channel lost"), "{row}");
    world.end();
}

#[test]
fn a_frozen_worker_is_not_stuck() {
    if !python("heartbeat") {
        return;
    }
    let Some(world) = World::in_leaves("heartbeat", &windows(1, 12)) else {
        return;
    };
    let id = speak(&world, &[], ANSWERS);
    renewed(&world, &id, "last_pong", 2);
    world.ctl(&["freeze", &id]).ok();
    let since = sign(&world.show(&id), "last_pong");
    let now = || {
        i64::try_from(
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_micros(),
        )
        .unwrap()
    };
    wait_until("it has been silent for long", || now() - since > 13_000_000);
    assert_eq!(world.status_of(&id), "live");
    world.ctl(&["thaw", &id]).ok();
    renewed(&world, &id, "last_pong", 2);
    world.ctl(&["cancel", &id]).ok();
    world.end();
}

#[test]
fn a_settled_and_quiet_worker_is_retired_unless_it_is_held() {
    if !python("heartbeat") {
        return;
    }
    let world = World::with(Containment::Auto, "");
    let idle = ["--idle-timeout=300ms"];
    let works = speak(&world, &idle, ANSWERS);
    let held = speak(
        &world,
        &idle,
        &format!(
            "spawned(); until({:?}); send(type='turn_done'); {}",
            format!("{}/go", world.mark()),
            "wait()"
        ),
    );
    world.ctl(&["hold", &held]).ok();
    fs::write(world.path().join("go"), "").unwrap();
    let retired = speak(&world, &idle, "spawned(); send(type='turn_done'); wait()");
    let row = world.ended(&retired);
    assert_eq!(reason(&row), "idle", "{row}");
    assert_eq!(
        (row["settled"].as_bool(), text(&row["outcome"])),
        (Some(true), "cancelled".into())
    );
    // A plain program's hook says the same by a report.
    let ctl = crate::common::program("musterctl");
    let script = format!(
        "{} report --turn-done; sleep 60 # {}",
        ctl.display(),
        world.mark()
    );
    let plain = world.run(&idle, &["sh", "-c", &script]);
    assert_eq!(reason(&world.ended(&plain)), "idle");
    for id in [&works, &held] {
        assert_eq!(world.status_of(id), "live");
    }
    assert_eq!(world.show(&held)["settled"], true);
    world.ctl(&["release", &held]).ok();
    assert_eq!(reason(&world.ended(&held)), "idle");
    world.ctl(&["cancel", "--now", &works]).ok();
    world.end();
}
