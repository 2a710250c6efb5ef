//! Whether anybody wants something of the service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::worker::Mono;

/// Peers and calls under way: what keeps an idle service from leaving.
#[derive(Debug, Default)]
pub struct Activity {
    busy: AtomicU64,
    quiet_since: AtomicU64,
}

impl Activity {
    /// Counts one peer or call until the guard is dropped.
    pub fn begin(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Busy(Arc::clone(self))
    }

    /// How many there are.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::SeqCst)
    }

    /// For how long there has been none; `None` while there is one.
    pub fn quiet_for(&self, now: Mono) -> Option<Duration> {
        (self.busy.load(Ordering::SeqCst) == 0)
            .then(|| now.since(Mono(self.quiet_since.load(Ordering::SeqCst))))
    }

    /// Nothing has happened up to `now`: the clock of quiet starts here.
    pub fn reset(&self, now: Mono) {
        self.quiet_since.store(now.0, Ordering::SeqCst);
    }
}

/// One peer or call under way.
#[derive(Debug)]
pub struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.reset(crate::sys::clock::now().mono);
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}
