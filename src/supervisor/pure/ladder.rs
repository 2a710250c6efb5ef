//! Ending a worker: which rung is due and when to look again. PURE (specification section 7).
//!
//! ```text
//! Asked --grace--> Termed --half of kill_grace--> rest of the leaf too --kill_grace--> Killed
//!   |                 |  (at once when the leader has ended)                              |
//!   +-----------------+------------------ force ------------------------> Killed --5 s--> Unkillable
//! ```
//! The ladder never learns that a worker has ended: its owner drops it then, at any rung.

#![forbid(unsafe_code)]

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::worker::{Mono, Rung};

/// How one worker is to be ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// It has a control channel, so it is asked first.
    pub channel: bool,
    /// From the question to the stop signal.
    pub grace: Duration,
    /// From the stop signal to SIGKILL.
    pub kill_grace: Duration,
    /// The stop signal.
    pub stop_signal: i32,
    /// From the first SIGKILL to the word unkillable.
    pub unkillable_after: Duration,
}

/// Something to do, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// The cancel frame on the control channel.
    Ask,
    /// Thaw the leaf if it is frozen: a frozen process handles no signal.
    Thaw,
    /// This signal to the leader's group.
    Group(i32),
    /// This signal to every process of the worker outside the leader's group.
    Rest(i32),
    /// SIGKILL to the group, `cgroup.kill` to the leaf.
    Kill,
    /// It outlived the kill: say so, once.
    Unkillable,
}

/// SIGCONT follows the stop signal: a stopped process acts on nothing else first.
const SIGCONT: i32 = 18;
/// The first look after a SIGKILL; doubled each time.
const RETRY: Duration = Duration::from_millis(250);
/// The longest pause between two SIGKILLs to something unkillable.
const RETRY_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    Asked,
    Termed {
        at: Mono,
        rest: bool,
    },
    Killed {
        at: Mono,
        pause: Duration,
        told: bool,
    },
}

/// A ladder under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ladder {
    began: Mono,
    due: Mono,
    step: Step,
}

impl Ladder {
    /// The first rung: the question where there is a channel, else the stop signal; with
    /// `force` the kill.
    pub fn begin(plan: &Plan, now: Mono, leader_runs: bool, force: bool) -> (Self, Vec<Act>) {
        let mut ladder = Self {
            began: now,
            due: now,
            step: Step::Asked,
        };
        let acts = if force {
            ladder.kill(now)
        } else if plan.channel && leader_runs && !plan.grace.is_zero() {
            ladder.due = now.plus(plan.grace);
            vec![Act::Thaw, Act::Ask]
        } else {
            ladder.term(plan, now, leader_runs)
        };
        (ladder, acts)
    }

    /// When [`Ladder::tick`] has something to do.
    pub fn due(&self) -> Mono {
        self.due
    }

    /// When it began.
    pub fn began(&self) -> Mono {
        self.began
    }

    /// The rung it is at.
    pub fn rung(&self) -> Rung {
        match self.step {
            Step::Asked => Rung::Cancel,
            Step::Termed { .. } => Rung::Term,
            Step::Killed { told: false, .. } => Rung::Kill,
            Step::Killed { told: true, .. } => Rung::Unkillable,
        }
    }

    /// Moves on if something is due at `now`; several rungs at once if the loop was late.
    pub fn tick(&mut self, plan: &Plan, now: Mono, leader_runs: bool) -> Vec<Act> {
        if now < self.due {
            return Vec::new();
        }
        match self.step {
            Step::Asked => self.term(plan, now, leader_runs),
            Step::Termed { at, rest: false } if now < at.plus(plan.kill_grace) => {
                self.rest(plan, at)
            }
            Step::Termed { .. } => self.kill(now),
            Step::Killed { at, pause, told } => self.kill_again(plan, now, at, pause, told),
        }
    }

    /// The leader has ended: what it left gets its stop signal now.
    pub fn leader_ended(&mut self, plan: &Plan, now: Mono) -> Vec<Act> {
        match self.step {
            Step::Asked => self.term(plan, now, false),
            Step::Termed { at, rest: false } => self.rest(plan, at),
            Step::Termed { .. } | Step::Killed { .. } => Vec::new(),
        }
    }

    /// The question could not be put: the stop signal comes now.
    pub fn unheard(&mut self, plan: &Plan, now: Mono, leader_runs: bool) -> Vec<Act> {
        match self.step {
            Step::Asked => self.term(plan, now, leader_runs),
            Step::Termed { .. } | Step::Killed { .. } => Vec::new(),
        }
    }

    /// Straight to the kill rung; nothing if it is there already.
    pub fn force(&mut self, now: Mono) -> Vec<Act> {
        match self.step {
            Step::Killed { .. } => Vec::new(),
            Step::Asked | Step::Termed { .. } => self.kill(now),
        }
    }

    /// The worker needs longer: the kill waits until then, and what comes between moves with it.
    pub fn extend(&mut self, plan: &Plan, until: Mono) {
        match &mut self.step {
            Step::Asked => self.due = self.due.max(until),
            Step::Termed { at, rest } => {
                let kill_grace = u64::try_from(plan.kill_grace.as_nanos()).unwrap_or(u64::MAX);
                *at = (*at).max(Mono(until.0.saturating_sub(kill_grace)));
                self.due = at.plus(if *rest {
                    plan.kill_grace
                } else {
                    plan.kill_grace / 2
                });
            }
            Step::Killed { .. } => {}
        }
    }

    fn term(&mut self, plan: &Plan, now: Mono, leader_runs: bool) -> Vec<Act> {
        if plan.kill_grace.is_zero() {
            return self.kill(now);
        }
        let mut acts = vec![Act::Thaw, Act::Group(plan.stop_signal), Act::Group(SIGCONT)];
        if leader_runs {
            self.step = Step::Termed {
                at: now,
                rest: false,
            };
            self.due = now.plus(plan.kill_grace / 2);
        } else {
            acts.extend(self.rest(plan, now));
        }
        acts
    }

    fn rest(&mut self, plan: &Plan, at: Mono) -> Vec<Act> {
        self.step = Step::Termed { at, rest: true };
        self.due = at.plus(plan.kill_grace);
        vec![Act::Rest(plan.stop_signal), Act::Rest(SIGCONT)]
    }

    fn kill(&mut self, now: Mono) -> Vec<Act> {
        self.step = Step::Killed {
            at: now,
            pause: RETRY,
            told: false,
        };
        self.due = now.plus(RETRY);
        vec![Act::Kill]
    }

    fn kill_again(
        &mut self,
        plan: &Plan,
        now: Mono,
        at: Mono,
        pause: Duration,
        told: bool,
    ) -> Vec<Act> {
        let late = now.since(at) >= plan.unkillable_after;
        let pause = (pause * 2).min(if told {
            RETRY_MAX
        } else {
            plan.unkillable_after.max(RETRY)
        });
        self.step = Step::Killed {
            at,
            pause,
            told: told || late,
        };
        self.due = if late {
            now.plus(pause)
        } else {
            now.plus(pause).min(at.plus(plan.unkillable_after))
        };
        if late && !told {
            vec![Act::Kill, Act::Unkillable]
        } else {
            vec![Act::Kill]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(channel: bool) -> Plan {
        Plan {
            channel,
            grace: Duration::from_secs(5),
            kill_grace: Duration::from_secs(2),
            stop_signal: 15,
            unkillable_after: Duration::from_secs(5),
        }
    }

    fn at(millis: u64) -> Mono {
        Mono(1_000_000_000_000 + millis * 1_000_000)
    }

    #[test]
    fn a_worker_that_needs_longer_is_killed_later_and_a_force_is_not_put_off() {
        let plan = plan(false);
        let (mut ladder, _) = Ladder::begin(&plan, at(0), true, false);
        ladder.extend(&plan, at(10_000));
        assert_eq!(ladder.due(), at(9_000));
        assert!(!ladder.tick(&plan, at(9_000), true).contains(&Act::Kill));
        ladder.extend(&plan, at(500));
        assert_eq!(ladder.due(), at(10_000), "never earlier than it was");
        assert_eq!(ladder.tick(&plan, at(10_000), true), [Act::Kill]);
        ladder.extend(&plan, at(99_000));
        assert_eq!(ladder.due(), at(10_250));
        let (mut ladder, _) = Ladder::begin(&plan, at(0), true, false);
        ladder.extend(&plan, at(10_000));
        assert_eq!(ladder.force(at(100)), [Act::Kill]);
    }

    #[test]
    fn a_worker_with_a_channel_is_asked_then_told_then_killed() {
        let plan = plan(true);
        let (mut ladder, acts) = Ladder::begin(&plan, at(0), true, false);
        assert_eq!(
            (acts, ladder.rung()),
            (vec![Act::Thaw, Act::Ask], Rung::Cancel)
        );
        assert_eq!(ladder.tick(&plan, at(4_999), true), []);
        assert_eq!(
            ladder.tick(&plan, at(5_000), true),
            [Act::Thaw, Act::Group(15), Act::Group(18)]
        );
        assert_eq!(
            ladder.tick(&plan, at(6_000), true),
            [Act::Rest(15), Act::Rest(18)]
        );
        assert_eq!(ladder.tick(&plan, at(6_999), true), []);
        assert_eq!(ladder.tick(&plan, at(7_000), true), [Act::Kill]);
        assert_eq!(ladder.rung(), Rung::Kill);
    }

    #[test]
    fn without_a_channel_the_stop_signal_comes_first_and_helpers_get_half_the_time() {
        let plan = plan(false);
        let (mut ladder, acts) = Ladder::begin(&plan, at(0), true, false);
        assert_eq!(acts, [Act::Thaw, Act::Group(15), Act::Group(18)]);
        assert_eq!(
            ladder.leader_ended(&plan, at(100)),
            [Act::Rest(15), Act::Rest(18)]
        );
        assert_eq!(ladder.leader_ended(&plan, at(101)), []);
        assert_eq!(ladder.tick(&plan, at(2_000), false), [Act::Kill]);
    }

    #[test]
    fn a_leader_that_is_gone_already_does_not_delay_its_leftovers() {
        let (ladder, acts) = Ladder::begin(&plan(true), at(0), false, false);
        assert_eq!(
            acts,
            [
                Act::Thaw,
                Act::Group(15),
                Act::Group(18),
                Act::Rest(15),
                Act::Rest(18)
            ]
        );
        assert_eq!(ladder.due(), at(2_000));
    }

    #[test]
    fn force_jumps_to_the_kill_from_any_rung_and_once() {
        let plan = plan(true);
        for millis in [0, 5_000, 6_000] {
            let (mut ladder, _) = Ladder::begin(&plan, at(0), true, false);
            ladder.tick(&plan, at(millis), true);
            assert_eq!(ladder.force(at(6_500)), [Act::Kill]);
            assert_eq!(ladder.force(at(6_500)), []);
        }
        assert_eq!(Ladder::begin(&plan, at(0), true, true).1, [Act::Kill]);
    }

    #[test]
    fn a_zero_time_means_straight_to_the_next_rung() {
        let zero = Plan {
            grace: Duration::ZERO,
            kill_grace: Duration::ZERO,
            ..plan(true)
        };
        assert_eq!(Ladder::begin(&zero, at(0), true, false).1, [Act::Kill]);
        let no_grace = Plan {
            grace: Duration::ZERO,
            ..plan(true)
        };
        assert_eq!(
            Ladder::begin(&no_grace, at(0), true, false).0.rung(),
            Rung::Term
        );
    }

    #[test]
    fn what_outlives_the_kill_is_named_once_and_tried_again_with_growing_pauses() {
        let plan = plan(false);
        let (mut ladder, _) = Ladder::begin(&plan, at(0), true, true);
        let (mut named, mut kills, mut last) = (0, 0, at(0));
        let mut longest = Duration::ZERO;
        while ladder.due() < at(3_600_000) {
            let now = ladder.due();
            longest = longest.max(now.since(last));
            last = now;
            let acts = ladder.tick(&plan, now, true);
            assert!(acts.contains(&Act::Kill));
            kills += 1;
            if acts.contains(&Act::Unkillable) {
                assert!(now >= at(5_000) && now < at(5_100));
                named += 1;
            }
        }
        assert_eq!(named, 1);
        assert_eq!(ladder.rung(), Rung::Unkillable);
        assert!(kills < 40, "{kills} kills in an hour");
        assert!(longest <= RETRY_MAX);
    }

    #[test]
    fn an_enormous_grace_does_not_overflow() {
        let plan = Plan {
            grace: Duration::MAX,
            kill_grace: Duration::MAX,
            ..plan(true)
        };
        let (mut ladder, _) = Ladder::begin(&plan, at(0), true, false);
        assert_eq!(ladder.due(), Mono(u64::MAX));
        assert_eq!(ladder.leader_ended(&plan, at(1)).len(), 5);
    }
}
