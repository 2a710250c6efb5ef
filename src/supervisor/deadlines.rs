//! Hard deadlines: one timerfd on CLOCK_BOOTTIME for the earliest of them. The runtime's own
//! timers stand still in suspend, so they would come late by the time slept.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::worker::{Boot, NodeId};

#[derive(Debug)]
pub(super) struct Deadlines {
    queue: BTreeSet<(Boot, NodeId)>,
    at: HashMap<NodeId, Boot>,
    timer: AsyncFd<OwnedFd>,
}

impl Deadlines {
    /// Needs a tokio runtime.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self {
            queue: BTreeSet::new(),
            at: HashMap::new(),
            timer: crate::sys::watch::readable(timer)?,
        })
    }

    pub(super) fn insert(&mut self, node: NodeId, at: Boot) {
        self.remove(node);
        self.queue.insert((at, node));
        self.at.insert(node, at);
        self.arm();
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        if let Some(at) = self.at.remove(&node) {
            self.queue.remove(&(at, node));
            self.arm();
        }
    }

    /// Takes out one that is due.
    pub(super) fn pop(&mut self, now: Boot) -> Option<NodeId> {
        let (at, node) = *self.queue.first()?;
        if at > now {
            self.arm();
            return None;
        }
        self.remove(node);
        Some(node)
    }

    /// Waits for the earliest; for ever where there is none.
    pub(super) async fn reached(&self) {
        loop {
            let Ok(mut guard) = self.timer.readable().await else {
                return std::future::pending().await;
            };
            let mut expirations = [0; 8];
            match rustix::io::read(self.timer.get_ref(), &mut expirations) {
                Ok(_) => return,
                Err(_) => guard.clear_ready(),
            }
        }
    }

    fn arm(&self) {
        // A time of zero disarms (timerfd_settime(2)).
        let at = Duration::from_nanos(self.queue.first().map_or(0, |(at, _)| at.0.max(1)));
        let it_value = Timespec::try_from(at).unwrap_or(Timespec {
            tv_sec: i64::MAX,
            tv_nsec: 0,
        });
        let it_interval = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let new = Itimerspec {
            it_interval,
            it_value,
        };
        if let Err(error) = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &new) {
            tracing::error!(%error, "cannot arm the deadline timer");
        }
    }
}
