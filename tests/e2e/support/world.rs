//! A world for one test: directories of its own, a private daemon that `musterctl` starts when
//! it is first needed, and the means to look at both from outside. When it goes, nothing of it
//! is left, also when the test failed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::proc::Process;
use super::{Said, hear, means, proc, text, wait_for, wait_until};
use crate::common::program;

/// How the daemon contains its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containment {
    /// Leaves where it can write a cgroup2.
    Auto,
    /// Without, though there may be one.
    None,
}

pub struct World {
    root: TempDir,
    ended: bool,
}

impl World {
    pub fn new() -> World {
        World::with(Containment::Auto, "")
    }

    /// The world in leaves, where this machine has them for us; `None` has been said aloud.
    pub fn in_leaves(test: &str, config: &str) -> Option<World> {
        if means::writable_cgroup2().is_some() {
            return Some(World::with(Containment::Auto, config));
        }
        if means::is_root() {
            means::not_run(test, "no cgroup2 can be written here");
        } else {
            means::not_mine(test, "this user can write no cgroup2");
        }
        None
    }

    pub fn without_cgroup(config: &str) -> World {
        World::with(Containment::None, config)
    }

    /// `config` is TOML and goes before the `[containment]` section.
    pub fn with(containment: Containment, config: &str) -> World {
        // Socket paths have 108 bytes, so the name is short.
        let root = tempfile::Builder::new().prefix("m").tempdir().unwrap();
        let world = World { root, ended: false };
        for dir in [world.home(), world.bin()] {
            fs::create_dir_all(&dir).unwrap();
        }
        let cgroup = match containment {
            Containment::Auto => "auto",
            Containment::None => "none",
        };
        world.write_config(&format!("{config}\n[containment]\ncgroup = \"{cgroup}\"\n"));
        world
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// What every process of this world carries in its arguments or its environment.
    pub fn mark(&self) -> &str {
        self.path().to_str().unwrap()
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("s")
    }

    pub fn runtime(&self) -> PathBuf {
        self.path().join("r")
    }

    pub fn home(&self) -> PathBuf {
        self.path().join("h")
    }

    fn bin(&self) -> PathBuf {
        self.path().join("b")
    }

    pub fn row_file(&self, id: &str) -> PathBuf {
        self.state().join("rows").join(format!("{id}.toml"))
    }

    pub fn config_root(&self) -> PathBuf {
        self.path().join("c")
    }

    /// As the configuration of a user's daemon.
    pub fn write_config(&self, text: &str) {
        let dir = self.config_root().join("musterd");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("musterd.toml"), text).unwrap();
    }

    /// The waiting fixture under a name of its own, as a path.
    pub fn helper(&self, name: &str) -> String {
        let link = self.bin().join(name);
        if !link.exists() {
            let real = program("forktree");
            assert!(
                real.exists(),
                "{} is missing: cargo build --examples",
                real.display()
            );
            std::os::unix::fs::symlink(real, &link).unwrap();
        }
        link.to_str().unwrap().to_owned()
    }

    fn environment(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("LC_ALL", "C.UTF-8")
            .env("E2E_WORLD", self.path())
            .env("MUSTERD_STATE_DIR", self.state())
            .env("MUSTERD_RUNTIME_DIR", self.runtime())
            .env("MUSTERD_CONFIG_ROOT", self.config_root())
            .env("MUSTERD_BIN", program("musterd"));
    }

    /// `musterctl`, not started yet.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(program("musterctl"));
        self.environment(&mut command);
        command.args(args).current_dir(self.home());
        command
    }

    /// `musterd`, not started yet.
    pub fn daemon_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program("musterd"));
        self.environment(&mut command);
        command.args(args).current_dir(self.home());
        command
    }

    /// Runs `musterctl` and hears it out.
    pub fn ctl<S: AsRef<OsStr>>(&self, args: &[S]) -> Said {
        hear(self.command(args))
    }

    /// A verb's JSON, which must have worked.
    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Value {
        let mut all: Vec<OsString> = args.iter().map(|a| a.as_ref().to_owned()).collect();
        all.push("--json=short".into());
        self.ctl(&all).ok().json()
    }

    /// Starts a worker and returns its id. `options` come before the program.
    #[track_caller]
    pub fn run(&self, options: &[&str], argv: &[&str]) -> String {
        let mut args = vec!["run", "--quiet"];
        args.extend(options);
        args.push("--");
        args.extend(argv);
        let said = self.ctl(&args).ok();
        let id = said.stdout.trim().to_owned();
        assert_eq!(id.len(), 8, "{said:?}");
        id
    }

    /// Starts a worker, waits for its end and returns its id.
    #[track_caller]
    pub fn run_to_end(&self, options: &[&str], argv: &[&str]) -> String {
        let id = self.run(options, argv);
        self.ctl(&["wait", &id]);
        id
    }

    #[track_caller]
    pub fn show(&self, worker: &str) -> Value {
        match self.json(&["show", worker]) {
            Value::Array(mut all) if all.len() == 1 => all.remove(0),
            one => one,
        }
    }

    pub fn status_of(&self, worker: &str) -> String {
        text(&self.show(worker)["status"])
    }

    /// Waits until a row is terminal and returns it.
    #[track_caller]
    pub fn ended(&self, worker: &str) -> Value {
        wait_for(&format!("{worker} ends"), || {
            let row = self.show(worker);
            (text(&row["status"]) == "exited").then_some(row)
        })
    }

    /// The service's own view.
    #[track_caller]
    pub fn service(&self) -> Value {
        let all = self.json(&["show"]);
        match all.get("service") {
            Some(service) => service.clone(),
            None => all,
        }
    }

    /// All rows.
    #[track_caller]
    pub fn rows(&self) -> Vec<Value> {
        let list = self.json(&["list", "-a"]);
        list.as_array().cloned().unwrap_or_else(|| panic!("{list}"))
    }

    /// Who holds the lock of the state directory.
    pub fn daemon_pid(&self) -> Option<i32> {
        let text = fs::read_to_string(self.state().join("lock")).ok()?;
        let pid = text.split_whitespace().next()?.parse().ok()?;
        let daemon = Process::read(pid)?;
        (daemon.comm == "musterd" && daemon.carries(self.mark())).then_some(pid)
    }

    /// Living processes of this world.
    pub fn processes(&self) -> Vec<Process> {
        let me = i32::try_from(std::process::id()).unwrap();
        let mut all = proc::all();
        all.retain(|p| p.pid != me && p.carries(self.mark()));
        all
    }

    /// The daemon, its guardian and its probes.
    pub fn daemons(&self) -> Vec<Process> {
        let mut all = self.processes();
        all.retain(|p| p.comm.starts_with("musterd"));
        all
    }

    /// Everything but the daemon's processes and clients: workers and what they started.
    pub fn worker_processes(&self) -> Vec<Process> {
        let mut all = self.processes();
        all.retain(|p| !p.comm.starts_with("muster") && p.comm != "strace");
        all
    }

    #[track_caller]
    pub fn assert_no_worker_process(&self) {
        let left = self.worker_processes();
        assert!(left.is_empty(), "left: {left:#?}");
    }

    /// Ends the daemon in order, and waits for it.
    pub fn stop_daemon(&self) {
        if let Some(pid) = self.daemon_pid() {
            proc::signal(pid, Signal::SIGTERM);
        }
        wait_until("the daemon and its guardian end", || {
            self.daemons().is_empty()
        });
    }

    /// SIGKILL for the daemon alone.
    pub fn kill_daemon(&self) -> i32 {
        let pid = wait_for("a daemon holds the lock", || self.daemon_pid());
        proc::signal(pid, Signal::SIGKILL);
        wait_until("the killed daemon is gone", || !proc::is_alive(pid));
        pid
    }

    /// SIGKILL for the daemon and its guardian, the guardian first.
    pub fn kill_daemon_and_guardian(&self) {
        let daemon = wait_for("a daemon holds the lock", || self.daemon_pid());
        let mut all = self.daemons();
        all.sort_by_key(|p| p.pid == daemon);
        for process in &all {
            proc::signal(process.pid, Signal::SIGKILL);
        }
        wait_until("they are gone", || self.daemons().is_empty());
    }

    /// The end of a test that went well: the daemon goes in order, and nothing is left.
    pub fn end(mut self) {
        self.stop_daemon();
        let left = self.processes();
        assert!(left.is_empty(), "left behind: {left:#?}");
        self.ended = true;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !self.ended {
            if std::thread::panicking() {
                self.last_words();
            }
            if let Some(pid) = self.daemon_pid() {
                proc::signal(pid, Signal::SIGTERM);
            }
            let begun = Instant::now();
            while !self.processes().is_empty() {
                if begun.elapsed() > Duration::from_secs(8) {
                    for process in self.processes() {
                        proc::signal(process.pid, Signal::SIGKILL);
                    }
                }
                if begun.elapsed() > Duration::from_secs(12) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

impl World {
    /// For the reader of a failed test.
    fn last_words(&self) {
        eprintln!("processes of this world:");
        for p in self.processes() {
            eprintln!("  {} {} {} {}", p.pid, p.ppid, p.state, p.cmdline);
        }
        for name in ["log", "daemon.log"] {
            for dir in [self.state(), self.runtime()] {
                if let Ok(log) = fs::read_to_string(dir.join(name)) {
                    let from = log.len().saturating_sub(4000);
                    let tail = log.get(from..).unwrap_or(&log);
                    eprintln!("{}/{name}:\n{tail}", dir.display());
                }
            }
        }
    }
}
