//! The control channel: the example worker as it stands, and fixtures that speak it badly.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::control::{example, python, speak};
use crate::support::{Containment, World, code, text, wait_for, wait_until};

fn tokens(row: &Value) -> (Option<u64>, Option<u64>) {
    (
        row["tokens"]["input"].as_u64(),
        row["tokens"]["output"].as_u64(),
    )
}

#[test]
fn the_example_in_python_works_and_settles() {
    if !python("the_example_in_python_works_and_settles") {
        return;
    }
    let world = World::new();
    let id = world.run_to_end(
        &[
            "--control",
            "frames",
            "--payload",
            r#"{"steps": 4}"#,
            "--kind",
            "turn:main",
        ],
        &["python3", &example("worker.py")],
    );
    let row = world.show(&id);
    assert_eq!(text(&row["outcome"]), "completed", "{row}");
    assert_eq!(row["settled"], true, "{row}");
    assert_eq!(row["kind"], "turn:main");
    world.end();
}

#[test]
fn the_example_in_python_ends_by_the_cancel_frame() {
    if !python("the_example_in_python_ends_by_the_cancel_frame") {
        return;
    }
    let world = World::new();
    let id = world.run(
        &[
            "--control",
            "frames",
            "--grace",
            "60s",
            "--payload",
            r#"{"steps": 100000}"#,
        ],
        &["python3", &example("worker.py")],
    );
    world.ctl(&["cancel", "--reason", "enough of it", &id]).ok();
    let row = world.show(&id);
    assert_eq!(text(&row["outcome"]), "cancelled", "{row}");
    assert_eq!(text(&row["rung"]), "cancel", "{row}");
    assert_eq!(code(&row), Some(130), "{row}");
    assert_eq!(row["settled"], false, "{row}");
    let log = world.ctl(&["logs", &id]).ok();
    assert!(log.stdout.contains("cancelled: enough of it"), "{log:?}");
    world.end();
}

#[test]
fn a_word_from_outside_reaches_the_example() {
    if !python("a_word_from_outside_reaches_the_example") {
        return;
    }
    let world = World::new();
    let id = world.run(
        &[
            "--control",
            "frames",
            "--payload",
            r#"{"steps": 0, "messages": 2}"#,
        ],
        &["python3", &example("worker.py")],
    );
    world.ctl(&["send", &id, "pause"]).ok();
    world
        .ctl(&["send", &id, "--inject", r#"{"text": "go on"}"#])
        .ok();
    world.ctl(&["send", &id, "resume"]).ok();
    world.ctl(&["send", &id, "--inject", "[1]"]).ok();
    let row = world.ended(&id);
    assert_eq!(text(&row["outcome"]), "completed", "{row}");
    let said = world.ctl(&["send", &id, "pause"]);
    assert_eq!(said.code, 3, "{said:?}");
    let plain = world.run(&[], &["sleep", "1000"]);
    let said = world.ctl(&["send", &plain, "pause"]);
    assert!(said.stderr.contains("no control channel"), "{said:?}");
    world.ctl(&["cancel", "--now", &plain]).ok();
    world.end();
}

#[test]
fn frames_of_every_kind_are_taken_and_frames_come_before_the_exit() {
    if !python("frames_of_every_kind_are_taken_and_frames_come_before_the_exit") {
        return;
    }
    let world = World::new();
    // 2,000 frames at once, and the end right behind them, with a helper that keeps the channel.
    let id = speak(
        &world,
        &["--leftovers", "kill"],
        "spawned(); helper(); [send(type='usage', input_tokens=1, output_tokens=2) for _ in range(2000)]; \
         send(type='turn_done', note='x'); leave(0)",
    );
    let row = world.ended(&id);
    assert_eq!(row["settled"], true, "{row}");
    assert_eq!(code(&row), Some(0), "{row}");
    assert_eq!(tokens(&row), (Some(2000), Some(4000)), "{row}");
    world.end();
}

#[test]
fn what_is_not_known_is_skipped_and_counted() {
    if !python("what_is_not_known_is_skipped_and_counted") {
        return;
    }
    let world = World::with(Containment::Auto, "[limits]\nmax_frame = \"64KiB\"\n");
    let id = speak(
        &world,
        &[],
        "send(type='later'); send(x=1); send(type='ready', y=2); send(type='pong'); \
         send(type='event', event='x', fields='z' * 200000); send(type='usage', input_tokens=7); wait()",
    );
    wait_until("five are skipped", || {
        world.show(&id)["frames_skipped"] == 5
    });
    let row = world.show(&id);
    assert_eq!(text(&row["channel"]), "open");
    assert_eq!(tokens(&row).0, Some(7), "{row}");
    world.ctl(&["cancel", &id]).ok();
    assert_eq!(world.ended(&id)["frames_skipped"], 5, "also afterwards");
    world.end();
}

/// It cannot read, which is no fault of its own.
#[test]
fn a_frozen_worker_loses_no_channel_by_what_is_sent_to_it() {
    let test = "a_frozen_worker_loses_no_channel_by_what_is_sent_to_it";
    if !python(test) {
        return;
    }
    let Some(world) = World::in_leaves(test, "[limits]\nmax_frame = \"64KiB\"\n") else {
        return;
    };
    let id = speak(&world, &[], "[read() for _ in iter(int, 1)]");
    world.ctl(&["freeze", &id]).ok();
    let word = format!("\"{}\"", "x".repeat(60_000));
    let refused = (0..100)
        .map(|_| world.ctl(&["send", &id, "--inject", &word]))
        .find(|said| said.code != 0)
        .expect("it is full at some time");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("thaw it first"), "{refused:?}");
    world.ctl(&["thaw", &id]).ok();
    wait_until("it reads again", || {
        world.ctl(&["send", &id, "--inject", "1"]).code == 0
    });
    assert_eq!(text(&world.show(&id)["channel"]), "open");
    world.ctl(&["cancel", "--now", &id]).ok();
    world.end();
}

/// A worker that spoils its channel is ended, and its row says what was wrong.
fn spoils(script: &str, reason: &str) {
    let world = World::new();
    let id = speak(&world, &["--grace", "60s"], script);
    let row = world.ended(&id);
    assert_eq!(text(&row["outcome"]), "cancelled", "{row}");
    let why = text(&row["cancelled"]["reason"]);
    assert!(
        why.contains("control channel lost") && why.contains(reason),
        "{why}"
    );
    assert_eq!(text(&row["rung"]), "term", "it can be asked no more: {row}");
    world.end();
}

#[test]
fn garbage_ends_the_channel_and_the_worker() {
    if python("garbage_ends_the_channel_and_the_worker") {
        spoils("spawned(); raw(b'no frame at all'); wait()", "announced");
        spoils(
            "spawned(); raw(struct.pack('>I', 4) + b'null'); wait()",
            "no JSON object",
        );
    }
}

#[test]
fn a_channel_that_is_closed_while_the_worker_lives_is_a_loss() {
    if python("a_channel_that_is_closed_while_the_worker_lives_is_a_loss") {
        spoils("spawned(); channel.close(); wait()", "its end was closed");
        spoils(
            "spawned(); raw(b'\\0\\0\\1'); channel.close(); wait()",
            "within a frame",
        );
    }
}

#[test]
fn one_that_never_reads_loses_its_channel_and_blocks_nobody() {
    if !python("one_that_never_reads_loses_its_channel_and_blocks_nobody") {
        return;
    }
    let world = World::with(Containment::Auto, "[limits]\nmax_frame = \"64KiB\"\n");
    let id = speak(&world, &[], "wait()");
    let message = format!("\"{}\"", "x".repeat(60_000));
    let refused = wait_for("its queue is full", || {
        let said = world.ctl(&["send", &id, "--inject", &message]);
        (said.code != 0).then_some(said)
    });
    assert!(refused.stderr.contains("does not read"), "{refused:?}");
    let row = world.ended(&id);
    let why = text(&row["cancelled"]["reason"]);
    assert!(why.contains("does not read its channel"), "{row}");
    world.end();
}

#[test]
fn a_frame_cut_in_the_middle_by_a_reload_is_whole_afterwards() {
    if !python("a_frame_cut_in_the_middle_by_a_reload_is_whole_afterwards") {
        return;
    }
    let world = World::new();
    let go = format!("{}/go", world.mark());
    let id = speak(
        &world,
        &[],
        &format!(
            "spawned(); frame = encode(type='usage', input_tokens=5); \
             [(raw(frame[:n]), until('{go}%d' % n), raw(frame[n:])) for n in (1, 3, 4, 9)]; \
             skip = encode(type='event', event='x', fields='y' * (2 << 20)); \
             [raw(skip[:70000]), until('{go}5'), raw(skip[70000:])]; \
             send(type='usage', input_tokens=1); send(type='result', outcome=got); leave(0)"
        ),
    );
    for n in [1, 3, 4, 9, 5] {
        world.ctl(&["reload"]).ok();
        world.ctl(&["send", &id, "--inject", &n.to_string()]).ok();
        fs::write(format!("{go}{n}"), "").unwrap();
        wait_until("it has gone on", || {
            !Path::new(&format!("{go}{n}")).exists()
        });
    }
    let row = world.ended(&id);
    assert_eq!(tokens(&row).0, Some(21), "{row}");
    assert_eq!(
        (code(&row), &row["settled"]),
        (Some(0), &Value::Bool(true)),
        "{row}"
    );
    assert_eq!(world.service()["generation"].as_i64(), Some(6));
    world.end();
}
