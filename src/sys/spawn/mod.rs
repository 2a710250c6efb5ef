//! Starting processes. The event loop holds a [`Forker`] and awaits [`Forker::start`]; the main
//! thread runs [`main_thread`] and does nothing but fork, since the parent-death signal belongs
//! to the thread that forked (prctl(2)) and a child that hangs before exec must block no loop.
//!
//! `forker.rs` has the two ends, `attempt.rs` one start, `prepare.rs` what the child is given,
//! `child.rs` the code between clone and exec, `clone.rs` the system call itself.

mod attempt;
mod child;
mod clone;
mod forker;
mod prepare;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_owner;

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

#[cfg(test)]
pub(super) use clone::forget_clone3;
pub use forker::{Forker, Jobs, forker, main_thread};
pub use prepare::search;

use super::process::ProcessRef;
use crate::worker::Pid;

/// What to execute and in which state. Everything not mentioned is reset: signal mask and
/// dispositions, descriptors, process group.
#[derive(Debug, Default)]
pub struct Image {
    /// Arguments, the first being the program's own name. At least one.
    pub argv: Vec<CString>,
    /// The whole environment, `NAME=value` each.
    pub env: Vec<CString>,
    /// Paths to try in turn, as execvp(3) does; see [`search`]. At least one. Relative ones are
    /// taken from `cwd`, with the rights of `ids`.
    pub candidates: Vec<CString>,
    /// Working directory, entered with the rights of `ids`. `None`: the daemon's own.
    pub cwd: Option<CString>,
    /// Descriptors and the numbers they get. 0, 1 and 2 are `/dev/null` unless given; no other
    /// is open in the child.
    pub fds: Vec<(OwnedFd, i32)>,
    /// User, group and supplementary groups to take. `None`, or an unprivileged daemon's own:
    /// stays as the daemon is.
    pub ids: Option<Ids>,
    /// Also take every capability out of the bounding set, so that no file capability or setuid
    /// root program gives one back. Needs `CAP_SETPCAP`; only looked at with `ids`.
    pub drop_bounding: bool,
    /// The cgroup directory to be born in.
    pub leaf: Option<PathBuf>,
    /// File mode creation mask. `None`: the daemon's own.
    pub umask: Option<u32>,
    /// Resource limits to set.
    pub rlimits: Vec<Rlimit>,
    /// `/proc/PID/oom_score_adj`, -1000 to 1000. Best effort: lowering it needs
    /// `CAP_SYS_RESOURCE`.
    pub oom_score_adj: Option<i32>,
    /// Nice value.
    pub nice: Option<i32>,
    /// setsid(2) instead of a process group of its own; descriptor 0 becomes the controlling
    /// terminal if it is one.
    pub new_session: bool,
    /// SIGKILL when the daemon's main thread ends. Cleared by the kernel when a setuid program
    /// is executed.
    pub pdeathsig: bool,
    /// Stops itself instead of going on to exec, for tests of the time limit.
    #[cfg(test)]
    pub halt_before_exec: bool,
}

/// User and groups of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// Real, effective and saved user.
    pub uid: u32,
    /// Real, effective and saved group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// One resource limit (setrlimit(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rlimit {
    /// `RLIMIT_*`.
    pub resource: u32,
    /// Soft limit; `u64::MAX` is none.
    pub soft: u64,
    /// Hard limit; `u64::MAX` is none.
    pub hard: u64,
}

/// A process that executes its image. Its name, environment and closed descriptors show in
/// `/proc` an instant later. It stays a zombie until [`super::wait::reap`] takes it.
#[derive(Debug)]
pub struct Started {
    /// Identity and pidfd.
    pub process: ProcessRef,
    /// Its process group, which is its own.
    pub pgid: Pid,
}

/// Why nothing was started. No process is left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnError {
    /// Which step failed.
    pub stage: Stage,
    /// What the kernel said; 0 if it said nothing.
    pub errno: i32,
    /// The path it was about, else empty.
    pub path: String,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.stage.words())?;
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        if self.errno != 0 {
            write!(f, ": {}", io::Error::from_raw_os_error(self.errno))?;
        }
        Ok(())
    }
}

impl std::error::Error for SpawnError {}

impl SpawnError {
    fn new(stage: Stage, error: &io::Error, path: impl Into<String>) -> Self {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        Self {
            stage,
            errno,
            path: path.into(),
        }
    }
}

macro_rules! stages {
    ($($(#[$doc:meta])* $name:ident = $words:literal,)*) => {
        /// The steps of a start, in their order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Stage {
            $($(#[$doc])* $name,)*
        }

        impl Stage {
            /// The failure in words, without path and cause.
            pub fn words(self) -> &'static str {
                match self { $(Self::$name => $words,)* }
            }

            fn from_u8(number: u8) -> Self {
                match number {
                    $(n if n == Self::$name as u8 => Self::$name,)*
                    _ => Self::Prepare,
                }
            }
        }
    };
}

stages! {
    /// Before the clone: the image is not one, or a descriptor could not be placed.
    Prepare = "cannot prepare the process",
    /// The leaf's directory could not be opened.
    OpenLeaf = "cannot open the cgroup",
    /// clone3(2) or clone(2).
    Clone = "cannot create a process",
    /// close_range(2) with `CLOSE_RANGE_UNSHARE`.
    CloseFds = "cannot close the daemon's descriptors",
    /// dup3(2) onto the wanted numbers.
    PassFds = "cannot pass descriptors",
    /// Writing to `cgroup.procs`.
    JoinLeaf = "cannot join the cgroup",
    /// setpgid(2) or setsid(2), verified.
    Group = "cannot make a process group",
    /// `TIOCSCTTY`.
    Terminal = "cannot take the controlling terminal",
    /// rt_sigaction(2).
    Signals = "cannot reset the signal dispositions",
    /// prlimit(2).
    Rlimit = "cannot set a resource limit",
    /// setpriority(2).
    Nice = "cannot set the nice value",
    /// setgroups(2).
    Groups = "cannot take the supplementary groups",
    /// setresgid(2).
    Gid = "cannot take the group",
    /// setresuid(2).
    Uid = "cannot take the user",
    /// capset(2) and prctl(2).
    Capabilities = "cannot drop capabilities",
    /// `PR_SET_PDEATHSIG`.
    DeathSignal = "cannot arm the parent-death signal",
    /// The daemon died meanwhile.
    ParentGone = "the daemon is gone",
    /// chdir(2).
    Chdir = "cannot enter the working directory",
    /// rt_sigprocmask(2).
    Unblock = "cannot unblock signals",
    /// execve(2).
    Exec = "cannot execute",
    /// Its identity could not be read; it was killed.
    Identify = "cannot read the identity of the new process",
    /// Something outside killed it before it executed anything.
    Killed = "killed before it executed anything:",
    /// It hung before exec, for instance on a dead mount, and was killed.
    TimedOut = "did not get to executing within the time limit and was killed:",
    /// An earlier start hangs and cannot be killed.
    Busy = "an earlier start hangs",
    /// The main thread takes no more jobs.
    Stopped = "no process is started any more",
}
