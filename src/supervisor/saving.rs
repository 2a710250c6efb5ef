//! From a changed row to the disk. The roll in memory is the truth; files follow it, off the loop.

use std::time::Duration;

use tokio::sync::oneshot;

use super::Supervisor;
use super::handle::{Change, Ended};
use super::refused::Refused;
use super::step::SAVE_WAIT;
use super::timers::Key;
use crate::registry::writer::Job;
use crate::worker::{Now, Outcome, WorkerId};

/// How long a change that nobody waits for may gather company: many short workers then cost
/// two writes each instead of three.
const LAZY: Duration = Duration::from_millis(20);

/// How old a count on disk may be.
const SOMETIME: Duration = Duration::from_secs(1);

/// Somebody who waits for the end of a worker.
pub(super) type Waiter = oneshot::Sender<Result<Ended, Refused>>;

/// What the writer said, for a caller that asked for something durable.
pub(super) fn durable(
    saved: Result<std::io::Result<()>, oneshot::error::RecvError>,
) -> Result<(), Refused> {
    match saved {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Refused::DiskFull(error.to_string())),
        Err(_) => Err(Refused::ShuttingDown),
    }
}

impl Supervisor {
    /// Submits a row now; the answer comes when it is durable.
    pub(super) fn save(&mut self, id: WorkerId) -> oneshot::Receiver<std::io::Result<()>> {
        self.lazy.remove(&id);
        match self.registry.encode(id) {
            Some(text) => self.writer.submit(Job::Write { id, text }),
            None => {
                let (answer, receiver) = oneshot::channel();
                let _ = answer.send(Ok(()));
                receiver
            }
        }
    }

    /// Submits a row soon.
    pub(super) fn save_lazily(&mut self, id: WorkerId, now: Now) {
        self.lazy.insert(id);
        self.timers.at_latest(Key::LazySave, now.mono.plus(LAZY));
        let _ = self.changes.send(Change::Changed(id));
    }

    /// Submits a row when it suits: for counts that change all the time.
    pub(super) fn save_sometime(&mut self, id: WorkerId, now: Now) {
        self.lazy.insert(id);
        self.timers
            .at_latest(Key::LazySave, now.mono.plus(SOMETIME));
        let _ = self.changes.send(Change::Changed(id));
    }

    pub(super) fn save_changed_rows(&mut self) {
        for id in std::mem::take(&mut self.lazy) {
            drop(self.save(id));
        }
    }

    /// Tells the log and the bus when writing stops working and when it works again.
    pub(super) fn watch_disk(&self) {
        let mut health = self.writer.health();
        let changes = self.changes.clone();
        tokio::spawn(async move {
            while health.changed().await.is_ok() {
                super::journal::disk(&health.borrow_and_update());
                let _ = changes.send(Change::Service);
            }
        });
    }

    /// A row has ended: its end becomes durable, then the world hears of it. A disk that takes
    /// over two seconds delays nobody further.
    /// Once for every row.
    pub(super) fn settle(&mut self, id: WorkerId, waiters: Vec<Waiter>) {
        let saved = self.save(id);
        self.unit_ended(id);
        let Some(row) = self.registry.get(id) else {
            return;
        };
        let outcome = row.outcome.unwrap_or(Outcome::Unknown);
        let change = Change::Exited {
            id,
            outcome,
            kind: row.kind.kind_type(),
            exit: row.exit,
            settled: row.settled,
            reservation: row.kind.reservation(),
        };
        let view = (!waiters.is_empty()).then(|| Box::new(self.view(row)));
        let changes = self.changes.clone();
        tokio::spawn(async move {
            let _ = tokio::time::timeout(SAVE_WAIT, saved).await;
            let _ = changes.send(change);
            let _ = changes.send(Change::Changed(id));
            if let Some(view) = view {
                for waiter in waiters {
                    let _ = waiter.send(Ok(Ended {
                        outcome,
                        view: view.clone(),
                    }));
                }
            }
        });
    }
}
