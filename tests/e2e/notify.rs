//! Workers that know sd_notify(3), and what programs inside a worker report of it.

use std::path::Path;
use std::time::{Duration, Instant};

use musterd::dbus::client::Client;
use musterd::supervisor::handle::Stdio;
use musterd::worker::{Control, Environment, Spec, Timeouts};
use serde_json::Value;

use crate::common::program;
use crate::support::{BOUND, World, code, hear, text, wait_for, wait_until};

fn has_systemd_notify(test: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join("systemd-notify").exists());
    if !found {
        crate::support::means::not_run(test, "there is no systemd-notify here");
    }
    found
}

/// `musterctl` where a worker's `PATH` finds it.
fn path_with_musterctl() -> String {
    let dir = program("musterctl");
    let dir = dir.parent().unwrap().display().to_string();
    format!("PATH={dir}:{}", std::env::var("PATH").unwrap())
}

fn micros(row: &Value, key: &str) -> i64 {
    row[key].as_i64().unwrap_or_else(|| panic!("{key}: {row}"))
}

#[test]
fn the_example_in_shell_runs_as_it_stands() {
    if !has_systemd_notify("the_example_in_shell_runs_as_it_stands") {
        return;
    }
    let world = World::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/worker.sh");
    let begun = Instant::now();
    let path = path_with_musterctl();
    let options = ["--control=notify", "-E", &path];
    let id = world.run(&options, &[example.to_str().unwrap(), "2", world.mark()]);
    let row = world.ended(&id);
    assert_eq!(
        (code(&row), text(&row["outcome"])),
        (Some(0), "completed".into()),
        "{row}"
    );
    assert_eq!(micros(&row["tokens"], "input"), 1200, "{row}");
    assert_eq!(micros(&row["tokens"], "output"), 80, "{row}");
    assert_eq!(
        row["settled"].as_bool(),
        Some(true),
        "it said --turn-done: {row}"
    );
    // Each of its nine messages waits for its barrier, in vain for 5 s if nobody closes it.
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    let stopped = world.run(
        &options,
        &[example.to_str().unwrap(), "1000000", world.mark()],
    );
    wait_until("what it does is shown", || {
        text(&world.show(&stopped)["status_text"]).contains("of 1000000")
    });
    world.ctl(&["cancel", &stopped]).ok();
    let row = world.ended(&stopped);
    assert_eq!(
        (code(&row), text(&row["outcome"])),
        (Some(0), "cancelled".into()),
        "{row}"
    );
    world.end();
}

#[test]
fn who_asks_for_more_time_gets_it_for_its_deadline_and_its_ladder_also_after_a_reload() {
    let test = "who_asks_for_more_time_gets_it_for_its_deadline_and_its_ladder_also_after_a_reload";
    if !has_systemd_notify(test) {
        return;
    }
    let world = World::new();
    let mark = world.mark().to_owned();
    let script = format!(
        "trap 'systemd-notify EXTEND_TIMEOUT_USEC=60000000; touch {mark}/asked; sleep 2; exit 4' TERM
         until [ -e {mark}/go ]; do sleep 0.05; done
         systemd-notify EXTEND_TIMEOUT_USEC=7200000000
         while :; do sleep 0.05; done"
    );
    let id = world.run(
        &["--control=notify", "--deadline=1h", "--kill-grace=500ms"],
        &["sh", "-c", &script, "sh", &mark],
    );
    let before = micros(&world.show(&id), "deadline");
    world.ctl(&["reload"]).ok();
    std::fs::write(world.path().join("go"), "").unwrap();
    wait_until("its deadline is later by half an hour at least", || {
        micros(&world.show(&id), "deadline") - before > 1_800_000_000
    });
    world.ctl(&["cancel", "--no-block", &id]).ok();
    wait_until("it has asked", || world.path().join("asked").exists());
    let row = world.ended(&id);
    assert_eq!(code(&row), Some(4), "it was not killed: {row}");
    assert_eq!(text(&row["rung"]), "term", "{row}");
    world.end();
}

#[test]
fn a_worker_that_says_it_hangs_is_ended_with_that_reason() {
    if !has_systemd_notify("a_worker_that_says_it_hangs_is_ended_with_that_reason") {
        return;
    }
    let world = World::new();
    let script = "systemd-notify WATCHDOG=trigger; exec sleep 1000";
    let id = world.run(&["--control=notify"], &["sh", "-c", script, world.mark()]);
    let row = world.ended(&id);
    assert_eq!(text(&row["outcome"]), "cancelled", "{row}");
    let reason = text(&row["cancelled"]["reason"]);
    assert!(reason.contains("stuck"), "{reason}");
    world.end();
}

/// Asks on the bus for what the command line has no word for.
fn spawn(world: &World, spec: &Spec) -> String {
    world.ctl(&["list"]).ok();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::peer(&world.runtime().join("sock")).await.unwrap();
        client.spawn(spec, Stdio::default()).await.unwrap().id
    })
}

#[test]
fn a_worker_with_a_watchdog_is_stuck_when_it_says_no_more() {
    let test = "a_worker_with_a_watchdog_is_stuck_when_it_says_no_more";
    if !has_systemd_notify(test) {
        return;
    }
    let world = World::new();
    let mark = world.mark();
    let script = format!(
        "[ $WATCHDOG_USEC = 2000000 ] || exit 9
         for i in 1 2 3 4 5 6 7 8; do systemd-notify WATCHDOG=1; sleep 0.5; done
         touch {mark}/silent
         exec sleep 1000"
    );
    let env = ["PATH", "E2E_WORLD"].map(|name| {
        let value = match name {
            "PATH" => std::env::var(name).unwrap(),
            _ => mark.to_owned(),
        };
        format!("{name}={value}").into()
    });
    let spec = Spec {
        argv: ["sh", "-c", &script].map(Into::into).to_vec(),
        env: Environment(env.to_vec()),
        cwd: world.home(),
        control: Control::Notify,
        timeouts: Timeouts {
            progress: Some(Duration::from_secs(1)),
            pong: Some(Duration::from_secs(2)),
            ..Timeouts::default()
        },
        ..Spec::default()
    };
    let id = spawn(&world, &spec);
    let row = world.ended(&id);
    assert!(
        world.path().join("silent").exists(),
        "it was ended too early: {row}"
    );
    let reason = text(&row["cancelled"]["reason"]);
    assert!(reason.contains("stuck"), "{row}");
    world.end();
}

#[test]
fn the_socket_is_told_to_who_asked_for_it_and_to_nobody_else() {
    let world = World::new();
    let out = world.path().join("out");
    let script = format!(
        "echo \"$NOTIFY_SOCKET|${{WATCHDOG_USEC-none}}|$MUSTER_RUNTIME_DIR\" > {}",
        out.display()
    );
    world.run_to_end(&["--control=notify"], &["sh", "-c", &script]);
    let said = std::fs::read_to_string(&out).unwrap();
    let words: Vec<&str> = said.trim().split('|').collect();
    assert_eq!(words[0], format!("{}/.notify", words[2]), "{said}");
    assert_eq!(words[1], "none");
    world.run_to_end(&[], &["sh", "-c", &script]);
    let said = std::fs::read_to_string(&out).unwrap();
    assert!(said.starts_with('|'), "no channel was asked for: {said}");
    world.end();
}

/// Sends as fast as the socket takes it.
const FLOOD: &str = "
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect(os.environ['NOTIFY_SOCKET'])
while True:
    s.send(b'STATUS=' + b'x' * 2000)
";

#[test]
fn workers_that_talk_without_end_keep_nobody_waiting() {
    let test = "workers_that_talk_without_end_keep_nobody_waiting";
    if !Path::new("/usr/bin/python3").exists() {
        return crate::support::means::not_run(test, "there is no python3 here");
    }
    let world = World::new();
    let loud: Vec<String> = (0..8)
        .map(|_| {
            let argv = ["/usr/bin/python3", "-c", FLOOD, world.mark()];
            world.run(&["--control=notify"], &argv)
        })
        .collect();
    for _ in 0..5 {
        let begun = Instant::now();
        let quiet = world.run_to_end(&[], &["sh", "-c", "exit 3", world.mark()]);
        assert_eq!(code(&world.show(&quiet)), Some(3));
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
    }
    for id in &loud {
        assert_eq!(world.status_of(id), "live");
    }
    let mut cancel = vec!["cancel", "--now"];
    cancel.extend(loud.iter().map(String::as_str));
    world.ctl(&cancel).ok();
    world.end();
}

#[test]
fn a_report_is_told_to_the_worker_it_was_made_in_whatever_the_environment_says() {
    let world = World::new();
    let ctl = program("musterctl").display().to_string();
    let socket = world.runtime().join("sock").display().to_string();
    let out = world.path().join("out");
    let script = format!(
        "{ctl} report --input 5 --output 2 --status busy; echo $? > {0}
         {ctl} report --input 0; echo $? >> {0}
         env -i {ctl} --socket {socket} report --output 10; echo $? >> {0}
         mv {0} {0}.done
         exec sleep 1000",
        out.display()
    );
    let id = world.run(&[], &["sh", "-c", &script, world.mark()]);
    let other = world.run(&[], &["sleep", "1000"]);
    let done = world.path().join("out.done");
    let codes = wait_for("it has reported", || std::fs::read_to_string(&done).ok());
    assert_eq!(codes, "0\n0\n0\n");
    let row = world.show(&id);
    assert_eq!(micros(&row["tokens"], "input"), 5, "{row}");
    assert_eq!(micros(&row["tokens"], "output"), 12, "{row}");
    assert_eq!(micros(&world.show(&other)["tokens"], "input"), 0);
    // From outside of every worker, with one's name in the environment.
    let mut outside = world.command(&["report", "--input", "1"]);
    outside.env("MUSTER_WORKER", &id);
    let said = hear(outside);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.stderr.contains("in no worker"), "{said:?}");
    assert_eq!(world.ctl(&["report"]).code, 2);
    world.ctl(&["cancel", "--now", &id, &other]).ok();
    world.end();
}

#[test]
fn a_budget_ends_a_worker_that_only_ever_reports() {
    let world = World::new();
    let ctl = program("musterctl").display().to_string();
    let script = format!("while :; do {ctl} report --input 40; sleep 0.02; done");
    let id = world.run(&["--tokens-max=100"], &["sh", "-c", &script, world.mark()]);
    let row = world.ended(&id);
    assert_eq!(text(&row["cancelled"]["reason"]), "token-budget", "{row}");
    assert!(micros(&row["tokens"], "input") >= 100, "{row}");
    world.end();
}

#[test]
fn a_report_where_no_daemon_runs_starts_none() {
    let world = World::new();
    let said = world.ctl(&["report", "--input", "1"]);
    assert_eq!(said.code, 7, "{said:?}");
    assert!(world.daemons().is_empty());
    world.end();
}
