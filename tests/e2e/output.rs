//! What workers write: a file that can be followed, with a cap.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::sync::mpsc;

use crate::support::{BOUND, Containment, Reaped, World, wait_for, wait_within};

#[test]
fn logs_show_both_outputs_and_only_the_last_lines_asked_for() {
    let world = World::new();
    let id = world.run_to_end(&[], &["sh", "-c", "echo out; echo err >&2; echo last"]);
    assert_eq!(world.ctl(&["logs", &id]).ok().stdout, "out\nerr\nlast\n");
    assert_eq!(world.ctl(&["logs", "-n", "1", &id]).ok().stdout, "last\n");
    assert_eq!(world.ctl(&["logs", "nosuch"]).code, 5);
    world.end();
}

#[test]
fn logs_follow_a_worker_until_it_ends() {
    let world = World::new();
    let gate = world.path().join("gate");
    let script = format!(
        "echo one; until [ -e {} ]; do sleep 0.05; done; echo two",
        gate.display()
    );
    let id = world.run(&[], &["sh", "-c", &script]);
    let mut command = world.command(&["logs", "-f", &id]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut client = Reaped(command.spawn().unwrap());
    let (tell, told) = mpsc::channel();
    let stdout = client.0.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            tell.send(line.unwrap()).unwrap();
        }
    });
    assert_eq!(told.recv_timeout(BOUND).unwrap(), "one");
    std::fs::write(&gate, "").unwrap();
    assert_eq!(told.recv_timeout(BOUND).unwrap(), "two");
    let status = wait_for("it ends with the worker", || client.0.try_wait().unwrap());
    assert!(status.success());
    reader.join().unwrap();
    world.end();
}

#[test]
fn the_oldest_output_goes_once_there_is_too_much() {
    let world = World::with(Containment::Auto, "[workers]\noutput_max = \"64KiB\"\n");
    let script = "i=0; while [ $i -lt 20000 ]; do echo \"line $i of much output, to fill it\"; i=$((i+1)); done; echo end; exec sleep 1000";
    let id = world.run(&[], &["sh", "-c", script]);
    wait_for("all is written", || {
        let last = world.ctl(&["logs", "-n", "1", &id]).ok().stdout;
        (last == "end\n").then_some(())
    });
    let row = wait_within(
        2 * BOUND,
        "the oldest part is dropped while it lives",
        || {
            let row = world.show(&id);
            (row["output_dropped"].as_u64().unwrap() > 0).then_some(row)
        },
    );
    assert_eq!(row["status"], "live");
    let file = std::fs::metadata(row["output"].as_str().unwrap()).unwrap();
    wait_within(2 * BOUND, "it takes little more than the cap", || {
        let file = std::fs::metadata(row["output"].as_str().unwrap()).unwrap();
        (file.blocks() * 512 <= 128 * 1024).then_some(())
    });
    assert!(
        file.len() > 500_000,
        "the file is not cut, so that its writer is not disturbed"
    );
    let shown = world.ctl(&["logs", &id]).ok().stdout;
    assert!(!shown.contains('\0') && shown.ends_with("\nend\n"));
    world.ctl(&["cancel", &id]).ok();
    world.end();
}

#[test]
fn run_wait_and_pipe_give_the_workers_own_status_and_output() {
    let world = World::new();
    for (script, code) in [("exit 0", 0), ("exit 42", 42), ("kill -TERM $$", 128 + 15)] {
        for how in ["--wait", "--pipe"] {
            let said = world.ctl(&["run", how, "--", "sh", "-c", script]);
            assert_eq!(said.code, code, "{how} {script}: {said:?}");
        }
        let id = world.run(&[], &["sh", "-c", script]);
        assert_eq!(world.ctl(&["wait", &id]).code, code, "wait {script}");
    }
    let said = world.ctl(&["run", "--pipe", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(said.stdout, "out\n");
    assert!(said.stderr.contains("err\n"), "{said:?}");
    world.end();
}
