//! The two ends of a start: the handle that the event loop awaits, and the main thread's loop
//! that forks. A start that hangs before exec is killed from the loop through the pidfd that
//! the kernel wrote before the child ran.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::attempt::{bury, lossy};
use super::clone::Stack;
use super::{Image, SpawnError, Stage, Started};
use crate::sys::fdslots::Slots;
use crate::sys::process::{signal_fd, signal_group};

pub(super) type Answer = Result<Started, SpawnError>;

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
    pub(super) slots: Slots,
    pub(super) stack: Stack,
    pub(super) own_oom: Option<i32>,
}

enum Job {
    Start {
        image: Box<Image>,
        watch: Arc<Watch>,
        answer: oneshot::Sender<Unclaimed>,
    },
    Stop,
}

/// What both ends know of a start under way.
#[derive(Debug)]
pub(super) struct Watch {
    /// Written by the kernel before the child runs; -1 before.
    pub(super) pidfd: AtomicI32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Set while the clone is under way; the number in `pidfd` is the child's only then.
    pub(super) running: Option<Instant>,
    /// Nobody waits for it any more.
    pub(super) given_up: bool,
}

impl Watch {
    fn new() -> Self {
        Self {
            pidfd: AtomicI32::new(-1),
            state: Mutex::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
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
                return claimed(answer).unwrap_or_else(|| Err(failed(Stage::Stopped)));
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
            Ok(answer) => claimed(answer).unwrap_or_else(|| Err(failed(Stage::Stopped))),
            // It does not even die (D state). The main thread reaps it when it does.
            Err(_) => Err(failed(Stage::TimedOut)),
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
        // Not sent or not read: ended by its drop.
        let _ = answer.send(Unclaimed(Some(started)));
    }
}

/// An answer on its way. If nobody takes it, the new process is ended with what it started.
struct Unclaimed(Option<Answer>);

impl Unclaimed {
    fn claim(mut self) -> Option<Answer> {
        self.0.take()
    }
}

fn claimed(answer: Result<Unclaimed, oneshot::error::RecvError>) -> Option<Answer> {
    answer.ok().and_then(Unclaimed::claim)
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(Ok(started)) = &self.0 {
            let _ = signal_group(started.pgid, libc::SIGKILL);
            bury(started.process.as_fd());
        }
    }
}
