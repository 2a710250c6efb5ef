//! A guardian and a daemon of its own, as processes.
#![allow(unsafe_code)]

use std::path::Path;
use std::process::Command;

use super::*;
use crate::sys::process::Liveness;
use crate::sys::testing::{in_own_process, until};

/// A guardian; its daemon goes with it when a test fails.
struct Guarded(ProcessRef);

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.0.has_exited() {
            return;
        }
        let own = self.0.id().pid.get();
        for stat in process::scan().unwrap_or_default() {
            if stat.ppid == own
                && let Ok(daemon) = ProcessRef::of_pid(stat.pid)
            {
                let _ = daemon.signal(libc::SIGKILL);
            }
        }
    }
}

impl std::ops::Deref for Guarded {
    type Target = ProcessRef;

    fn deref(&self) -> &ProcessRef {
        &self.0
    }
}

/// Forks, so that the guardian has one thread; returns it to be waited for.
fn guarded(daemon: impl FnOnce(DaemonSide) -> ExitCode) -> Guarded {
    // SAFETY: glibc keeps its allocator usable in the child of a fork.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = match run(daemon) {
            Ok(code) if code == ExitCode::SUCCESS => 0,
            Ok(code) if code == ExitCode::from(137) => 137,
            Ok(_) => 100,
            Err(_) => 101,
        };
        // SAFETY: ends this process without the test's own exit handlers.
        unsafe { libc::_exit(code) };
    }
    Guarded(ProcessRef::of_pid(Pid::new(pid.into()).unwrap()).unwrap())
}

fn finish(guardian: &ProcessRef) -> Exit {
    assert!(exits_within(guardian.as_fd(), Duration::from_secs(30)));
    wait::reap(guardian.as_fd()).unwrap().unwrap()
}

/// A shell that leaves processes behind which write their pids into `dir`.
fn leave_behind(dir: &Path) {
    let script = "trap '' TERM HUP
        setsid sh -c 'echo $$ > a; trap \"\" TERM; sleep inf & echo $! > b; wait' &
        (setsid sleep inf & echo $! > c) &
        echo $$ > d; kill -STOP $$";
    let _ = Command::new("sh")
        .arg("-c")
        .arg(script)
        .current_dir(dir)
        .spawn();
}

fn pids(dir: &Path) -> Vec<ProcessRef> {
    let read = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        Pid::new(text.trim().parse().ok()?).ok()
    };
    let found = ["a", "b", "c", "d"].into_iter().filter_map(read);
    found
        .filter_map(|pid| ProcessRef::of_pid(pid).ok())
        .collect()
}

const KILLED: &str = "sys::guardian::tests::what_a_killed_daemon_started_is_ended";

#[test]
fn what_a_killed_daemon_started_is_ended() {
    if !in_own_process(KILLED) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let guardian = guarded(|_| {
        leave_behind(dir.path());
        std::fs::write(dir.path().join("daemon"), std::process::id().to_string()).unwrap();
        loop {
            std::thread::park();
        }
    });
    until("all run", || pids(dir.path()).len() == 4);
    let left = pids(dir.path());
    let mut daemon = String::new();
    until("the daemon runs", || {
        daemon = std::fs::read_to_string(dir.path().join("daemon")).unwrap_or_default();
        !daemon.is_empty()
    });
    // These do not end the guardian, nor does its daemon hear of them.
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGPIPE,
    ] {
        guardian.signal(signal).unwrap();
    }
    assert!(!guardian.has_exited());
    let daemon = ProcessRef::of_pid(Pid::new(daemon.parse().unwrap()).unwrap()).unwrap();
    daemon.signal(libc::SIGKILL).unwrap();
    assert_eq!(finish(&guardian), Exit::Code(137));
    for process in &left {
        assert!(matches!(process::check(&process.id()), Liveness::Gone(_)));
    }
}

const PASSED: &str = "sys::guardian::tests::a_stop_is_passed_on_and_the_daemons_code_is_given";

#[test]
fn a_stop_is_passed_on_and_the_daemons_code_is_given() {
    if !in_own_process(PASSED) {
        return;
    }
    let guardian = guarded(|_| match signals::wait_for(&[libc::SIGTERM]) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    });
    // Nothing of the caller is kept: three times /dev/null and the pidfd.
    let fds = format!("/proc/{}/fd", guardian.id().pid);
    let count = || std::fs::read_dir(&fds).map_or(0, Iterator::count);
    until("descriptors are closed", || count() == 4);
    guardian.signal(libc::SIGTERM).unwrap();
    assert_eq!(finish(&guardian), Exit::Code(0));
}

const GROUP: &str = "sys::guardian::tests::the_cgroup_it_was_told_of_is_emptied_and_removed";

#[test]
fn the_cgroup_it_was_told_of_is_emptied_and_removed() {
    let Some(place) = cgroup::test_place() else {
        return;
    };
    if !in_own_process(GROUP) {
        return;
    }
    let run_name = format!("test-guard-{}", std::process::id());
    let guardian = guarded(|side| {
        let choice = cgroup::Choice::Path(place.clone());
        let mut tree = cgroup::Tree::find(&choice, &run_name).unwrap();
        side.tell_tree(tree.root()).unwrap();
        tree.enter().unwrap();
        let leaf = tree.leaf("w-1").unwrap();
        let script = format!(
            "echo $$ > {}/cgroup.procs; setsid sleep inf &",
            leaf.path().display()
        );
        let _ = Command::new("sh").arg("-c").arg(script).status();
        assert!(leaf.populated().unwrap());
        // SAFETY: no pointers; ends this process as a crash would.
        unsafe { libc::abort() }
    });
    assert_eq!(finish(&guardian), Exit::Code(100));
    assert_eq!(
        cgroup::leftovers_of_old_runs(&place, &run_name),
        Vec::<PathBuf>::new()
    );
}

#[test]
fn a_path_that_was_told_is_the_one_that_is_read() {
    let side = DaemonSide::new().unwrap();
    assert_eq!(side.tree(), None);
    side.tell_tree(Path::new("/sys/fs/cgroup/a-long-name"))
        .unwrap();
    side.tell_tree(Path::new("/sys/fs/cgroup/b")).unwrap();
    assert_eq!(side.tree().as_deref(), Some(Path::new("/sys/fs/cgroup/b")));
    assert!(
        side.tell_tree(Path::new(&"x".repeat(PATH_MAX + 1)))
            .is_err()
    );
    assert_eq!(side.tree().as_deref(), Some(Path::new("/sys/fs/cgroup/b")));
}
