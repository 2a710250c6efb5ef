//! When the loop has to look at something again: one entry a key, the earliest first.

use std::collections::{BTreeSet, HashMap};

use crate::worker::{Mono, NodeId, WorkerId};

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A worker's machine.
    Node(NodeId),
    /// A worker that talked without end is heard again.
    Listen(NodeId),
    /// A worker that said it stops, and has not ended.
    Stopping(NodeId),
    /// Signs of life of a worker.
    Life(NodeId),
    /// The next generation of a worker.
    Restart(WorkerId),
    /// A stop hook that takes too long.
    Hook(NodeId),
    /// Rows whose change may wait a moment.
    LazySave,
    /// Leaves that could not be removed at once.
    StaleLeaves,
    /// Output files past their cap.
    Output,
    /// Strangers to look for.
    Strangers,
    /// Helpers that nothing was asked of lately.
    Lookers,
    /// The collector's own tick.
    Sweep,
    /// The service may be idle.
    Idle,
    /// The service manager's watchdog.
    Watchdog,
    /// A reload that does not fall silent.
    Reload,
    /// The drain's bound.
    Drain,
}

/// A queue of deadlines on the monotonic clock.
#[derive(Debug, Default)]
pub struct Timers {
    queue: BTreeSet<(Mono, Key)>,
    at: HashMap<Key, Mono>,
}

impl Timers {
    /// Sets, moves or (with `None`) clears a key.
    pub fn set(&mut self, key: Key, at: Option<Mono>) {
        let before = match at {
            Some(at) => self.at.insert(key, at),
            None => self.at.remove(&key),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.queue.remove(&(before, key));
        }
        if let Some(at) = at {
            self.queue.insert((at, key));
        }
    }

    /// Sets a key unless it is due earlier already.
    pub fn at_latest(&mut self, key: Key, at: Mono) {
        if self.at.get(&key).is_none_or(|set| *set > at) {
            self.set(key, Some(at));
        }
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Mono> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes out one key that is due at `now`, with the moment it was due.
    pub fn pop(&mut self, now: Mono) -> Option<(Mono, Key)> {
        let (at, key) = *self.queue.first().filter(|(at, _)| *at <= now)?;
        self.queue.remove(&(at, key));
        self.at.remove(&key);
        Some((at, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_a_moved_key_comes_once() {
        let mut timers = Timers::default();
        timers.set(Key::Idle, Some(Mono(30)));
        timers.set(Key::Sweep, Some(Mono(20)));
        timers.set(Key::Idle, Some(Mono(10)));
        timers.at_latest(Key::Sweep, Mono(25));
        assert_eq!(timers.next(), Some(Mono(10)));
        assert_eq!(timers.pop(Mono(9)), None);
        assert_eq!(timers.pop(Mono(20)), Some((Mono(10), Key::Idle)));
        assert_eq!(timers.pop(Mono(20)), Some((Mono(20), Key::Sweep)));
        assert_eq!((timers.pop(Mono(99)), timers.next()), (None, None));
    }
}
