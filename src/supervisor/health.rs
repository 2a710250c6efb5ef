//! What a worker shows of its life, from whichever side it comes: a frame, a notify message, a
//! report, its CPU time. [`super::life`] decides what follows; here it is carried out.

use std::time::Duration;

use super::Supervisor;
use super::children::Child;
use super::life::{Facts, Life, Look, Promise};
use super::timers::Key;
use crate::sys::cgroup::Leaf;
use crate::worker::{Control, Health, NodeId, Now, Row, WorkerId};

/// A reading of the CPU time, for somebody who looks at the list, is good for so long.
const FRESH: Duration = Duration::from_secs(5);
/// The most that one message of a worker may ask for.
const EXTENSION_MAX: Duration = Duration::from_secs(24 * 3600);

impl Supervisor {
    /// The worker did something of substance.
    pub(super) fn progressed(&mut self, node: NodeId, now: Now) {
        if let Some(child) = self.children.get_mut(node) {
            child.life.progressed(now.mono);
        }
    }

    /// The worker answered a ping, or said by itself that it is there.
    pub(super) fn ponged(&mut self, node: NodeId, now: Now) {
        if let Some(child) = self.children.get_mut(node) {
            child.life.ponged(now.mono);
        }
    }

    /// The worker asked for so much more time (`EXTEND_TIMEOUT_USEC=`): until then it is healthy.
    pub(super) fn extended(&mut self, node: NodeId, by: Duration, now: Now) {
        if let Some(child) = self.children.get_mut(node) {
            child.life.extended(by.min(EXTENSION_MAX), now.mono);
        }
    }

    /// The worker used so many tokens more. Counts as progress. A spent budget ends it.
    pub(super) fn used(&mut self, node: NodeId, input: u64, output: u64, now: Now) {
        self.progressed(node, now);
        let Some(id) = self.children.get(node).map(|child| child.id) else {
            return;
        };
        let mut spent = false;
        let counters = &mut self.counters;
        counters.input_tokens = counters.input_tokens.saturating_add(input);
        counters.output_tokens = counters.output_tokens.saturating_add(output);
        let _ = self.registry.update(id, |row| {
            row.tokens.input = row.tokens.input.saturating_add(input);
            row.tokens.output = row.tokens.output.saturating_add(output);
            spent = row.budget_is_spent();
        });
        self.save_sometime(id, now);
        if spent {
            self.end_by_itself(node, "token-budget");
        }
    }

    /// The channel of a worker is gone, or is of no use any more. If the worker is still there a
    /// moment later, its ladder starts.
    pub(super) fn channel_lost(&mut self, node: NodeId, why: &str, now: Now) {
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        tracing::debug!(MUSTER_WORKER = %child.id, "control channel lost: {why}");
        child.life.lost_channel(now.mono);
        child.lost.get_or_insert_with(|| why.into());
        self.watch_life(node);
    }

    /// Something that liveness hangs on has changed (settled, held, attended, thawed).
    pub(super) fn watch_life(&mut self, node: NodeId) {
        let Some(facts) = self.life_facts(node) else {
            return;
        };
        let due = self
            .children
            .get_mut(node)
            .filter(|child| !child.machine.is_stopping())
            .and_then(|child| child.life.due(&facts));
        self.timers.set(Key::Life(node), due);
    }

    /// The time has come to look at a worker.
    pub(super) fn look_at_life(&mut self, node: NodeId, now: Now) {
        let Some(facts) = self.life_facts(node) else {
            return;
        };
        // A reading of the CPU time is asked for once in a look, a ping is sent once.
        for _ in 0..3 {
            let Some(child) = self.children.get_mut(node) else {
                return;
            };
            match child.life.look(&facts, now) {
                Look::Nothing => break,
                Look::ReadCpu => read_cpu(child, now),
                Look::Ping(seq) => {
                    self.ping(node, seq);
                }
                Look::End(reason) => {
                    let lost = child.lost.clone();
                    let reason =
                        lost.map_or_else(|| reason.to_owned(), |why| format!("{reason}: {why}"));
                    self.end_by_itself(node, &reason);
                    break;
                }
            }
        }
        self.watch_life(node);
    }

    /// A ladder that the daemon starts for a reason of its own, unless one is under way.
    pub(super) fn end_by_itself(&mut self, node: NodeId, reason: &str) {
        if self
            .children
            .get(node)
            .is_some_and(|child| !child.machine.is_stopping() && child.machine.lives())
        {
            let by = self.set.me.uid;
            self.cancel_node(node, by, reason, false);
        }
    }

    pub(super) fn thawed(&mut self, node: NodeId, now: Now) {
        if let Some(child) = self.children.get_mut(node) {
            child.life.thawed(now.mono);
        }
        self.watch_life(node);
    }

    fn life_facts(&self, node: NodeId) -> Option<Facts> {
        let child = self.children.get(node)?;
        Some(facts(child, self.registry.get(child.id)))
    }

    pub(super) fn health(&self, child: &Child, row: &Row, now: Now) -> Health {
        child.life.health(&facts(child, Some(row)), now)
    }

    /// Would [`Supervisor::refresh_health`] read something?
    pub(super) fn health_is_stale(&self, row: &Row, now: Now) -> bool {
        // Most rows of a roll have ended.
        !row.status.is_terminal()
            && self.children.of_worker(row.id).is_some_and(|child| {
                let age = FRESH.min(child.life.promise.progress);
                child.life.wants_cpu(&facts(child, Some(row)), age, now)
            })
    }

    /// Reads the CPU time of a worker that somebody looks at, where it could make a difference.
    pub(super) fn refresh_health(&mut self, id: WorkerId, now: Now) {
        let Some(node) = self.children.node_of(id) else {
            return;
        };
        let Some(facts) = self.life_facts(node) else {
            return;
        };
        if let Some(child) = self.children.get_mut(node)
            && child
                .life
                .wants_cpu(&facts, FRESH.min(child.life.promise.progress), now)
        {
            read_cpu(child, now);
        }
    }

    /// The hard deadline a worker is told of, counted from its start.
    pub(super) fn deadline_told(&self, row: &Row) -> Option<Duration> {
        row.timeouts
            .deadline
            .or(Some(self.set.config.liveness.deadline))
            .filter(|deadline| !deadline.is_zero())
    }

    /// What a new worker is held to: what it asked for, over what is configured.
    pub(super) fn life(&self, row: &Row, now: Now) -> Life {
        let liveness = &self.set.config.liveness;
        let frames = row.control == Control::Frames;
        let promise = Promise {
            progress: row.timeouts.progress.unwrap_or(liveness.progress),
            pong: row
                .timeouts
                .pong
                .or_else(|| frames.then_some(liveness.pong)),
            pings: frames,
            by_cpu: !frames,
            idle: row
                .timeouts
                .idle
                .or(Some(liveness.idle))
                .filter(|idle| !idle.is_zero()),
        };
        Life::new(promise, now.mono)
    }
}

fn facts(child: &Child, row: Option<&Row>) -> Facts {
    Facts {
        deadline: child.deadline,
        ended: !child.machine.lives(),
        frozen: child.frozen,
        settled: child.said,
        kept: child.attended > 0 || row.is_some_and(|row| row.held),
    }
}

/// Without a leaf there is no reading: then only messages are progress.
fn read_cpu(child: &mut Child, now: Now) {
    let usec = child.leaf.as_ref().and_then(Leaf::cpu_usec);
    child.life.used_cpu(usec.unwrap_or(0), now.mono);
}
