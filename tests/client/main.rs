//! The real `musterctl` before a supervisor that answers from a table: what each verb asks,
//! prints and returns, and which sockets it refuses to talk to.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[allow(dead_code, reason = "shared with the tests of the bus")]
#[path = "../dbus/fake.rs"]
mod fake;

#[path = "../common/mod.rs"]
mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use fake::{Fake, Seen};
use musterd::supervisor::handle::{CancelReply, CancelState, Command as Asked, Spawned};
use musterd::supervisor::refused::Refused;
use serde_json::Value;

/// A fake daemon on a socket in a directory of its own, served by a thread.
struct Daemon {
    dir: tempfile::TempDir,
    seen: Arc<Mutex<Seen>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("sock");
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let fake = Fake::start();
                let listener = tokio::net::UnixListener::bind(socket).unwrap();
                tell.send(fake.seen.clone()).unwrap();
                tokio::select! {
                    () = fake.server.clone().serve_socket(listener) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            dir,
            seen: told.recv().unwrap(),
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn refuse(&self, refused: Refused) {
        self.seen.lock().unwrap().refuse = Some(refused);
    }

    /// The next command that is held back.
    fn next(&self) -> Asked {
        until(|| !self.seen.lock().unwrap().kept.is_empty());
        self.seen.lock().unwrap().kept.remove(0)
    }

    /// Runs the client; the socket is the only daemon it can find.
    fn run(&self, words: &[&str]) -> Ran {
        let mut command = ctl(self.dir.path());
        command.env("MUSTER_SOCKET", self.dir.path().join("sock"));
        Ran::of(command.args(words).output().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The client with nothing of the caller's environment that could lead it to a real daemon.
fn ctl(home: &Path) -> Command {
    let mut command = Command::new(common::program("musterctl"));
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env("TZ", "UTC")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

#[test]
fn every_verb_ends_in_its_exit_code() {
    let daemon = Daemon::start();
    for (words, code) in [
        (&["list"][..], 0),
        (&["status"], 0),
        (&["status", "0000000a"], 3),
        (&["status", "missing"], 4),
        (&["status", "0000000a", "missing"], 4),
        (&["show", "0000000a"], 0),
        (&["show", "missing"], 5),
        (&["cancel", "missing"], 5),
        (&["cancel", "--no-block", "0000000a"], 0),
        (&["cancel", "0000000a"], 0),
        (&["kill", "missing"], 5),
        (&["kill", "-s", "INT", "0000000a"], 0),
        (&["freeze", "0000000a"], 0),
        (&["thaw", "0000000a"], 0),
        (&["wait", "0000000a"], 137),
        (&["wait", "missing"], 5),
        (&["wait", "0000000a", "missing"], 137),
        (&["run", "true"], 0),
        (&["run", "--wait", "true"], 137),
        (&["run", "--name=a/b", "true"], 2),
        (&["reap"], 0),
        (&["reap", "--dry-run"], 0),
        (&["hold", "0000000a"], 0),
        (&["release", "0000000a"], 0),
        (&["forget", "0000000a"], 0),
        (&["restore", "0000000a"], 0),
        (&["restore", "missing"], 5),
        (&["logs", "0000000a"], 1),
        (&["logs", "missing"], 5),
        (&["version"], 0),
        (&["--help"], 0),
        (&["nosuch"], 2),
    ] {
        let ran = daemon.run(words);
        assert_eq!(ran.code, code, "{words:?}: {}{}", ran.out, ran.err);
        assert!(!ran.err.contains("panicked"), "{words:?}: {}", ran.err);
    }
}

#[test]
fn each_refusal_ends_in_its_exit_code_with_the_daemons_words() {
    let daemon = Daemon::start();
    let id = fake::id("0000000a");
    for (refused, code, words) in [
        (Refused::Draining, 8, "draining"),
        (Refused::TooMany("5000 workers".into()), 8, "5000 workers"),
        (Refused::DiskFull("no space".into()), 8, "no space"),
        (
            Refused::NameTaken {
                name: "n".into(),
                id,
            },
            8,
            "taken",
        ),
        (Refused::NotAuthorised("root only"), 4, "root only"),
        (
            Refused::Ambiguous {
                worker: "0".into(),
                candidates: vec![id],
            },
            2,
            "0000000a",
        ),
        (
            Refused::StartFailed {
                id,
                errno: 2,
                what: "execute".into(),
                path: "/nosuch".into(),
            },
            1,
            "/nosuch",
        ),
        (Refused::InvalidArgs("bad key".into()), 2, "bad key"),
        (Refused::ShuttingDown, 7, "shutting down"),
    ] {
        daemon.refuse(refused.clone());
        let ran = daemon.run(&["run", "true"]);
        assert_eq!(ran.code, code, "{refused:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{refused:?}: {}", ran.err);
        assert_eq!(ran.out, "", "{refused:?}");
    }
}

#[test]
fn a_reload_is_waited_out() {
    let daemon = Daemon::start();
    daemon.refuse(Refused::Reloading);
    let ran = daemon.run(&["wait", "0000000a"]);
    assert_eq!(ran.code, 137, "{}", ran.err);
}

#[test]
fn a_list_as_json_holds_every_page() {
    let daemon = Daemon::start();
    let rows = daemon.run(&["list", "-a", "--json=short"]).json();
    assert_eq!(rows.as_array().unwrap().len(), 2500);
    let ran = daemon.run(&["ls", "0000000*", "--no-legend"]);
    assert!(ran.out.lines().all(|line| line.contains("0000000")));
    assert!(ran.out.contains("× 00000000"), "{}", ran.out);
}

#[test]
fn a_worker_is_shown_in_words_as_properties_and_as_json() {
    let daemon = Daemon::start();
    let ran = daemon.run(&["status", "0000000a"]);
    for part in [
        "× 0000000a - name-0000000a",
        "killed for lack of memory, SIGKILL",
        "rung kill",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let ran = daemon.run(&["show", "0000000a", "-p", "ExitSignal,status", "--value"]);
    assert_eq!(ran.out, "9\nexited\n");
    let json = daemon.run(&["show", "0000000a", "-j"]).json();
    assert_eq!(json["exit"]["signal"], 9);
    let json = daemon.run(&["show", "--json=pretty"]).json();
    assert_eq!(json["version"], "1.2.3");
}

#[test]
fn run_says_the_id_alone_where_it_is_asked_to_be_quiet() {
    let daemon = Daemon::start();
    assert_eq!(daemon.run(&["run", "-q", "true"]).out, "0000000a\n");
    let ran = daemon.run(&["run", "--json=short", "true"]);
    assert_eq!(ran.json()["id"], "0000000a");
    let ran = daemon.run(&["run", "true"]);
    assert!(
        ran.out.starts_with("Running as worker 0000000a"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("memory-max"), "{}", ran.err);
}

#[test]
fn run_passes_the_callers_environment_and_directory_and_with_pipe_its_output() {
    let daemon = Daemon::start();
    // The stand-in keeps the descriptors it gets, so that a pipe here would never end.
    let status = ctl(daemon.dir.path())
        .env("MUSTER_SOCKET", daemon.dir.path().join("sock"))
        .env("NOTIFY_SOCKET", "/n")
        .env("MINE", "1")
        .args(["run", "--pipe", "--", "sh", "-c", "x"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(137));
    let seen = daemon.seen.lock().unwrap();
    let (spec, stdio) = seen.spec.as_ref().unwrap();
    let env: Vec<String> = spec
        .env
        .0
        .iter()
        .map(|e| e.to_string_lossy().into())
        .collect();
    assert!(env.contains(&"MINE=1".to_owned()), "{env:?}");
    assert!(
        !env.iter()
            .any(|e| e.starts_with("MUSTER_") || e.starts_with("NOTIFY_")),
        "{env:?}"
    );
    assert_eq!(spec.cwd, daemon.dir.path().canonicalize().unwrap());
    assert!(stdio.stdin.is_some() && stdio.stdout.is_some() && stdio.stderr.is_some());
}

#[test]
fn ctrl_c_while_waiting_cancels_the_worker_then_kills_it_then_leaves() {
    let daemon = Daemon::start();
    daemon.seen.lock().unwrap().hold_back = true;
    let mut child = ctl(daemon.dir.path())
        .env("MUSTER_SOCKET", daemon.dir.path().join("sock"))
        .args(["run", "--wait", "sleep", "0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let interrupt = || rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let Asked::Spawn(_, _, _, spawned) = daemon.next() else {
        panic!("a spawn comes first");
    };
    let answer = Spawned {
        id: fake::id("0000000a"),
        unenforced: Vec::new(),
        durable: true,
    };
    spawned.send(Ok(answer)).unwrap();
    let Asked::Wait(_, _, unanswered) = daemon.next() else {
        panic!("a wait comes next");
    };
    for straight_to_the_kill in [false, true] {
        interrupt();
        let Asked::Cancel(_, worker, _, options, cancelled) = daemon.next() else {
            panic!("a cancel comes next");
        };
        assert_eq!(worker, "0000000a");
        assert_eq!(options.now, straight_to_the_kill);
        let answer = CancelReply {
            state: CancelState::Begun,
            durable: true,
            descendants: Vec::new(),
            outcome: None,
        };
        cancelled.send(Ok(answer)).unwrap();
    }
    interrupt();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(unanswered);
}

fn until(mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !done() {
        assert!(
            std::time::Instant::now() < end,
            "the condition never came true"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_socket_that_nobody_serves_is_an_unreachable_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let ran = Ran::of(
        ctl(dir.path())
            .args(["list", "--socket", "/nosuch/sock"])
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 7);
    assert!(ran.err.contains("/nosuch/sock"), "{}", ran.err);
}

#[test]
fn a_runtime_directory_open_to_others_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let daemon = Daemon::start();
    let dir = daemon.dir.path();
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    let ran = Ran::of(
        ctl(dir)
            .env("MUSTERD_RUNTIME_DIR", dir)
            .env("MUSTERD_STATE_DIR", dir)
            .arg("list")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 7);
    assert!(ran.err.contains("open to others"), "{}", ran.err);
}

/// A program that stands in for the daemon.
fn script(dir: &Path, text: &str) -> std::path::PathBuf {
    use std::os::unix::fs::OpenOptionsExt;
    let path = dir.join("musterd");
    let mut file = std::fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o755)
        .open(&path)
        .unwrap();
    writeln!(file, "#!/bin/sh\n{text}").unwrap();
    path
}

#[test]
fn a_private_daemon_that_fails_is_told_with_its_last_words() {
    let dir = tempfile::tempdir().unwrap();
    let program = script(
        dir.path(),
        "echo \"$@\" >&2; echo cannot lock the state >&2; exit 1",
    );
    let ran = Ran::of(
        ctl(dir.path())
            .env("MUSTERD_BIN", program)
            .env("MUSTERD_STATE_DIR", dir.path().join("state"))
            .arg("list")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 7);
    for part in [
        "cannot lock the state",
        "--embedded",
        "--ready-fd",
        "daemon.log",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}

#[test]
fn check_config_needs_no_daemon_and_ends_in_six() {
    let dir = tempfile::tempdir().unwrap();
    let run = |dir: &Path| {
        Ran::of(
            ctl(dir)
                .args(["check-config", "--config-root"])
                .arg(dir)
                .output()
                .unwrap(),
        )
    };
    assert_eq!(run(dir.path()).code, 0);
    std::fs::create_dir_all(dir.path().join("etc/musterd")).unwrap();
    std::fs::write(
        dir.path().join("etc/musterd/musterd.toml"),
        "[gc]\ngrcae = \"1h\"\n[ladder]\ngrace = 7\n",
    )
    .unwrap();
    let ran = run(dir.path());
    assert_eq!(ran.code, 6);
    assert!(
        ran.err.contains("musterd.toml:2") && ran.err.contains("musterd.toml:4"),
        "{}",
        ran.err
    );
}
