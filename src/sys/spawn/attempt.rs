//! One start on the main thread: place the descriptors, clone, judge what the child reported.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::child::{self, Child};
use super::clone::{self, Birth};
use super::forker::{Answer, Jobs, Watch};
use super::prepare::{Prepared, targets};
use super::{Image, SpawnError, Stage, Started};
use crate::sys::process::{ProcessRef, exits_within, identity_of_child, signal_fd};
use crate::sys::wait;
use crate::worker::Pid;

/// First pause after `EAGAIN` from clone; doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(5);
/// Pauses together stay below this.
const RETRY_TOTAL: Duration = Duration::from_millis(200);
/// How long a killed child is waited for; then it is left to whoever looks for strangers.
const BURY_LIMIT: Duration = Duration::from_secs(2);

/// The child's way into its leaf, opened by the parent.
enum Leaf {
    None,
    Directory(OwnedFd),
    Procs,
}

impl Jobs {
    /// Starts one process and answers for it.
    pub(super) fn start(&mut self, image: &Image, watch: &Watch) -> Answer {
        if let Some(leaf) = image.leaf.as_deref()
            && clone::clone3_usable()
        {
            match self.attempt(image, watch, Leaf::Directory(open_leaf(leaf)?)) {
                Err(error) if error.stage == Stage::Clone && is_refusal(&error) => {}
                other => return other,
            }
        }
        let leaf = if image.leaf.is_some() {
            Leaf::Procs
        } else {
            Leaf::None
        };
        self.attempt(image, watch, leaf)
    }

    fn attempt(&mut self, image: &Image, watch: &Watch, leaf: Leaf) -> Answer {
        let join = matches!(leaf, Leaf::Procs);
        let prepared = Prepared::new(image, &self.slots, self.own_oom, join)?;
        let filled = self.fill(image, &prepared);
        let started = filled.and_then(|()| {
            let child = prepared.child(image);
            let dumpable = prepared.changes_ids().then(dumpable);
            let cloned = self.clone_with_retry(&child, &leaf, watch);
            if let Some(before) = dumpable {
                restore_dumpable(before);
            }
            outcome(image, &child, cloned?)
        });
        let used = prepared.moves().iter().map(|(slot, _)| *slot);
        if let Err(error) = self.slots.clear(used.chain([prepared.procs()])) {
            // The daemon would keep ends of a worker's pipes: only while the slot is not reused.
            tracing::warn!(%error, "cannot clear descriptor slots");
        }
        started
    }

    fn fill(&mut self, image: &Image, prepared: &Prepared) -> Result<(), SpawnError> {
        let null = self.slots.null().try_clone();
        let failed = |e: io::Error| SpawnError::new(Stage::Prepare, &e, "(descriptors)");
        let null = null.map_err(failed)?;
        debug_assert_eq!(targets(image).len(), prepared.moves().len());
        for (i, (slot, _)) in prepared.moves().iter().enumerate() {
            let source = image.fds.get(i).map_or(&null, |(source, _)| source);
            self.slots.fill(*slot, source).map_err(failed)?;
        }
        if prepared.procs() >= 0 {
            let path = image
                .leaf
                .as_deref()
                .unwrap_or(Path::new(""))
                .join("cgroup.procs");
            let procs = File::options().write(true).open(&path);
            let failed =
                |e: io::Error| SpawnError::new(Stage::OpenLeaf, &e, path.display().to_string());
            let procs = OwnedFd::from(procs.map_err(failed)?);
            self.slots.fill(prepared.procs(), &procs).map_err(failed)?;
        }
        Ok(())
    }

    fn clone_with_retry(
        &self,
        child: &Child,
        leaf: &Leaf,
        watch: &Watch,
    ) -> Result<Cloned, SpawnError> {
        let mut pause = RETRY_FIRST;
        let mut paused = Duration::ZERO;
        loop {
            match self.clone(child, leaf, watch) {
                Err(e)
                    if e.raw_os_error() == Some(libc::EAGAIN) && paused + pause < RETRY_TOTAL =>
                {
                    std::thread::sleep(pause);
                    paused += pause;
                    pause = pause.saturating_mul(2);
                }
                Err(e) => return Err(SpawnError::new(Stage::Clone, &e, "")),
                Ok(cloned) => return Ok(cloned),
            }
        }
    }

    /// Stands still until the child has executed or ended.
    fn clone(&self, child: &Child, leaf: &Leaf, watch: &Watch) -> io::Result<Cloned> {
        let birth = match leaf {
            Leaf::Directory(directory) => Birth::Into(directory.as_raw_fd()),
            Leaf::None | Leaf::Procs => Birth::Here,
        };
        watch.pidfd.store(-1, Ordering::Relaxed);
        watch.state().running = Some(Instant::now());
        let argument = (&raw const *child).cast_mut().cast();
        // SAFETY: `child` and all it points into outlive the call, which returns only after the
        // child has executed or ended; `entry` makes raw system calls only.
        let result = unsafe {
            if clone::clone3_usable() {
                let result =
                    clone::clone3(&self.stack, birth, &watch.pidfd, child::entry, argument);
                match result {
                    Err(e) if birth == Birth::Here && clone::refused_as_such(&e, birth) => {
                        clone::forget_clone3();
                        clone::clone(&self.stack, &watch.pidfd, child::entry, argument)
                    }
                    other => other,
                }
            } else {
                clone::clone(&self.stack, &watch.pidfd, child::entry, argument)
            }
        };
        let killed = {
            let mut state = watch.state();
            state.running = None;
            state.given_up
        };
        let pid = result?;
        let fd = watch.pidfd.load(Ordering::Relaxed);
        // SAFETY: the kernel made this descriptor for the child just cloned; nobody else owns it.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Cloned { pid, pidfd, killed })
    }
}

/// A child that has executed or ended, not yet waited for.
struct Cloned {
    pid: i32,
    pidfd: OwnedFd,
    /// The loop gave it up and killed it.
    killed: bool,
}

/// What became of it, by what it reported. A failed one is reaped here.
fn outcome(image: &Image, child: &Child, cloned: Cloned) -> Answer {
    let stage = Stage::from_u8(child.stage.load(Ordering::Relaxed));
    let errno = child.errno.load(Ordering::Relaxed);
    let program = || image.candidates.first().map(lossy).unwrap_or_default();
    let failure = if cloned.killed {
        Some(SpawnError {
            stage: Stage::TimedOut,
            errno: 0,
            path: program(),
        })
    } else if errno != 0 {
        let path = path_of(image, stage, child.candidate.load(Ordering::Relaxed));
        Some(SpawnError { stage, errno, path })
    } else if stage != Stage::Exec {
        Some(SpawnError {
            stage: Stage::Killed,
            errno: 0,
            path: program(),
        })
    } else {
        None
    };
    if let Some(failure) = failure {
        bury(cloned.pidfd.as_fd());
        return Err(failure);
    }
    let identity = Pid::new(cloned.pid.into())
        .map_err(io::Error::other)
        .and_then(|pid| Ok((pid, identity_of_child(pid)?)));
    match identity {
        Ok((pgid, id)) => Ok(Started {
            process: ProcessRef::of_child(id, cloned.pidfd),
            pgid,
        }),
        Err(e) => {
            bury(cloned.pidfd.as_fd());
            let path = format!("/proc/{}/stat", cloned.pid);
            Err(SpawnError::new(Stage::Identify, &e, path))
        }
    }
}

/// Kills and reaps a child that is of no use.
pub(super) fn bury(pidfd: BorrowedFd<'_>) {
    let _ = signal_fd(pidfd, libc::SIGKILL);
    // Bounded, since an unclaimed one is buried by the event loop.
    if exits_within(pidfd, BURY_LIMIT) {
        let _ = wait::reap(pidfd);
    }
}

fn path_of(image: &Image, stage: Stage, candidate: u32) -> String {
    match stage {
        Stage::Chdir => image.cwd.as_ref().map(lossy).unwrap_or_default(),
        Stage::JoinLeaf => image
            .leaf
            .as_deref()
            .map(|p| p.display().to_string())
            .unwrap_or_default(),
        Stage::Exec => {
            let tried = usize::try_from(candidate)
                .ok()
                .and_then(|i| image.candidates.get(i));
            // None of several: the name as it was given.
            tried.or(image.argv.first()).map(lossy).unwrap_or_default()
        }
        _ => String::new(),
    }
}

pub(super) fn lossy(text: &CString) -> String {
    text.to_string_lossy().into_owned()
}

fn open_leaf(path: &Path) -> Result<OwnedFd, SpawnError> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = File::options().read(true).custom_flags(flags).open(path);
    opened
        .map(OwnedFd::from)
        .map_err(|e| SpawnError::new(Stage::OpenLeaf, &e, path.display().to_string()))
}

fn is_refusal(error: &SpawnError) -> bool {
    clone::refused_as_such(&io::Error::from_raw_os_error(error.errno), Birth::Into(-1))
}

fn dumpable() -> i32 {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) }
}

/// The child's change of ids changed it for the memory it shared with us.
fn restore_dumpable(before: i32) {
    // 2 (by fs.suid_dumpable) cannot be asked for, and stays as the kernel set it.
    if (before == 0 || before == 1) && dumpable() != before {
        // SAFETY: no pointers.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, before, 0, 0, 0) };
    }
}
