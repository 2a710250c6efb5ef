//! What a test needs beyond the programs themselves. What is missing is said aloud, past the
//! test harness's capture, and fails the run in CI: a test that silently did not run is a hole.

use std::io::Write;
use std::path::Path;

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Says that a test is for another user than this one, whose pass runs it.
pub fn not_mine(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "{test}: not run, because {why}");
}

/// Says that a test did not run. Returns, so that the test can; panics where `CI=true`.
pub fn not_run(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "{test}: not run, because {why}");
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{test} did not run, because {why}"
    );
}

pub fn has_program(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

/// Where cgroup2 is mounted, if this process may make a directory there.
pub fn writable_cgroup2() -> Option<std::path::PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts
        .lines()
        .find(|line| line.contains(" - cgroup2 "))?
        .split(' ')
        .nth(4)?
        .to_owned();
    let path = Path::new(&mount);
    nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).ok()?;
    Some(path.to_owned())
}

/// strace needs root here: a daemon that may take other people's ids lets nobody trace it.
pub fn traceable(test: &str) -> bool {
    if !is_root() {
        not_mine(test, "only root may trace the daemon");
        return false;
    }
    let there = has_program("strace");
    if !there {
        not_run(test, "strace is not installed");
    }
    there
}
