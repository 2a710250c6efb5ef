//! The store thread: takes jobs, writes what is there as one batch, and answers when it is on
//! disk. The event loop never waits for a disk.

use std::io;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

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
    /// `rows/` to `reaped/`. A failed one is answered and forgotten.
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

/// Handle of the store thread; cheap to clone. Dropping the last one writes what is queued, once.
#[derive(Debug, Clone)]
pub struct Writer {
    health: watch::Receiver<Health>,
}

impl Writer {
    /// Starts the thread.
    pub fn start(store: Arc<Store>) -> io::Result<Writer> {
        let _ = store;
        todo!()
    }

    /// Queues a job. The answer comes when it is durable, or has failed once (see [`Job`] for
    /// what happens then). Never blocks. A dropped answer means that the thread has gone.
    pub fn submit(&self, job: Job) -> oneshot::Receiver<io::Result<()>> {
        let _ = job;
        todo!()
    }

    /// Answers when everything submitted before has been tried once: `Ok` if it is all durable.
    pub fn flush(&self) -> oneshot::Receiver<io::Result<()>> {
        todo!()
    }

    /// Whether writing works.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Writes what is queued, ends the thread and waits for it (blocks for as long as the disk
    /// does). `Err` if something could not be written.
    pub fn stop(self) -> io::Result<()> {
        todo!()
    }
}
