//! From a child's exit or a cancel to the end of the worker: carries out what [`super::step`]
//! decides, in its order.

use super::handle::{CancelReply, Change};
use super::ladder::Act;
use super::members::{kill_all, leftovers, members, report, signal_group_of, signal_rest, thaw};
use super::step::{Effect, Event};
use super::timers::Key;
use super::{Inner, Supervisor};
use crate::sys::cgroup::Leaf;
use crate::sys::{clock, wait};
use crate::worker::{Cancellation, Exit, NodeId, Now, Pid, Rung, Status, WorkerId};

impl Supervisor {
    /// The leader's pidfd is readable. Its status is looked at, not taken: it stays a zombie
    /// until its group and leaf are swept, so that no signal can reach a recycled id.
    pub(super) fn leader_ready(&mut self, node: NodeId) {
        self.look_at_attendances(node);
        self.hear_out(node, clock::now());
        let Some(child) = self.children.get(node) else {
            return;
        };
        if child.adopted.is_some() {
            return self.adopted_ready(node);
        }
        match wait::peek(std::os::fd::AsFd::as_fd(&child.process)) {
            Ok(Some(exit)) => {
                self.children.leader_seen(node);
                if child.tty && exit == Exit::Signal(libc::SIGHUP) {
                    // Its client has gone before it could say that it was there, or the kernel
                    // has not come to closing the attendance yet.
                    self.on_event(node, Event::Signalled(libc::SIGHUP));
                }
                if self.drain_channel(node, Some(exit), clock::now()) {
                    self.on_event(node, Event::LeaderExited(exit));
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, MUSTER_WORKER = %child.id, "cannot read an exit status");
                self.children.leader_seen(node);
            }
        }
    }

    pub(super) fn leaf_ready(&mut self, node: NodeId) {
        let Some(child) = self.children.get(node) else {
            return;
        };
        // Reading the watched descriptor is what clears its event. Before the look, or what comes
        // between the two would be cleared unseen.
        if let Some(events) = &child.events {
            let mut buffer = [0; 128];
            let _ = rustix::io::pread(events, &mut buffer, 0);
        }
        let populated = child.leaf.as_ref().map(Leaf::populated);
        if matches!(populated, Some(Ok(false))) {
            self.on_event(node, Event::Emptied);
        }
    }

    pub(super) fn tracked_ready(&mut self, node: NodeId) {
        if self.children.drop_ended(node) == 0 {
            self.want_scan(node);
        }
    }

    pub(super) fn tick(&mut self, node: NodeId) {
        self.on_event(node, Event::Tick);
    }

    /// Hard deadlines that have passed, on the clock that goes on in suspend.
    pub(super) fn handle_deadlines(&mut self, now: Now) {
        while let Some(node) = self.deadlines.pop(now.boot) {
            self.end_by_itself(node, "deadline exceeded");
        }
    }

    /// One event into the machine of a worker, and what it decides carried out.
    pub(super) fn on_event(&mut self, node: NodeId, event: Event) {
        let now = clock::now();
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        if matches!(event, Event::LeaderExited(_) | Event::LeaderGone) {
            child.life.leader_ended(now.mono);
        }
        let effects = child.machine.step(event, now.mono);
        for effect in effects {
            match effect {
                Effect::SaveStopping => self.save_stopping(node),
                Effect::Act(act) => self.act(node, act, now),
                Effect::Look => self.look(node),
                Effect::Finish => {
                    if !self.start_hook(node, now) {
                        self.settle_child(node, now);
                    }
                }
            }
        }
        self.follow_up(node, now);
    }

    /// What follows from a step besides its effects: timers, the row's status, answers due.
    fn follow_up(&mut self, node: NodeId, now: Now) {
        let Some(child) = self.children.get(node) else {
            return;
        };
        let (id, due) = (child.id, child.machine.due());
        let stopping = child.machine.is_stopping();
        let saving = child.machine.is_saving();
        self.timers.set(Key::Node(node), due);
        if stopping {
            self.timers.set(Key::Life(node), None);
        }
        if stopping
            && self
                .registry
                .get(id)
                .is_some_and(|row| row.status == Status::Live)
        {
            let _ = self
                .registry
                .update(id, |row| row.status = Status::Stopping);
            self.save_lazily(id, now);
        }
        if stopping && !saving {
            self.answer_cancels(node);
        }
    }

    /// Starts a worker's ladder, with the reason in the row, for any reason but its owner's word.
    /// `false`: it was adopted, and only that word counts.
    pub(super) fn cancel_node(&mut self, node: NodeId, by: u32, reason: &str, force: bool) -> bool {
        let adopted = self.children.get(node).map(|child| child.adopted);
        if adopted != Some(None) {
            return false;
        }
        self.begin_ladder(node, by, reason, force);
        true
    }

    /// The same on the word of who may say so. No error if a ladder is under way.
    pub(super) fn begin_ladder(&mut self, node: NodeId, by: u32, reason: &str, force: bool) {
        let Some(child) = self.children.get(node) else {
            return;
        };
        let (id, lives) = (child.id, child.machine.lives());
        self.again.stop(id);
        let now = clock::now();
        let _ = self.registry.update(id, |row| {
            row.status = Status::Stopping;
            if row.cancelled.is_none() && lives {
                row.cancelled = Some(Cancellation::new(by, reason, now.wall));
            }
        });
        let _ = self.changes.send(Change::Changed(id));
        self.on_event(node, Event::Cancel { force });
    }

    /// The same for a worker that has no process yet: its ladder begins when it has. `false`: it
    /// is not starting.
    pub(super) fn cancel_starting(
        &mut self,
        id: WorkerId,
        by: u32,
        reason: &str,
        force: bool,
    ) -> bool {
        let Some(starting) = self.starting.get_mut(&id) else {
            return false;
        };
        starting.cancel = Some(starting.cancel.unwrap_or(false) || force);
        self.again.stop(id);
        let cancellation = Cancellation::new(by, reason, clock::now().wall);
        let _ = self.registry.update(id, |row| {
            row.cancelled.get_or_insert(cancellation);
        });
        drop(self.save(id));
        true
    }

    fn save_stopping(&mut self, node: NodeId) {
        let Some(child) = self.children.get(node) else {
            return;
        };
        let saved = self.save(child.id);
        self.spawn_inner(async move {
            Inner::StoppingSaved {
                node,
                durable: matches!(saved.await, Ok(Ok(()))),
            }
        });
    }

    pub(super) fn stopping_saved(&mut self, node: NodeId, durable: bool) {
        if let Some(child) = self.children.get_mut(node) {
            child.durable = durable;
        }
        self.on_event(node, Event::Saved);
    }

    pub(super) fn answer_cancels(&mut self, node: NodeId) {
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        let durable = child.durable;
        for (reply, answer) in child.cancels.drain(..) {
            let _ = reply.send(Ok(CancelReply { durable, ..answer }));
        }
    }

    fn act(&mut self, node: NodeId, act: Act, now: Now) {
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        if let Some(waiting) = &mut child.waiting {
            waiting.push(act);
            self.want_scan(node);
            return;
        }
        if child.processes == 0 {
            child.processes = u32::try_from(members(child).len()).unwrap_or(u32::MAX);
        }
        self.act_now(node, act, now);
    }

    /// The processes of a worker without a leaf are known: what had to wait for that is done.
    pub(super) fn act_on_waiting(&mut self, node: NodeId, now: Now) {
        let waiting = self
            .children
            .get_mut(node)
            .and_then(|child| child.waiting.take());
        for act in waiting.unwrap_or_default() {
            self.act(node, act, now);
        }
    }

    fn act_now(&mut self, node: NodeId, act: Act, now: Now) {
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        let id = child.id;
        match act {
            Act::Ask => {
                let cancelled = self.registry.get(id).and_then(|row| row.cancelled.as_ref());
                let reason = cancelled.map_or(String::new(), |c| c.reason.clone());
                if !self.tell_cancel(node, &reason) {
                    self.on_event(node, Event::Deaf);
                }
            }
            Act::Thaw => thaw(child),
            Act::Group(signal) => report(id, "group", signal_group_of(child, signal)),
            Act::Rest(signal) => signal_rest(child, signal),
            Act::Kill => {
                kill_all(child);
                self.want_scan(node);
            }
            Act::Unkillable => self.unkillable(node, now),
        }
        if let Some(row) = self.registry.get(id) {
            super::journal::rung(row, act);
        }
    }

    fn unkillable(&mut self, node: NodeId, now: Now) {
        let Some(child) = self.children.get(node) else {
            return;
        };
        let id = child.id;
        let _ = self.registry.update(id, |row| {
            row.rung = Some(Rung::Unkillable);
            row.note = Some("outlives SIGKILL (uninterruptible sleep?); tried again".to_owned());
        });
        self.save_lazily(id, now);
    }

    /// What is left of a worker whose leader has ended?
    fn look(&mut self, node: NodeId) {
        let Some(child) = self.children.get(node) else {
            return;
        };
        if child.adopted.is_some() {
            return self.on_event(node, Event::Emptied);
        }
        if child.leaf.is_none() {
            self.want_scan(node);
            return;
        }
        // Watched before it is read, or the last event could be missed.
        if let Err(error) = self.children.watch_leaf(node) {
            tracing::error!(%error, "cannot watch a leaf");
        }
        let Some(child) = self.children.get(node) else {
            return;
        };
        match child.leaf.as_ref().map(Leaf::populated) {
            Some(Ok(true)) => {
                let left = members(child);
                // Nobody seen, yet populated: they fork and exit faster than they can be read.
                let all_gone = left.is_empty()
                    && matches!(child.leaf.as_ref().map(Leaf::populated), Some(Ok(false)));
                if all_gone {
                    self.on_event(node, Event::Emptied);
                } else {
                    self.left(node, &left);
                }
            }
            Some(Ok(false)) | None => self.on_event(node, Event::Emptied),
            Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                self.on_event(node, Event::Emptied);
            }
            Some(Err(error)) => tracing::error!(%error, "cannot read a leaf"),
        }
    }

    /// The leader left these; they go into the row before anything is done about them.
    pub(super) fn left(&mut self, node: NodeId, left: &[(Pid, String)]) {
        let Some(child) = self.children.get(node) else {
            return;
        };
        let id = child.id;
        let _ = self.registry.update(id, |row| {
            if row.leftovers.count == 0 {
                row.leftovers = leftovers(left.iter().map(|(_, name)| name.as_str()));
            }
        });
        self.on_event(node, Event::Left);
    }

    /// Time is up: what is left is killed, and its rows say so.
    pub(super) fn abandon(&mut self, now: Now) {
        for node in self.children.nodes() {
            let Some(child) = self.children.get_mut(node) else {
                continue;
            };
            if child.adopted.is_some() {
                continue;
            }
            kill_all(child);
            let id = child.id;
            let _ = self.registry.update(id, |row| {
                row.note = Some("still there when the service had to stop; killed".to_owned());
            });
            self.save_lazily(id, now);
        }
        self.end_hooks("was killed: the service had to stop");
    }
}
