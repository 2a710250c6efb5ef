//! Nothing of a worker is left: its row is settled, its leaf goes, whoever waited is told.

use std::time::Duration;

use super::Supervisor;
use super::channel::{CLOSED, CUT};
use super::children::Child;
use super::handle::{CancelReply, CancelState, Ended, Reply};
use super::timers::Key;
use crate::sys::cgroup::{Leaf, Removed};
use crate::sys::{clock, wait};
use crate::worker::{HowKnown, LeftoversPolicy, NodeId, Now, Outcome, Rung, Status, WorkerId};

/// A leaf that is busy for an instant after its last process has ended is tried again so often.
const LEAF_TRIES: u32 = 200;
const LEAF_PAUSE: Duration = Duration::from_millis(10);

impl Supervisor {
    /// Nothing of a worker is left: its leader is reaped and its row is settled.
    /// That was at `ended`, before its stop hook.
    pub(super) fn settle_child(&mut self, node: NodeId, ended: Now) {
        let now = clock::now();
        // What it left running may have written too.
        self.drain_channel(node, None, now);
        let Some(mut child) = self.unwatch(node) else {
            return;
        };
        let adopted = child.adopted.is_some();
        let exit = wait::reap(std::os::fd::AsFd::as_fd(&child.process))
            .ok()
            .flatten();
        let exit = child.machine.exit().or(exit);
        let outcome = child.machine.outcome().unwrap_or(Outcome::Unknown);
        let oom = child.leaf.as_ref().is_some_and(|leaf| leaf.oom_kills() > 0);
        let took = child
            .machine
            .ladder_began()
            .map(|began| ended.mono.since(began));
        let (rung, processes) = (child.machine.rung(), child.processes);
        let skipped = u16::try_from(child.skipped).unwrap_or(u16::MAX);
        let lived = ended.mono.since(child.started);
        let waiters = std::mem::take(&mut child.waiters);
        let why = unsaid(&child, outcome);
        let last = self.end_generation(child.id, lived, waiters, now, |row| {
            row.status = Status::Exited;
            row.outcome = Some(outcome);
            if row.cancelled.is_none() && row.note.is_none() {
                row.note = why;
            }
            row.how_known = Some(if adopted {
                HowKnown::PidfdClosed
            } else {
                HowKnown::Waited
            });
            row.exit = exit;
            row.exited = Some(ended.wall);
            row.oom_killed = oom;
            row.rung = Some(rung);
            row.took = took;
            row.processes = processes;
            row.frames_skipped = skipped;
        });
        if let Some(leaf) = child.leaf.take() {
            self.remove_leaf(leaf, 0, now);
        }
        self.count_end(child.id, outcome, took.map(|_| rung));
        for (reply, answer) in std::mem::take(&mut child.cancels) {
            let _ = reply.send(Ok(CancelReply {
                state: CancelState::Ended,
                outcome: Some(outcome),
                ..answer
            }));
        }
        if let Some(row) = self.registry.get(child.id) {
            super::journal::worker_exited(row);
            if let Some(due) = self.again.due(child.id) {
                super::journal::worker_restarts(row, due.since(now.mono));
            }
        }
        if let Some(waiters) = last {
            self.settle_for_good(child.id, waiters, now);
        }
    }

    fn count_end(&mut self, id: WorkerId, outcome: Outcome, rung: Option<Rung>) {
        *self.counters.exits.entry(outcome).or_default() += 1;
        if let Some(rung) = rung {
            *self.counters.rungs.entry(rung).or_default() += 1;
        }
        if let Some(row) = self.registry.get(id)
            && row.leftovers_policy == LeftoversPolicy::Kill
        {
            self.counters.leftovers_killed += u64::from(row.leftovers.count);
        }
    }

    /// Out of the table, with all that would have looked at it again.
    fn unwatch(&mut self, node: NodeId) -> Option<Child> {
        let child = self.children.remove(node)?;
        self.journal_stream_ended(node);
        for key in [
            Key::Node(node),
            Key::Listen(node),
            Key::Stopping(node),
            Key::Life(node),
        ] {
            self.timers.set(key, None);
        }
        self.deadlines.remove(node);
        Some(child)
    }

    /// A child that is no affair of ours any more; answers who waits for its end.
    pub(super) fn forget_child(&mut self, node: NodeId) -> Vec<Reply<Ended>> {
        self.unwatch(node)
            .map_or_else(Vec::new, |child| child.waiters)
    }

    pub(super) fn remove_leaf(&mut self, leaf: Leaf, tries: u32, now: Now) {
        match leaf.remove() {
            Ok(Removed::Done | Removed::Gone) => {}
            Ok(Removed::Busy) if tries < LEAF_TRIES => {
                self.stale_leaves.push((leaf, tries + 1));
                self.timers
                    .at_latest(Key::StaleLeaves, now.mono.plus(LEAF_PAUSE));
            }
            Ok(Removed::Busy) => {
                tracing::warn!(leaf = %leaf.path().display(), "a leaf stays busy; left behind");
            }
            Err(error) => {
                tracing::warn!(leaf = %leaf.path().display(), %error, "cannot remove a leaf");
            }
        }
    }

    pub(super) fn remove_stale_leaves(&mut self, now: Now) {
        for (leaf, tries) in std::mem::take(&mut self.stale_leaves) {
            self.remove_leaf(leaf, tries, now);
        }
    }
}

/// What a row without a cancel could not tell else: why somebody who asked for nothing is gone.
fn unsaid(child: &Child, outcome: Outcome) -> Option<String> {
    if outcome == Outcome::Completed {
        return None;
    }
    if child.tty && child.machine.was_asked(libc::SIGHUP) {
        return Some("its terminal was closed".to_owned());
    }
    let cut = child
        .channel
        .as_ref()
        .is_some_and(|channel| !channel.decoder.is_between_frames());
    // An exit that is seen before the end of the channel leaves the channel open.
    let why = child.lost.as_deref().or(cut.then_some(CUT))?;
    // That its end is closed is what every exit looks like.
    (why != CLOSED).then(|| format!("its control channel was lost: {why}"))
}
