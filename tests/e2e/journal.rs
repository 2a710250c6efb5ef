//! Workers' output in the journal: a socket of this test's own stands in for journald's, a
//! script for journalctl.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::support::{World, text, wait_for, wait_until};

const CONFIG: &str = "[workers]\noutput = \"journal\"\n";

/// What each stream said, line by line.
type Streams = Arc<Mutex<Vec<Vec<String>>>>;

struct Journald {
    path: PathBuf,
    streams: Streams,
}

impl Journald {
    /// With `refuse` it closes every stream at once, as past its limit.
    fn start(world: &World, refuse: bool) -> Self {
        let path = world.path().join("j");
        let listener = UnixListener::bind(&path).unwrap();
        let streams = Streams::default();
        let all = streams.clone();
        // Ends with the test's process; it holds nothing but its own socket.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if refuse {
                    continue;
                }
                let place = all.lock().unwrap().len();
                all.lock().unwrap().push(Vec::new());
                let (all, stream) = (all.clone(), stream.unwrap());
                std::thread::spawn(move || {
                    for line in BufReader::new(stream).lines() {
                        all.lock().unwrap()[place].push(line.unwrap());
                    }
                });
            }
        });
        Self { path, streams }
    }

    /// Starts a worker with a daemon that knows this journald.
    fn run(&self, world: &World, options: &[&str], argv: &[&str]) -> String {
        let mut command = world.command(&["run", "--quiet"]);
        command.args(options).arg("--").args(argv);
        command.env("MUSTERD_JOURNAL_SOCKET", &self.path);
        let said = crate::support::hear(command).ok();
        said.stdout.trim().to_owned()
    }
}

fn row_of(world: &World, id: &str) -> Value {
    world.ctl(&["wait", id]);
    world.show(id)
}

#[test]
fn both_outputs_go_to_one_stream_under_the_workers_identifier() {
    let world = World::with(crate::support::Containment::Auto, CONFIG);
    let journald = Journald::start(&world, false);
    let id = journald.run(&world, &[], &["sh", "-c", "echo out; echo '<3>err' >&2"]);
    let row = row_of(&world, &id);
    assert_eq!(
        (&row["journal"], &row["output"]),
        (&Value::Bool(true), &Value::Null)
    );
    wait_until("the journal has both lines", || {
        journald
            .streams
            .lock()
            .unwrap()
            .first()
            .is_some_and(|lines| lines.len() == 9)
    });
    let streams = journald.streams.lock().unwrap().clone();
    let identifier = format!("muster-{id}");
    let header = [
        identifier.as_str(),
        "",
        "6",
        "1",
        "0",
        "0",
        "0",
        "out",
        "<3>err",
    ];
    assert_eq!(streams, [header]);
    let said = world.ctl(&["status", &id]);
    assert!(
        said.stdout.contains(&format!("journalctl -t muster-{id}")),
        "{said:?}"
    );
    world.end();
}

#[test]
fn past_the_limits_of_the_journal_output_goes_to_a_file() {
    let full = World::with(
        crate::support::Containment::Auto,
        &format!("{CONFIG}journal_streams = 1\n"),
    );
    let refusing = World::with(crate::support::Containment::Auto, CONFIG);
    for (world, refuse) in [(full, false), (refusing, true)] {
        let journald = Journald::start(&world, refuse);
        let first = journald.run(&world, &[], &["sleep", "1000"]);
        assert_eq!(world.show(&first)["journal"], !refuse);
        let second = journald.run(&world, &[], &["sh", "-c", "echo in a file"]);
        let row = row_of(&world, &second);
        assert_eq!(row["journal"], Value::Bool(false));
        assert!(text(&row["output"]).ends_with(&format!("{second}.log")));
        assert_eq!(world.ctl(&["logs", &second]).ok().stdout, "in a file\n");
        world.ctl(&["cancel", &first]).ok();
        if !refuse {
            // The stream of an ended worker makes room for another's.
            let third = journald.run(&world, &[], &["true"]);
            assert_eq!(row_of(&world, &third)["journal"], true);
        }
        world.end();
    }
}

#[test]
fn what_is_passed_by_the_caller_goes_to_neither() {
    let world = World::with(crate::support::Containment::Auto, CONFIG);
    let journald = Journald::start(&world, false);
    let mut command = world.command(&["run", "--pipe", "--", "echo", "mine"]);
    command.env("MUSTERD_JOURNAL_SOCKET", &journald.path);
    assert_eq!(crate::support::hear(command).ok().stdout, "mine\n");
    assert!(journald.streams.lock().unwrap().is_empty());
    world.end();
}

#[test]
fn logs_ask_journalctl_by_identifier_and_uid() {
    let world = World::with(crate::support::Containment::Auto, CONFIG);
    let journald = Journald::start(&world, false);
    let bin = world.path().join("fake");
    std::fs::create_dir(&bin).unwrap();
    let script =
        "#!/bin/sh\nprintf '%s\\n' \"$*\"\ncase \"$*\" in *--follow*) exec sleep 1000;; esac\n";
    let program = bin.join("journalctl");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let id = journald.run(&world, &[], &["true"]);
    row_of(&world, &id);
    let ask = |args: &[&str]| {
        let mut command = world.command(args);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", bin.display()));
        crate::support::hear(command).ok().stdout
    };
    let uid = rustix::process::getuid().as_raw();
    let end = format!("--identifier=muster-{id} _UID={uid}\n");
    let begin = "--quiet --no-pager --output=cat";
    assert_eq!(ask(&["logs", &id]), format!("{begin} {end}"));
    assert_eq!(
        ask(&["logs", "-n", "7", &id]),
        format!("{begin} --lines=7 {end}")
    );
    // It follows for ever; the worker has ended.
    let followed = ask(&["logs", "-f", &id]);
    assert_eq!(followed, format!("{begin} --lines=all --follow {end}"));
    let left = wait_for("journalctl is gone", || {
        let mut all = world.processes();
        all.retain(|p| p.comm == "sleep" || p.comm == "journalctl");
        all.is_empty().then_some(all)
    });
    drop(left);
    world.end();
}
