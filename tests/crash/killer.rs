//! strace as the killer: SIGKILL on entry to the nth call of a kind, so that the call itself is
//! not made any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::common::program;
use crate::support::{Reaped, World, hear, proc, wait_for, wait_until};

/// By which a file gets its text, its name and its place on the disk.
const CALLS: &str = "openat,write,fadvise64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,unlinkat,utimensat,mkdirat";

/// Before the nth call of this name in one thread, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    call: String,
    nth: usize,
}

impl Point {
    /// Nobody is killed.
    pub fn none() -> Point {
        Point {
            call: "no call".to_owned(),
            nth: 0,
        }
    }

    /// Somebody is.
    pub fn kills(&self) -> bool {
        self.nth > 0
    }

    fn inject(&self) -> String {
        format!("inject={}:signal=SIGKILL:when={}", self.call, self.nth)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "killed before {} number {}", self.call, self.nth)
    }
}

/// Every call in a log of `strace -f` that changes something, by its number in its thread. What
/// several threads do with the same number is one point.
pub fn points(log: &str) -> Vec<Point> {
    let mut numbers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut found: BTreeSet<(&str, usize)> = BTreeSet::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let Some((call, args)) = rest.trim_start().split_once('(') else {
            continue;
        };
        if !CALLS.split(',').any(|one| one == call) {
            continue;
        }
        let nth = numbers.entry((thread, call)).or_default();
        *nth += 1;
        if call != "openat" || args.contains("O_CREAT") {
            found.insert((call, *nth));
        }
    }
    let point = |(call, nth): (&str, usize)| Point {
        call: call.to_owned(),
        nth,
    };
    found.into_iter().map(point).collect()
}

/// strace on the thread of the running daemon that writes.
pub struct Killer {
    strace: Reaped,
    log: PathBuf,
}

impl Killer {
    /// Looks on.
    pub fn watch(world: &World) -> Killer {
        Killer::attach(world, None)
    }

    /// Kills the daemon before this call.
    pub fn before(world: &World, point: &Point) -> Killer {
        Killer::attach(world, Some(point))
    }

    fn attach(world: &World, point: Option<&Point>) -> Killer {
        let daemon = wait_for("a daemon serves", || world.daemon_pid());
        let thread = wait_for("it has a thread that writes", || {
            let tasks = fs::read_dir(format!("/proc/{daemon}/task")).ok()?;
            tasks.flatten().find_map(|task| {
                let comm = fs::read_to_string(task.path().join("comm")).ok()?;
                (comm.trim_end() == "store").then(|| task.file_name().into_string().ok())?
            })
        });
        let log = world.path().join("strace.log");
        let mut command = Command::new("strace");
        command.args(["-q", "-f", "-o"]).arg(&log);
        command.args(["-e", &format!("trace={CALLS}")]);
        if let Some(point) = point {
            command.args(["-e", &point.inject()]);
        }
        command.args(["-p", &thread]).stderr(Stdio::null());
        let strace = Reaped(command.spawn().unwrap());
        let tracer = format!("TracerPid:\t{}\n", strace.0.id());
        let status = format!("/proc/{daemon}/task/{thread}/status");
        wait_until("the thread is traced", || {
            fs::read_to_string(&status).is_ok_and(|text| text.contains(&tracer))
        });
        Killer { strace, log }
    }

    /// What was seen.
    pub fn over(mut self) -> String {
        let pid = i32::try_from(self.strace.0.id()).unwrap();
        proc::signal(pid, Signal::SIGINT);
        wait_for("strace ends", || self.strace.0.try_wait().unwrap());
        fs::read_to_string(&self.log).unwrap()
    }

    /// A start of a daemon with all of its threads traced. Answers where the log is.
    pub fn start(world: &World, point: Option<&Point>) -> PathBuf {
        let log = world.path().join("strace.log");
        let inject = point.map_or(String::new(), |point| format!("-e {}", point.inject()));
        let script = format!(
            "#!/bin/sh\nexec strace -f -q -o '{}' -e trace={CALLS} {inject} -- '{}' \"$@\"\n",
            log.display(),
            program("musterd").display()
        );
        let wrapper = world.path().join("traced");
        fs::write(&wrapper, script).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        let mut list = world.command(&["list"]);
        list.env("MUSTERD_BIN", &wrapper);
        // That there is none to answer is what the point is there for.
        hear(list);
        log
    }
}
