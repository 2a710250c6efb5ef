//! Workers that ask for workers: siblings by request and by `musterctl run` inside one, how deep
//! that may go, and what ends with what.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::program;
use crate::support::control::{python, speak};
use crate::support::{Containment, World, text, wait_for, wait_until};

/// What a fixture told the test by a file.
fn told(path: &Path) -> Value {
    let bytes = wait_for("the fixture tells something", || fs::read(path).ok());
    serde_json::from_slice(&bytes).unwrap()
}

fn file(world: &World, name: &str) -> PathBuf {
    world.path().join(name)
}

/// For a script: every process of a world carries its mark.
fn nap(world: &World) -> String {
    format!(
        "argv=['{}', 'nap', '{}']",
        world.helper("nap"),
        world.mark()
    )
}

fn error(answer: &Value) -> (String, String) {
    (
        text(&answer["error"]["name"]),
        text(&answer["error"]["message"]),
    )
}

fn a_sibling(world: World) {
    let out = file(&world, "told");
    let script = format!(
        "me = spawned(); \
         kin = ask(1, 'spawn', {nap}, name='helper', kind='subagent', **{{'kind-fields': {{'handle': 'h1'}}}}); \
         tell('{out}', [me, kin, ask(2, 'status'), ask(3, 'status', worker='subagent:h1')]); wait()",
        nap = nap(&world),
        out = out.display(),
    );
    let parent = speak(
        &world,
        &["--trace-id", "trace-7", "--kind", "turn:main"],
        &script,
    );
    let all = told(&out);
    let [me, kin, list, one] = [0, 1, 2, 3].map(|n| all[n].clone());
    assert_eq!(text(&me["worker"]), parent);
    assert_eq!(text(&me["trace_id"]), "trace-7");
    let id = text(&kin["result"]["worker"]);
    assert_eq!(list["result"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(text(&list["result"][0]["worker"]), id);
    assert_eq!(text(&one["result"]["status"]), "live", "{one}");

    let row = world.show("subagent:h1");
    assert_eq!(text(&row["id"]), id);
    assert_eq!(text(&row["parent"]), parent);
    assert_eq!((&row["depth"], &row["msg_depth"]), (&1.into(), &1.into()));
    assert_eq!(row["owner"], world.show(&parent)["owner"]);
    let pid = i32::try_from(row["pid"].as_i64().unwrap()).unwrap();
    let process = crate::support::proc::Process::read(pid).unwrap();
    assert_eq!(
        Some(process.ppid),
        world.daemon_pid(),
        "a sibling, no grandchild"
    );
    assert_eq!(text(&row["trace_id"]), "trace-7");
    assert_eq!(process.env("MUSTER_PARENT"), Some(parent.as_str()));
    let by_kind = &world.service()["by_kind"];
    assert_eq!(
        (&by_kind["subagent"], &by_kind["root-turn"]),
        (&1.into(), &1.into())
    );
    let tree = world.ctl(&["tree"]).ok().stdout;
    let (above, below) = (
        tree.find(&parent).unwrap(),
        tree.find("subagent:h1").unwrap(),
    );
    assert!(above < below, "{tree}");

    world.ctl(&["reload"]).ok();
    assert_eq!(
        text(&world.show("subagent:h1")["id"]),
        id,
        "also after a reload"
    );
    world.ctl(&["cancel", "--reason", "enough", &parent]).ok();
    let row = world.ended(&id);
    assert_eq!(text(&row["outcome"]), "cancelled");
    let why = text(&row["cancelled"]["reason"]);
    assert_eq!(why, format!("its parent {parent} was cancelled"));
    world.stop_daemon();
    assert_eq!(
        text(&world.show("subagent:h1")["id"]),
        id,
        "also after a restart"
    );
    world.end();
}

#[test]
fn a_worker_asks_for_a_sibling_and_is_its_parent() {
    if python("a_worker_asks_for_a_sibling_and_is_its_parent") {
        a_sibling(World::new());
        a_sibling(World::without_cgroup(""));
    }
}

#[test]
fn a_sibling_lives_on_when_its_parent_ends_and_when_a_cancel_says_so() {
    if !python("a_sibling_lives_on_when_its_parent_ends_and_when_a_cancel_says_so") {
        return;
    }
    let world = World::new();
    let nap = nap(&world);
    let parent = speak(
        &world,
        &[],
        &format!("spawned(); ask(1, 'spawn', {nap}, name='kin-a'); send(type='result'); leave(0)"),
    );
    world.ended(&parent);
    assert_eq!(world.status_of("kin-a"), "live");
    let parent = speak(
        &world,
        &[],
        &format!("spawned(); ask(1, 'spawn', {nap}, name='kin-b'); wait()"),
    );
    wait_until("it is there", || world.ctl(&["show", "kin-b"]).code == 0);
    world.ctl(&["cancel", "--keep-descendants", &parent]).ok();
    assert_eq!(world.status_of("kin-b"), "live");
    world.ctl(&["cancel", "kin-a", "kin-b"]).ok();
    world.end();
}

#[test]
fn a_worker_reaches_only_what_is_below_it() {
    if !python("a_worker_reaches_only_what_is_below_it") {
        return;
    }
    let world = World::new();
    let out = file(&world, "told");
    let stranger = world.run(&["--name", "stranger"], &["sleep", "1000"]);
    let script = format!(
        "me = spawned(); ask(1, 'spawn', {nap}, name='kin'); \
         tell('{out}', [ask(2, 'cancel', worker='stranger'), ask(3, 'status', worker='{stranger}'), \
         ask(4, 'cancel', worker=me['worker']), ask(5, 'spawn', argv=[]), ask(6, 'reap'), \
         ask(7, 'spawn', argv=['/nonexistent']), ask(8, 'cancel', worker='kin', reason='done with it')]); wait()",
        nap = nap(&world),
        out = out.display(),
    );
    let id = speak(&world, &[], &script);
    let all = told(&out);
    for n in [0, 1] {
        assert_eq!(error(&all[n]).0, "NoSuchWorker", "{}", all[n]);
    }
    let of_itself = error(&all[2]);
    assert_eq!(of_itself.0, "InvalidArgs", "{}", all[2]);
    assert!(of_itself.1.contains("is the one that asks"), "{}", all[2]);
    assert_eq!(error(&all[3]).0, "InvalidArgs", "{}", all[3]);
    assert!(
        error(&all[4]).1.contains("spawn, cancel and status"),
        "{}",
        all[4]
    );
    assert_eq!(error(&all[5]).0, "StartFailed", "{}", all[5]);
    assert_eq!(text(&all[6]["result"]["state"]), "begun", "{}", all[6]);
    assert_eq!(
        text(&world.ended("kin")["cancelled"]["reason"]),
        "done with it"
    );
    assert_eq!(world.status_of(&stranger), "live");
    world.ctl(&["cancel", "--now", &stranger, &id]).ok();
    world.end();
}

/// A worker that has a child which has one, and what the child's end leaves of that.
#[test]
fn a_row_that_leaves_the_roll_leaves_nobody_without_an_ancestor() {
    if !python("a_row_that_leaves_the_roll_leaves_nobody_without_an_ancestor") {
        return;
    }
    let world = World::new();
    let ctl = program("musterctl").to_str().unwrap().to_owned();
    let (low, asked) = (file(&world, "low"), file(&world, "asked"));
    let mark = world.mark();
    let mid = format!(
        "{ctl} run -q --name low -- sh -c 'sleep 1000 # {mark}' >{low}.new; mv {low}.new {low}",
        low = low.display()
    );
    let top = speak(
        &world,
        &["--name", "top"],
        &format!(
            "spawned(); ask(1, 'spawn', argv=['sh', '-c', {mid:?}], name='mid', env=dict(os.environ)); \
             until('{ask}'); tell('{asked}', ask(2, 'status', worker='low')); wait()",
            ask = file(&world, "ask").display(),
            asked = asked.display(),
        ),
    );
    wait_for("the last is started", || fs::read_to_string(&low).ok());
    let mid = text(&world.ended("mid")["id"]);
    assert_eq!(text(&world.show("low")["parent"]), mid);
    world.ctl(&["forget", &mid]).ok();
    assert_eq!(text(&world.show("low")["parent"]), top);
    assert_eq!(world.show("low")["depth"], 2, "that stays what it was");
    fs::write(file(&world, "ask"), "").unwrap();
    assert_eq!(text(&told(&asked)["result"]["status"]), "live");
    let tree = world.ctl(&["tree"]).ok().stdout;
    assert!(tree.contains("└─● low"), "{tree}");
    world.ctl(&["cancel", &top]).ok();
    let row = world.ended("low");
    assert_eq!(
        text(&row["cancelled"]["reason"]),
        format!("its parent {top} was cancelled")
    );
    world.end();
}

/// Whichever of them comes first in a sweep.
#[test]
fn a_sweep_takes_a_whole_line_of_ancestors_at_once() {
    let world = World::new();
    let ctl = program("musterctl").to_str().unwrap().to_owned();
    let script = format!("[ $0 = 6 ] || {ctl} run -q --wait -- sh -c \"$1\" $(($0 + 1)) \"$1\"");
    world.run_to_end(&[], &["sh", "-c", &script, "0", &script]);
    let rows = world.rows();
    assert_eq!(rows.len(), 7, "{rows:?}");
    world.ctl(&["reap", "--grace", "0"]).ok();
    assert_eq!(world.rows(), Vec::<Value>::new());
    world.end();
}

/// Twice forked and in a session of its own, it is still of the worker it comes from.
#[test]
fn who_was_orphaned_without_a_leaf_is_still_of_its_worker() {
    let world = World::without_cgroup("");
    let ctl = program("musterctl").to_str().unwrap().to_owned();
    let kid = file(&world, "kid");
    let inner = format!(
        "sleep 0.3; {ctl} report --input 100; {ctl} run -q -- sleep 1000 >{kid}.new 2>&1; mv {kid}.new {kid}",
        kid = kid.display()
    );
    let id = world.run(
        &[],
        &[
            "sh",
            "-c",
            &format!("(setsid sh -c \"{inner}\" &); exec sleep 1000"),
        ],
    );
    let kid = wait_for("it has started one", || fs::read_to_string(&kid).ok());
    let row = world.show(kid.trim());
    assert_eq!(
        (text(&row["parent"]), row["depth"].as_i64()),
        (id.clone(), Some(1)),
        "{row}"
    );
    assert_eq!(world.show(&id)["tokens"]["input"], 100);
    world.ctl(&["cancel", &id]).ok();
    assert_eq!(text(&world.ended(kid.trim())["outcome"]), "cancelled");
    world.end();
}

/// Programs inside workers start workers with `musterctl run`; whose child it is, the kernel says.
fn by_command(world: World) {
    let ctl = program("musterctl").to_str().unwrap().to_owned();
    let (one, two) = (file(&world, "one"), file(&world, "two"));
    let inner = format!(
        "{ctl} run -q -- sleep 1000 >{two}.new 2>&1; mv {two}.new {two}; sleep 1000",
        two = two.display()
    );
    // In the middle a shell in the background, as tools of agents are.
    let outer = format!(
        "(MUSTER_PARENT=forged MUSTER_WORKER=forged {ctl} run -q -- sh -c '{inner}' >{one}.new 2>&1; mv {one}.new {one}) & \
         sleep 1000",
        one = one.display()
    );
    let top = world.run(
        &["--kind", "turn:main", "--kind-field", "msg_depth=3"],
        &["sh", "-c", &outer],
    );
    let read = |path: &Path| {
        let said = wait_for("a worker is started", || fs::read_to_string(path).ok());
        said.trim().to_owned()
    };
    let (mid, low) = (read(&one), read(&two));
    let row = world.show(&mid);
    assert_eq!(
        (text(&row["parent"]), row["depth"].as_i64()),
        (top.clone(), Some(1)),
        "{row}"
    );
    assert_eq!(row["msg_depth"], 4, "{row}");
    let row = world.show(&low);
    assert_eq!(
        (text(&row["parent"]), row["depth"].as_i64()),
        (mid.clone(), Some(2)),
        "{row}"
    );
    assert_eq!(row["msg_depth"], 5, "{row}");
    world.ctl(&["cancel", &top]).ok();
    for (id, what) in [(&mid, "parent"), (&low, "ancestor")] {
        let why = text(&world.ended(id)["cancelled"]["reason"]);
        assert_eq!(why, format!("its {what} {top} was cancelled"));
    }
    world.end();
}

#[test]
fn a_program_inside_a_leaf_is_a_parent_whatever_it_claims() {
    let test = "a_program_inside_a_leaf_is_a_parent_whatever_it_claims";
    if let Some(world) = World::in_leaves(test, "") {
        by_command(world);
    }
}

#[test]
fn a_program_inside_a_worker_without_a_leaf_is_a_parent_too() {
    by_command(World::without_cgroup(""));
}

#[test]
fn neither_depth_nor_message_hops_nor_the_rate_can_be_passed() {
    if !python("neither_depth_nor_message_hops_nor_the_rate_can_be_passed") {
        return;
    }
    let limits = "[limits]\nmax_depth = 1\nmax_message_depth = 7\nspawn_burst = 4\n";
    let world = World::with(Containment::Auto, limits);
    let fixture = crate::support::control::fixture("speak.py");
    let python = crate::support::control::interpreter();
    let out = file(&world, "told");
    // The sibling is at the greatest depth and asks for one more.
    let inner = format!(
        "spawned(); tell('{out}', ask(1, 'spawn', argv=['true'])); leave(0)",
        out = out.display()
    );
    let outer = format!(
        "spawned(); ask(1, 'spawn', argv=['{python}', '{fixture}', {inner:?}], control='frames', \
         env={{'PATH': os.environ['PATH'], 'E2E_WORLD': os.environ['E2E_WORLD']}}); wait()"
    );
    let top = speak(&world, &[], &outer);
    assert!(error(&told(&out)).1.contains("max_depth"), "{}", told(&out));
    // A turn at the last hop.
    let out = file(&world, "hops");
    let turn = speak(
        &world,
        &["--kind", "turn:x", "--kind-field", "msg_depth=7"],
        &format!(
            "spawned(); tell('{}', ask(1, 'spawn', argv=['true'], kind='root-turn', \
             **{{'kind-fields': {{'ctx': 'y', 'msg_depth': 0}}}})); wait()",
            out.display()
        ),
    );
    assert!(
        error(&told(&out)).1.contains("max_message_depth"),
        "{}",
        told(&out)
    );
    // Eight at once, of which four are taken.
    let out = file(&world, "rate");
    let many = speak(
        &world,
        &[],
        &format!(
            "spawned(); [send(type='request', id=n, name='spawn', args=dict(argv=['true'])) for n in range(8)]; \
             tell('{}', [read() for n in range(8)]); wait()",
            out.display()
        ),
    );
    let answers = told(&out);
    let refused = answers
        .as_array()
        .unwrap()
        .iter()
        .filter(|a| error(a).0 == "SpawnRate");
    assert!((3..=4).contains(&refused.count()), "{answers}");
    world.ctl(&["cancel", "--now", &top, &turn, &many]).ok();
    world.end();
}

#[test]
fn one_that_is_being_ended_starts_nothing_more() {
    if !python("one_that_is_being_ended_starts_nothing_more") {
        return;
    }
    let world = World::new();
    let out = file(&world, "told");
    let id = speak(
        &world,
        &["--grace", "60s"],
        &format!(
            "spawned(); frame = read(); \
             tell('{}', [frame, ask(1, 'spawn', argv=['sleep', '1000'])]); leave(3)",
            out.display()
        ),
    );
    world.ctl(&["cancel", "--reason", "why not", &id]).ok();
    let all = told(&out);
    assert_eq!(
        all[0],
        serde_json::json!({"type": "cancel", "reason": "why not"})
    );
    assert_eq!(error(&all[1]).0, "AskerEnds", "{all}");
    assert_eq!(world.rows().len(), 1);
    world.end();
}

#[test]
fn the_first_call_of_a_worker_without_a_leaf_may_be_faster_than_its_own_start() {
    let world = World::without_cgroup("[limits]\nspawn_burst = 64\n");
    let ctl = program("musterctl").to_str().unwrap().to_owned();
    let parents: Vec<String> = (0..12)
        .map(|_| world.run(&[], &[&ctl, "run", "-q", "--detach", "--", "true"]))
        .collect();
    for id in &parents {
        world.ended(id);
    }
    let roll = world.ctl(&["list", "-a", "--json=short"]).ok().json();
    let rows = roll.as_array().unwrap();
    for id in &parents {
        let children = rows.iter().filter(|row| text(&row["parent"]) == *id);
        assert_eq!(children.count(), 1, "{id} in {roll}");
    }
    world.end();
}
