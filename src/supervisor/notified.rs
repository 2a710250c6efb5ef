//! The notify sockets of the workers, seen from the loop: messages taken, a few at a time, and
//! what they mean carried out.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::Supervisor;
use super::notify::{Message, parse};
use super::step::Event;
use super::timers::Key;
use crate::sys::notify::{MESSAGE_MAX, Received, receive};
use crate::worker::{Mono, NodeId, Now};

/// Messages of one worker in one pass of the loop.
const PER_PASS: usize = 16;
/// Who had more than that to say is heard again after this.
const PAUSE: Duration = Duration::from_millis(50);
/// Messages taken before an exit is handled: what was sent before it counts. The kernel's
/// queue is shorter (`net.unix.max_dgram_qlen`).
const LAST_WORDS: usize = 4096;
/// Who said `STOPPING=1` has this long to end by itself; systemd's own default.
const STOPPING: Duration = Duration::from_secs(90);

/// A worker's notify socket.
#[derive(Debug)]
pub struct Notify {
    /// Our end.
    pub socket: OwnedFd,
    /// It said that it stops, and is to have ended by then.
    pub stop_by: Option<Mono>,
}

impl Notify {
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            stop_by: None,
        }
    }
}

impl Supervisor {
    pub(super) fn notify_ready(&mut self, node: NodeId, now: Now) {
        if self.hear(node, PER_PASS, now) {
            // A worker that talks without end waits in its own sendmsg(2), not on our time.
            self.children.listen(node, false);
            self.timers
                .set(Key::Listen(node), Some(now.mono.plus(PAUSE)));
        }
    }

    pub(super) fn listen_again(&mut self, node: NodeId) {
        self.children.listen(node, true);
    }

    /// All that a worker sent before its end.
    pub(super) fn hear_out(&mut self, node: NodeId, now: Now) {
        self.hear(node, LAST_WORDS, now);
    }

    /// Takes at most so many messages. `true`: there may be more.
    fn hear(&mut self, node: NodeId, most: usize, now: Now) -> bool {
        let mut buffer = [0; MESSAGE_MAX];
        for _ in 0..most {
            let Some(child) = self.children.get(node) else {
                return false;
            };
            let (id, Some(notify)) = (child.id, &child.notify) else {
                return false;
            };
            match receive(notify.socket.as_fd(), &mut buffer) {
                Ok(Received::Message { length, uid }) => {
                    let owner = self.registry.get(id).map(|row| row.owner.uid);
                    let said = buffer.get(..length).and_then(parse);
                    match said.filter(|_| owner == Some(uid)) {
                        Some(message) => self.notified(node, message, now),
                        None => tracing::debug!(
                            MUSTER_WORKER = id.as_str(),
                            "a notification of uid {uid} was dropped"
                        ),
                    }
                }
                Ok(Received::Unusable) => {}
                Ok(Received::Nothing) => return false,
                Err(error) => {
                    tracing::warn!(%error, MUSTER_WORKER = id.as_str(), "its notify socket is broken");
                    self.children.listen(node, false);
                    return false;
                }
            }
        }
        true
    }

    fn notified(&mut self, node: NodeId, message: Message, now: Now) {
        if message.is_progress() {
            self.progressed(node, now);
        }
        if message.alive {
            self.ponged(node, now);
        }
        if let Some(text) = &message.status {
            self.says(node, text, now);
        }
        if message.stopping {
            self.stops_by_itself(node, now);
        }
        if let Some(length) = message.extend {
            self.extend(node, length, now);
        }
        if message.hangs {
            self.end_by_itself(node, "stuck, as it said itself (WATCHDOG=trigger)");
        }
    }

    fn stops_by_itself(&mut self, node: NodeId, now: Now) {
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        let Some(notify) = &mut child.notify else {
            return;
        };
        if notify.stop_by.is_none() && !child.machine.is_stopping() {
            let by = now.mono.plus(STOPPING);
            notify.stop_by = Some(by);
            self.timers.set(Key::Stopping(node), Some(by));
        }
    }

    /// Time is up for one that said it stops.
    pub(super) fn stops_too_long(&mut self, node: NodeId) {
        self.end_by_itself(node, "said STOPPING=1 and did not end in time");
    }

    /// Whatever bounds it now ends at `now + length` at the earliest: a ladder under way (within
    /// the bound of a drain), the end it announced, its deadline.
    fn extend(&mut self, node: NodeId, length: Duration, now: Now) {
        self.extended(node, length, now);
        let most = self.set.config.ladder.drain_timeout;
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        if let Some(began) = child.machine.ladder_began() {
            let until = now.mono.plus(length).min(began.plus(most));
            return self.on_event(node, Event::Extended { until });
        }
        if let Some(notify) = &mut child.notify
            && let Some(by) = &mut notify.stop_by
        {
            *by = (*by).max(now.mono.plus(length));
            let by = *by;
            self.timers.set(Key::Stopping(node), Some(by));
        }
        if let Some(child) = self.children.get_mut(node)
            && let Some(deadline) = &mut child.deadline
        {
            let later = (*deadline).max(now.boot.plus(length));
            *deadline = later;
            self.deadlines.insert(node, later);
        }
    }
}
