//! The two ends of a start: the handle that the event loop awaits, and the main thread's loop
//! that forks. A start that hangs before exec is killed from the loop through the pidfd that
//! the kernel wrote before the child ran.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::child::{self, Child};
use super::clone::{self, Birth, Stack};
use super::prepare::{Prepared, targets};
use super::{Image, SpawnError, Stage, Started};
use crate::sys::fdslots::Slots;
use crate::sys::process::{ProcessRef, exits_within, identity_of_child, signal_fd, signal_group};
use crate::sys::wait;
use crate::worker::Pid;

type Answer = Result<Started, SpawnError>;

/// First pause after `EAGAIN` from clone; doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(5);
/// Pauses together stay below this.
const RETRY_TOTAL: Duration = Duration::from_millis(200);
/// How long the main thread may take to answer once its child was killed.
const ANSWER_AFTER_KILL: Duration = Duration::from_secs(2);

/// Starts processes from anywhere; the work is done by [`main_thread`].
#[derive(Debug, Clone)]
pub struct Forker {
    jobs: mpsc::Sender<Job>,
    limit: Duration,
}

/// The main thread's end.
pub struct Jobs {
    receiver: mpsc::Receiver<Job>,
    slots: Slots,
    stack: Stack,
    own_oom: Option<i32>,
}

enum Job {
    Start {
        image: Box<Image>,
        watch: Arc<Watch>,
        answer: oneshot::Sender<Answer>,
    },
    Stop,
}

/// What both ends know of a start under way.
#[derive(Debug)]
struct Watch {
    /// Written by the kernel before the child runs; -1 before.
    pidfd: AtomicI32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Set while the clone is under way; the number in `pidfd` is the child's only then.
    running: Option<Instant>,
    /// Nobody waits for it any more.
    given_up: bool,
}

impl Watch {
    fn new() -> Self {
        Self {
            pidfd: AtomicI32::new(-1),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the child, if there is one. The lock keeps the descriptor open meanwhile.
    fn give_up(&self) {
        let mut state = self.state();
        state.given_up = true;
        let fd = self.pidfd.load(Ordering::Relaxed);
        if state.running.is_some() && fd >= 0 {
            // SAFETY: `running` is cleared under this lock before the main thread may close it.
            let pidfd = unsafe { BorrowedFd::borrow_raw(fd) };
            let _ = signal_fd(pidfd, libc::SIGKILL);
        }
    }
}

/// Makes both ends. `limit`: how long a child may take to get to exec; 10 s is usual.
pub fn forker(slots: Slots, limit: Duration) -> io::Result<(Forker, Jobs)> {
    let (jobs, receiver) = mpsc::channel();
    let own_oom = std::fs::read_to_string("/proc/self/oom_score_adj")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let stack = Stack::new()?;
    Ok((
        Forker { jobs, limit },
        Jobs {
            receiver,
            slots,
            stack,
            own_oom,
        },
    ))
}

impl Forker {
    /// Starts one process; answers when it executes its image or has failed to. Bounded by the
    /// time limit, and by that of an earlier start that hangs. A dropped future ends its process.
    pub async fn start(&self, image: Image) -> Answer {
        let (sender, mut answer) = oneshot::channel();
        let watch = Arc::new(Watch::new());
        let path = image.candidates.first().map(lossy).unwrap_or_default();
        let failed = |stage| SpawnError {
            stage,
            errno: 0,
            path: path.clone(),
        };
        let job = Job::Start {
            image: Box::new(image),
            watch: watch.clone(),
            answer: sender,
        };
        self.jobs.send(job).map_err(|_| failed(Stage::Stopped))?;
        let queued = Instant::now();
        let mut wait = self.limit;
        loop {
            if let Ok(answer) = tokio::time::timeout(wait, &mut answer).await {
                return answer.unwrap_or_else(|_| Err(failed(Stage::Stopped)));
            }
            let running = watch.state().running;
            match running.map(|since| self.limit.saturating_sub(since.elapsed())) {
                Some(left) if left.is_zero() => break,
                Some(left) => wait = left,
                // Behind others: theirs are bounded, so this is.
                None if queued.elapsed() < self.limit.saturating_mul(3) => wait = self.limit,
                None => {
                    watch.give_up();
                    return Err(failed(Stage::Busy));
                }
            }
        }
        watch.give_up();
        match tokio::time::timeout(ANSWER_AFTER_KILL, answer).await {
            Ok(Ok(answer)) => answer,
            // It does not even die (D state). The main thread reaps it when it does.
            _ => Err(failed(Stage::TimedOut)),
        }
    }

    /// Makes [`main_thread`] return after the jobs queued so far.
    pub fn stop(&self) {
        // Its end means that it has returned already.
        let _ = self.jobs.send(Job::Stop);
    }
}

/// Forks what is asked for, one after the other, until all [`Forker`]s are dropped or one says
/// stop. Run it on the main thread: its children die with the thread. All signals must be
/// blocked in it, or a handler could run in a child that shares our memory.
pub fn main_thread(mut jobs: Jobs) {
    while let Ok(Job::Start {
        image,
        watch,
        answer,
    }) = jobs.receiver.recv()
    {
        if watch.state().given_up || answer.is_closed() {
            continue;
        }
        let started = jobs.start(&image, &watch);
        if let Err(Ok(unwanted)) = answer.send(started) {
            end(&unwanted);
        }
    }
}

/// Nobody took the new process: end it and what it may have started.
fn end(started: &Started) {
    let _ = started.process.signal(libc::SIGKILL);
    let _ = signal_group(started.pgid, libc::SIGKILL);
    let _ = wait::reap_ending(started.process.as_fd());
}

/// The child's way into its leaf, opened by the parent.
enum Leaf {
    None,
    Directory(OwnedFd),
    Procs,
}

impl Jobs {
    fn start(&mut self, image: &Image, watch: &Watch) -> Answer {
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
            Leaf::Directory(directory) => Birth::Into(std::os::fd::AsRawFd::as_raw_fd(directory)),
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
fn bury(pidfd: BorrowedFd<'_>) {
    let _ = signal_fd(pidfd, libc::SIGKILL);
    let _ = exits_within(pidfd, Duration::from_secs(2));
    let _ = wait::reap_ending(pidfd);
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

fn lossy(text: &CString) -> String {
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
