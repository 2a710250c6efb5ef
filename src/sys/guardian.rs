//! The guardian of a private daemon: a small process without threads that outlives it by one
//! write. It is the subreaper above the daemon, so that whatever the daemon started comes to it
//! when the daemon is killed outright; it ends all that, removes the cgroups and goes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::process::{self, ProcessRef, exits_within};
use super::{cgroup, cvt, privilege, signals, wait};
use crate::worker::{Exit, Pid};

/// Longest path that can be told, bytes.
const PATH_MAX: usize = 4000;
/// After this the guardian gives up on what does not die (D state).
const LIMIT: Duration = Duration::from_secs(10);
/// How long an emptied cgroup may take to be removable.
const REMOVE_LIMIT: Duration = Duration::from_secs(1);
/// What the guardian looks at; all other signals stay pending for ever.
const HEARD: [i32; 2] = [libc::SIGCHLD, libc::SIGTERM];

/// One page that both processes see. Written by the daemon once, read after its death.
#[repr(C)]
struct Shared {
    length: AtomicU32,
    bytes: [AtomicU8; PATH_MAX],
}

/// What the daemon has of its guardian.
#[derive(Debug)]
pub struct DaemonSide {
    shared: NonNull<Shared>,
}

// SAFETY: the page is never unmapped, and all access to it is by atomics.
unsafe impl Send for DaemonSide {}

impl DaemonSide {
    /// Tells the guardian which cgroup tree to end and remove. The last call counts.
    pub fn tell_tree(&self, root: &Path) -> io::Result<()> {
        let bytes = root.as_os_str().as_bytes();
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        if bytes.len() > PATH_MAX {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let shared = self.shared();
        // 0 while it is half written: a daemon that dies here has no worker yet.
        shared.length.store(0, Ordering::Release);
        for (cell, byte) in shared.bytes.iter().zip(bytes) {
            cell.store(*byte, Ordering::Relaxed);
        }
        shared.length.store(length, Ordering::Release);
        Ok(())
    }

    fn tree(&self) -> Option<PathBuf> {
        let shared = self.shared();
        let length = usize::try_from(shared.length.load(Ordering::Acquire)).ok()?;
        let cells = shared
            .bytes
            .get(..length)
            .filter(|cells| !cells.is_empty())?;
        let bytes = cells
            .iter()
            .map(|cell| cell.load(Ordering::Relaxed))
            .collect();
        Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped in `new` for the rest of both processes' lives; atomics only.
        unsafe { self.shared.as_ref() }
    }

    fn new() -> io::Result<Self> {
        let size = size_of::<Shared>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(page.cast::<Shared>()) {
            // Zeroed pages are a valid Shared.
            Some(shared) => Ok(Self { shared }),
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }
}

/// Splits this process: the caller's process becomes the guardian, in a session of its own, and
/// a child of it runs `daemon`. Call it before any thread exists and before anything is opened,
/// but for descriptors that the daemon is to inherit. In the guardian it returns when the
/// daemon has ended and all that it started is ended too; the exit code is the daemon's
/// (128 + signal). All signals are blocked in both.
pub fn run(daemon: impl FnOnce(DaemonSide) -> ExitCode) -> io::Result<ExitCode> {
    let shared = DaemonSide::new()?;
    signals::block_all()?;
    privilege::become_subreaper()?;
    // Refused to a group leader, as a shell's job is one; then the child leaves alone.
    let led = rustix::process::setsid().is_err();
    // SAFETY: the process has one thread, so the child may do anything.
    let pid = i32::try_from(cvt(unsafe { libc::fork() }.into())?).map_err(io::Error::other)?;
    if pid == 0 {
        if led {
            rustix::process::setsid()?;
        }
        return Ok(daemon(shared));
    }
    let pid = Pid::new(pid.into()).map_err(io::Error::other)?;
    let daemon = ProcessRef::of_pid(pid).map_err(io::Error::other)?;
    shrink(daemon.as_raw_fd())?;
    let exit = watch(&daemon)?;
    clean_up(shared.tree().as_deref());
    Ok(exit_code(exit))
}

/// Keeps nothing of the caller: no descriptor but the daemon's pidfd, no directory.
fn shrink(kept: RawFd) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for standard in 0..=2 {
        // SAFETY: nothing in this process owns a standard descriptor.
        cvt(unsafe { libc::dup2(null.as_raw_fd(), standard) }.into())?;
    }
    drop(null);
    let ranges = [
        (3, kept.saturating_sub(1)),
        (kept.saturating_add(1), i32::MAX),
    ];
    for (first, last) in ranges.into_iter().filter(|(first, last)| first <= last) {
        // SAFETY: this process has one thread, which uses no other descriptor from here on.
        cvt(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
    }
    std::env::set_current_dir("/")?;
    // For people who look at a list of processes.
    let _ = rustix::thread::set_name(c"musterd-guard");
    Ok(())
}

/// Until the daemon has ended. SIGTERM is passed on; the guardian itself stays.
fn watch(daemon: &ProcessRef) -> io::Result<Exit> {
    loop {
        if let Some(exit) = wait::reap(daemon.as_fd())? {
            return Ok(exit);
        }
        match signals::wait_for(&HEARD)? {
            libc::SIGCHLD => {}
            signal => {
                let _ = daemon.signal(signal);
            }
        }
    }
}

/// Ends what is left: the cgroup first, then every orphan that comes to us, until none is left
/// or the time is up.
fn clean_up(tree: Option<&Path>) {
    let workers = tree.map(cgroup::workers_of);
    if let Some(workers) = &workers {
        let _ = cgroup::kill(workers);
    }
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        match process::own_children() {
            Ok(children) if children.is_empty() => {
                let populated = |workers: &PathBuf| {
                    cgroup::Leaf::open(workers.clone()).and_then(|leaf| leaf.populated())
                };
                if !workers
                    .as_ref()
                    .is_some_and(|workers| populated(workers).unwrap_or(false))
                {
                    break;
                }
                // Its members become our children as their parents die.
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(children) => end_orphans(&children, end),
            Err(_) => break,
        }
    }
    let end = end.min(Instant::now() + REMOVE_LIMIT);
    while let Some(tree) = tree
        && Instant::now() < end
        && matches!(cgroup::remove(tree), Ok(cgroup::Removed::Busy))
    {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Signals all, then waits a little for each: what takes its time comes up again.
fn end_orphans(pids: &[Pid], end: Instant) {
    let orphans: Vec<ProcessRef> = pids
        .iter()
        .filter_map(|pid| ProcessRef::of_pid(*pid).ok())
        .collect();
    for orphan in &orphans {
        let _ = orphan.signal(libc::SIGKILL);
    }
    for orphan in &orphans {
        let left = end.saturating_duration_since(Instant::now());
        if exits_within(orphan.as_fd(), left.min(Duration::from_millis(20))) {
            let _ = wait::reap(orphan.as_fd());
        }
    }
}

fn exit_code(exit: Exit) -> ExitCode {
    let code = match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => signal.saturating_add(128),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests;
