//! Settling: what a worker said of the end of its work, told once, and still known when the
//! worker, the table and the daemon have gone.

use std::collections::BTreeMap;
use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::control::{fixture, python, speak};
use crate::support::{Containment, World, code, proc, text, wait_for, wait_until};

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
    let world = World::with(Containment::Auto, "[limits]\nmax_frame = \"64KiB\"\n");
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
        "send(type='failed'); leave(0)",
        "send(type='result', outcome='x' * 65400); leave(0)",
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
    assert_eq!(text(&by_number[&105]["error"]["name"]), "Failed");
    assert_eq!(
        text(&by_number[&106]["error"]["name"]),
        "LimitsExceeded",
        "it does not fit"
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
fn a_think_that_is_started_again_is_answered_once_and_stays_settled() {
    if !python("a_think_that_is_started_again_is_answered_once_and_stays_settled") {
        return;
    }
    let config = "[restart]\nbackoff_min = \"20ms\"\nbackoff_max = \"20ms\"\n";
    let world = World::with(Containment::Auto, config);
    let out = world.path().join("told");
    let done = world.path().join("done");
    let speak_py = fixture("speak.py");
    let python = crate::support::control::interpreter();
    // The first says nothing in its first generation; the second says something in each.
    let thinks = [
        "open('{f}', 'a').write('x')\n\
         if os.path.getsize('{f}') > 1: send(type='result', outcome='late')\n\
         leave(1)",
        "open('{f}2', 'a').write('x')\n\
         send(type='result', outcome=os.path.getsize('{f}2'))\n\
         leave(1)",
        "send(type='failed', error='no key')\n\
         leave(1)",
    ]
    .map(|script| script.replace("{f}", world.path().join("runs").to_str().unwrap()));
    let asker = format!(
        "me = spawned(); env = {{'PATH': os.environ['PATH'], 'E2E_WORLD': os.environ['E2E_WORLD']}}\n\
         for n, script in enumerate({thinks:?}):\n\
         \x20   ask(n, 'spawn', argv=['{python}', '{speak_py}', 'spawned(); ' + script], control='frames', env=env, \
         name='think%d' % n, restart='on-failure', **{{'restart-max': 3, 'kind': 'think', \
         'kind-fields': {{'purpose': 'p', 'reply_to': {{'node': me['node'], 'request': 100 + n}}}}}})\n\
         until('{done}')\n\
         send(type='request', id=200, name='status')\n\
         while not any(frame.get('id') == 200 for frame in got): got.append(read())\n\
         tell('{out}', [frame for frame in got if frame['type'] == 'result' and 100 <= frame['id'] < 200])\n\
         wait()",
        out = out.display(),
        done = done.display(),
    );
    let id = speak(&world, &[], &asker);
    let rows: Vec<Value> = (0..thinks.len())
        .map(|n| {
            wait_for("it is permanently dead", || {
                let found = world.ctl(&["show", "--json=short", &format!("think{n}")]);
                let row = (found.code == 0).then(|| found.json())?;
                let row = row.get(0).cloned().unwrap_or(row);
                (text(&row["status"]) == "permanent-dead").then_some(row)
            })
        })
        .collect();
    for row in &rows {
        assert_eq!(row["settled"], true, "{row}");
        assert_eq!(row["restarts"], 3, "{row}");
    }
    let note = text(&rows[2]["note"]);
    assert!(
        note.starts_with("it said that it failed: no key; "),
        "{note}"
    );
    assert!(note.contains("3 restarts within"), "{note}");
    fs::write(&done, "").unwrap();
    let bytes = wait_for("all is told", || fs::read(&out).ok());
    let answers: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let mut ids: Vec<i64> = answers.iter().map(|a| a["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [100, 101, 102], "{answers:?}");
    for (id, outcome) in [(100, serde_json::json!("late")), (101, 1.into())] {
        let answer = answers.iter().find(|a| a["id"] == id).unwrap();
        assert_eq!(answer["result"]["outcome"], outcome, "{answers:?}");
    }
    world.ctl(&["cancel", "--now", &id]).ok();
    world.end();
}

#[test]
fn what_it_said_of_its_failure_outlives_the_daemon() {
    if !python("what_it_said_of_its_failure_outlives_the_daemon") {
        return;
    }
    let world = World::new();
    let id = speak(
        &world,
        &["--kind", "turn:x"],
        "spawned(); send(type='failed', error='no key'); wait()",
    );
    wait_until("it is on disk", || {
        fs::read_to_string(world.row_file(&id)).is_ok_and(|t| t.contains("settled = true"))
    });
    world.kill_daemon();
    let note = text(&world.ended(&id)["note"]);
    let (said, seen) = note.split_once("; ").unwrap_or((&note, ""));
    assert_eq!(said, "it said that it failed: no key");
    assert!(seen.contains("the daemon was lost"), "{note}");
    world.end();
}

#[test]
fn what_was_cut_off_within_a_frame_is_told_of_each() {
    if !python("what_was_cut_off_within_a_frame_is_told_of_each") {
        return;
    }
    // Where there is no leaf, a channel's end is read between the leader's end and the worker's.
    let world = World::without_cgroup("");
    let go = world.path().join("go");
    let wait = format!(
        "while not os.path.exists('{}'): time.sleep(0.001)",
        go.display()
    );
    let script = format!("spawned()\n{wait}\nraw(b'\\0\\0\\0\\x09{{'); leave(1)");
    let ids: Vec<String> = (0..30).map(|_| speak(&world, &[], &script)).collect();
    let pids = ids.iter().map(|id| world.show(id)["pid"].as_i64().unwrap());
    let pids: Vec<i32> = pids.map(|pid| i32::try_from(pid).unwrap()).collect();
    // All ends are there to be seen at once.
    let daemon = world.daemon_pid().unwrap();
    proc::signal(daemon, Signal::SIGSTOP);
    fs::write(&go, "").unwrap();
    wait_until("they have ended", || {
        pids.iter().all(|pid| !proc::is_alive(*pid))
    });
    proc::signal(daemon, Signal::SIGCONT);
    for id in ids {
        let row = world.ended(&id);
        let note = text(&row["note"]);
        assert!(note.contains("it ended within a frame"), "{row}");
        assert!(note.contains("it ended without a result"), "{row}");
    }
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
