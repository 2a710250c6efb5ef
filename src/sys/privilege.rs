//! What the process may and how much: subreaper, descriptor limit.

use std::io;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, set_child_subreaper, setrlimit};

use super::spawn;

/// Descriptors wanted by the daemon: a pidfd, an events file and channels for each worker.
const NOFILE_WANTED: u64 = 524_288;

/// Orphaned descendants come to this process instead of to init (`PR_SET_CHILD_SUBREAPER`).
/// Not inherited by fork, kept over exec.
pub fn become_subreaper() -> io::Result<()> {
    // Any pid means "on".
    Ok(set_child_subreaper(Some(Pid::INIT))?)
}

/// Raises our own descriptor limit as far as it goes and returns the old one, which workers get
/// back: select(2) in old programs breaks above 1024.
pub fn raise_nofile() -> spawn::Rlimit {
    let old = getrlimit(Resource::Nofile);
    let hard = old.maximum.unwrap_or(u64::MAX);
    let wanted = hard.max(NOFILE_WANTED);
    let raised = |limit| Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    // Above the hard limit needs CAP_SYS_RESOURCE; up to it nothing.
    if setrlimit(Resource::Nofile, raised(wanted)).is_err()
        && let Err(error) = setrlimit(Resource::Nofile, raised(hard))
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    spawn::Rlimit {
        resource: libc::RLIMIT_NOFILE,
        soft: old.current.unwrap_or(u64::MAX),
        hard,
    }
}
