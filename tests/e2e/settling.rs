//! Settling: what a worker said of the end of its work, told once, and still known when the
//! worker, the table and the daemon have gone.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::support::control::{fixture, python, speak};
use crate::support::{World, code, text, wait_for, wait_until};

#[test]
fn an_end_with_and_one_without_a_word_are_told_apart_and_a_failure_counts_once() {
    if !python("an_end_with_and_one_without_a_word_are_told_apart_and_a_failure_counts_once") {
        return;
    }
    let world = World::new();
    let log = world.path().join("signals");
    let file = fs::File::create(&log).unwrap();
    let mut monitor = world.command(&["monitor", "--json=short"]);
    monitor.stdout(file);
    // The daemon is there before anybody listens to it.
    world.ctl(&["list"]).ok();
    let mut monitor = crate::support::Reaped(monitor.spawn().unwrap());
    let turn = ["--kind", "turn:x", "--kind-field", "reservation=41"];
    let cases = [
        ("send(type='turn_done'); leave(0)", true, 0),
        ("send(type='result', outcome=[1]); leave(0)", true, 0),
        (
            "send(type='failed', error='out of luck'); leave(4)",
            true,
            4,
        ),
        (
            "send(type='failed', error='a'); send(type='failed', error='b'); leave(0)",
            true,
            0,
        ),
        ("leave(0)", false, 0),
        ("leave(5)", false, 5),
        ("raw(b'\\0\\0'); leave(6)", false, 6),
    ];
    let mut ids = BTreeMap::new();
    for (script, settled, exit) in cases {
        let id = speak(&world, &turn, script);
        let row = world.ended(&id);
        assert_eq!(row["settled"], settled, "{script}: {row}");
        assert_eq!(code(&row), Some(exit), "{script}: {row}");
        assert_eq!(row["reservation"], 41, "{row}");
        ids.insert(id, settled);
    }
    let failed = world
        .rows()
        .iter()
        .filter(|r| text(&r["note"]).contains("out of luck"))
        .count();
    assert_eq!(failed, 1);
    wait_until("every end was told", || {
        let text = fs::read_to_string(&log).unwrap();
        ids.keys().all(|id| text.matches(id.as_str()).count() > 1)
    });
    monitor.0.kill().unwrap();
    world.stop_daemon();
    for (id, settled) in &ids {
        assert_eq!(world.show(id)["settled"], *settled, "from the row: {id}");
    }
    world.end();
}

#[test]
fn a_word_said_before_the_daemon_was_killed_is_in_the_row() {
    if !python("a_word_said_before_the_daemon_was_killed_is_in_the_row") {
        return;
    }
    let world = World::new();
    let said = speak(
        &world,
        &["--kind", "turn:x"],
        "spawned(); send(type='turn_done'); wait()",
    );
    let silent = speak(
        &world,
        &["--kind", "turn:y"],
        "spawned(); send(type='ready'); wait()",
    );
    wait_until("it is settled, and on disk", || {
        fs::read_to_string(world.row_file(&said)).is_ok_and(|t| t.contains("settled = true"))
    });
    world.kill_daemon();
    for (id, settled) in [(&said, true), (&silent, false)] {
        let row = world.ended(id);
        assert_eq!(row["settled"], settled, "{row}");
        assert_eq!(text(&row["outcome"]), "unknown", "{row}");
    }
    world.end();
}

#[test]
fn a_think_is_answered_once_whatever_becomes_of_it() {
    if !python("a_think_is_answered_once_whatever_becomes_of_it") {
        return;
    }
    let world = World::new();
    let out = world.path().join("told");
    let speak_py = fixture("speak.py");
    let python = crate::support::control::interpreter();
    // What the thinks do; the asker collects the answers by number.
    let thinks = [
        "send(type='result', outcome={'x': 1}); leave(0)",
        "send(type='turn_done', text='t'); leave(3)",
        "send(type='failed', error='no idea'); leave(1)",
        "leave(0)",
        "os.kill(os.getpid(), 9)",
    ];
    let asker = format!(
        "me = spawned(); env = {{'PATH': os.environ['PATH'], 'E2E_WORLD': os.environ['E2E_WORLD']}}\n\
         for n, script in enumerate({thinks:?}):\n\
         \x20   ask(n, 'spawn', argv=['{python}', '{speak_py}', 'spawned(); ' + script], control='frames', env=env, \
         kind='think', **{{'kind-fields': {{'purpose': 'p', 'reply_to': {{'node': me['node'], 'request': 100 + n}}}}}})\n\
         answers = [frame for frame in got if frame['type'] == 'result']\n\
         while len(answers) < {count}:\n\
         \x20   frame = read()\n\
         \x20   if frame['type'] == 'result': answers.append(frame)\n\
         tell('{out}', answers)\n\
         wait()",
        count = thinks.len(),
        out = out.display(),
    );
    let id = speak(&world, &[], &asker);
    let bytes = wait_for("all are answered", || fs::read(&out).ok());
    let answers: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let by_number: BTreeMap<i64, &Value> = answers
        .iter()
        .map(|a| (a["id"].as_i64().unwrap(), a))
        .collect();
    assert_eq!(by_number.len(), thinks.len(), "{answers:?}");
    assert_eq!(by_number[&100]["result"]["outcome"]["x"], 1, "{answers:?}");
    assert_eq!(
        by_number[&101]["result"]["turn_done"]["text"], "t",
        "{answers:?}"
    );
    assert_eq!(
        text(&by_number[&102]["error"]["name"]),
        "Failed",
        "{answers:?}"
    );
    for (n, how) in [(103, "exit code 0"), (104, "signal 9")] {
        let error = &by_number[&n]["error"];
        assert_eq!(text(&error["name"]), "Unsettled", "{answers:?}");
        assert!(text(&error["message"]).contains(how), "{error}");
    }
    world.ctl(&["cancel", "--now", &id]).ok();
    world.end();
}

#[test]
fn many_that_end_at_one_moment_are_each_known_afterwards() {
    if !python("many_that_end_at_one_moment_are_each_known_afterwards") {
        return;
    }
    let world = World::new();
    let go = world.path().join("go");
    let ids: Vec<(String, bool)> = (0..40)
        .map(|n| {
            let settles = n % 2 == 0;
            let word = if settles {
                "send(type='turn_done'); "
            } else {
                ""
            };
            let wait = format!(
                "while not os.path.exists('{}'): time.sleep(0.001)",
                go.display()
            );
            let script = format!("spawned()\n{wait}\n{word}leave({n})");
            (speak(&world, &["--kind", "turn:x"], &script), settles)
        })
        .collect();
    fs::write(&go, "").unwrap();
    for (n, (id, settled)) in ids.iter().enumerate() {
        let row = world.ended(id);
        assert_eq!(
            (&row["settled"], code(&row)),
            (&(*settled).into(), i64::try_from(n).ok()),
            "{row}"
        );
    }
    world.end();
}
