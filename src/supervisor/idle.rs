//! Leaving when there is nothing to do, without losing a call that comes in that moment:
//! doors paused, looked again, admission closed, name given back, what had come answered, gone.
//! What comes later waits at the service manager's socket or in the bus's activation queue.

use tokio::sync::oneshot;

use super::Supervisor;
use super::handle::Doors;
use crate::worker::Now;

/// How far it is.
#[derive(Debug, Default)]
pub(super) enum Leaving {
    /// Here to stay.
    #[default]
    No,
    /// No more peers are taken in; not decided yet.
    Pausing(oneshot::Receiver<()>),
    /// Decided: no worker is taken any more.
    Closing(oneshot::Receiver<()>),
    /// All that had come is answered.
    Closed,
}

impl Leaving {
    /// Waits for the next answer of who holds the doors. Nobody left to answer is one.
    pub(super) async fn answer(&mut self) {
        match self {
            Leaving::Pausing(answer) | Leaving::Closing(answer) => {
                let _ = answer.await;
            }
            Leaving::No | Leaving::Closed => std::future::pending().await,
        }
    }
}

impl Supervisor {
    /// Has it been decided? Then no worker is taken any more.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.leaving, Leaving::Closing(_) | Leaving::Closed)
    }

    /// Begins to leave once idle; true when that is done.
    pub(super) fn has_left(&mut self, now: Now) -> bool {
        if matches!(self.leaving, Leaving::No) && self.is_idle(now) {
            self.leaving = Leaving::Pausing(self.ask(Doors::Pause));
        }
        matches!(self.leaving, Leaving::Closed)
    }

    pub(super) fn doors_answered(&mut self, now: Now) {
        self.leaving = match std::mem::take(&mut self.leaving) {
            Leaving::Pausing(_) if self.drain.is_none() && self.is_idle(now) => {
                Leaving::Closing(self.ask(Doors::Close))
            }
            Leaving::Pausing(_) => {
                let _ = self.doors.send(Doors::Open);
                self.look_for_idleness(now);
                Leaving::No
            }
            Leaving::Closing(_) => Leaving::Closed,
            other => other,
        };
    }

    fn ask(&self, what: fn(oneshot::Sender<()>) -> Doors) -> oneshot::Receiver<()> {
        let (reply, answer) = oneshot::channel();
        // Without anybody at the doors the dropped sender is the answer.
        let _ = self.doors.send(what(reply));
        answer
    }
}
