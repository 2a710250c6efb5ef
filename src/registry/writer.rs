//! The store thread: takes jobs, writes what is there as one batch, and answers when it is on
//! disk. The event loop never waits for a disk.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use super::batch::{Batch, Fault, Waiter};
use super::disk::{Disk, RealDisk};
use super::spares::KEPT_FOR;
use super::store::{ClockMark, Store};
use crate::worker::WorkerId;

/// One change of the state directory. Jobs of one id are done in the order they were submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// The row's file gets this text. A newer text of the same id replaces one still waiting.
    /// A failed write stays queued and is tried again until it succeeds.
    Write {
        /// Which row.
        id: WorkerId,
        /// All of the file.
        text: String,
    },
    /// `rows/` to `reaped/`. A failed one is answered and forgotten; one behind a failed write
    /// of the same id fails with it.
    Reap(WorkerId),
    /// `reaped/` to `rows/`; fails with `EEXIST` if the id is on the roll. A failed one is
    /// answered and forgotten.
    Restore(WorkerId),
    /// The clock mark; like a write.
    Clock(ClockMark),
}

/// Can the state directory be written?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Everything submitted is written, or was not tried yet.
    Ok,
    /// Something waits to be written again; why, with errno's words and the path.
    Degraded(String),
}

enum Message {
    Job(Job, Waiter),
    Flush(Waiter),
    Stop,
}

/// Handle of the store thread; cheap to clone. When the last one is dropped, the thread writes
/// what is queued, once, and ends.
#[derive(Debug, Clone)]
pub struct Writer {
    queue: mpsc::Sender<Message>,
    health: watch::Receiver<Health>,
    thread: Arc<Mutex<Option<JoinHandle<io::Result<()>>>>>,
    batch: Began,
}

/// When the batch under way began.
type Began = Arc<Mutex<Option<Instant>>>;

impl Writer {
    /// Starts the thread.
    pub fn start(store: Arc<Store>) -> io::Result<Writer> {
        Self::start_on(store, Box::new(RealDisk), Retry::default())
    }

    pub(super) fn start_on(
        store: Arc<Store>,
        disk: Box<dyn Disk>,
        retry: Retry,
    ) -> io::Result<Writer> {
        let (queue, jobs) = mpsc::channel();
        let (report, health) = watch::channel(Health::Ok);
        let batch = Began::default();
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn({
                let batch = Arc::clone(&batch);
                move || run(&store, disk.as_ref(), &jobs, &report, retry, &batch)
            })?;
        Ok(Writer {
            queue,
            health,
            thread: Arc::new(Mutex::new(Some(thread))),
            batch,
        })
    }

    /// Queues a job. The answer comes when it is durable, or has failed once (see [`Job`] for
    /// what happens then). Never blocks. A closed answer means that the thread has gone.
    pub fn submit(&self, job: Job) -> oneshot::Receiver<io::Result<()>> {
        let (reply, answer) = oneshot::channel();
        let _ = self.queue.send(Message::Job(job, reply));
        answer
    }

    /// Answers when everything submitted before has been tried: `Ok` if it is all durable.
    pub fn flush(&self) -> oneshot::Receiver<io::Result<()>> {
        let (reply, answer) = oneshot::channel();
        let _ = self.queue.send(Message::Flush(reply));
        answer
    }

    /// For how long the batch under way has been; `None` while there is none.
    pub fn busy_for(&self) -> Option<Duration> {
        self.batch.lock().ok()?.map(|began| began.elapsed())
    }

    /// Whether writing works.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Writes what is queued, ends the thread and waits for it (blocks for as long as the disk
    /// does). `Err` if something could not be written. Only the first call waits.
    pub fn stop(self) -> io::Result<()> {
        let _ = self.queue.send(Message::Stop);
        let thread = match self.thread.lock() {
            Ok(mut thread) => thread.take(),
            Err(poisoned) => poisoned.into_inner().take(),
        };
        match thread.map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the store thread panicked")),
            None => Ok(()),
        }
    }
}

/// When a failed write is tried again: after `first`, doubling up to `most`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retry {
    pub(super) first: Duration,
    pub(super) most: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            most: Duration::from_secs(30),
        }
    }
}

fn run(
    store: &Store,
    disk: &dyn Disk,
    jobs: &mpsc::Receiver<Message>,
    report: &watch::Sender<Health>,
    retry: Retry,
    began: &Began,
) -> io::Result<()> {
    let mut batch = Batch::default();
    let mut wait = retry.first;
    let mut due: Option<Instant> = None;
    loop {
        let mut flushes = Vec::new();
        let mut stop = false;
        let first = match due {
            None if batch.keeps_spares() => jobs.recv_timeout(KEPT_FOR),
            None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        let mut next = match first {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) if due.is_none() => {
                batch.drop_spares(store, disk);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Message::Stop),
        };
        // Everything that came meanwhile goes into the same batch.
        while let Some(message) = next {
            match message {
                Message::Job(job, waiter) => batch.add(job, waiter),
                Message::Flush(waiter) => flushes.push(waiter),
                Message::Stop => stop = true,
            }
            next = jobs.try_recv().ok();
        }
        let degraded = |fault: &Fault| set(report, Health::Degraded(fault.to_string()));
        mark(began, Some(Instant::now()));
        let result = batch.carry_out(store, disk, &degraded);
        mark(began, None);
        due = match &result {
            Ok(()) => {
                set(report, Health::Ok);
                wait = retry.first;
                None
            }
            Err(_) => {
                // A full disk needs the room, and nothing else would remove them now.
                batch.drop_spares(store, disk);
                let due = Instant::now() + wait;
                wait = (wait * 2).min(retry.most);
                Some(due)
            }
        };
        for waiter in flushes {
            let _ = waiter.send(result.as_ref().map(|_| ()).map_err(|f| f.error()));
        }
        if stop {
            batch.drop_spares(store, disk);
            return result.map_err(|fault| fault.error());
        }
    }
}

fn mark(began: &Began, at: Option<Instant>) {
    if let Ok(mut began) = began.lock() {
        *began = at;
    }
}

fn set(report: &watch::Sender<Health>, health: Health) {
    report.send_if_modified(|now| {
        let changed = *now != health;
        *now = health;
        changed
    });
}
