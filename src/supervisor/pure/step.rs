//! One worker from its start to its end: an event in, effects out. PURE (sections 5, 7, 8).
//!
//! The machine does not log, wait, read a clock or touch a file. Its owner carries the effects
//! out in their order and reports what came of them as further events.

#![forbid(unsafe_code)]

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ladder::{Act, Ladder, Plan};
use crate::worker::{Exit, LeftoversPolicy, Mono, Outcome, Rung};

/// How long the first signal waits for `stopping` to reach the disk.
pub const SAVE_WAIT: Duration = Duration::from_secs(2);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Its end was asked for; with `force`, at once.
    Cancel {
        /// Straight to the kill rung.
        force: bool,
    },
    /// A signal was asked for through musterd.
    Signalled(i32),
    /// `stopping` is on disk, or could not be written.
    Saved,
    /// The leader has ended; its frames have all been handled before this.
    LeaderExited(Exit),
    /// The leader has ended, and how is not for us to know: it was no child of ours.
    LeaderGone,
    /// It needs longer, as it said itself: no rung is due before `until`.
    Extended {
        /// Within the bound that its owner sets.
        until: Mono,
    },
    /// A look after the leader's end found processes.
    Left,
    /// Nothing of the worker is left.
    Emptied,
    /// The question could not be put.
    Deaf,
    /// Time has passed.
    Tick,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Write the row as `stopping`, then report [`Event::Saved`].
    SaveStopping,
    /// A rung's work.
    Act(Act),
    /// See what is left; report [`Event::Left`] or [`Event::Emptied`].
    Look,
    /// It is over: reap the leader, remove the leaf, settle the row.
    Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Leader {
    Runs,
    Ended(Exit),
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Saving {
    until: Mono,
    force: bool,
}

/// The state of one worker that has a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    plan: Plan,
    leftovers: LeftoversPolicy,
    leader: Leader,
    saving: Option<Saving>,
    ladder: Option<Ladder>,
    ladder_before_exit: bool,
    asked: Vec<i32>,
    finished: bool,
}

impl Machine {
    /// For a worker whose program has just been executed.
    pub fn new(plan: Plan, leftovers: LeftoversPolicy) -> Self {
        Self {
            plan,
            leftovers,
            leader: Leader::Runs,
            saving: None,
            ladder: None,
            ladder_before_exit: false,
            asked: Vec::new(),
            finished: false,
        }
    }

    /// The next state is kept; the effects are to be carried out in order.
    pub fn step(&mut self, event: Event, now: Mono) -> Vec<Effect> {
        if self.finished {
            return Vec::new();
        }
        match event {
            Event::Cancel { force } => self.cancel(force, now),
            Event::Signalled(signal) => {
                if self.leader_runs() && !self.asked.contains(&signal) {
                    self.asked.push(signal);
                }
                Vec::new()
            }
            Event::Saved => self.begin(now),
            Event::LeaderExited(exit) => {
                self.leader = Leader::Ended(exit);
                vec![Effect::Look]
            }
            Event::LeaderGone => {
                self.leader = Leader::Gone;
                vec![Effect::Look]
            }
            Event::Extended { until } => {
                if let Some(ladder) = &mut self.ladder {
                    ladder.extend(&self.plan, until);
                }
                Vec::new()
            }
            Event::Left => self.left(now),
            Event::Emptied => self.emptied(),
            Event::Deaf => self.deaf(now),
            Event::Tick => self.tick(now),
        }
    }

    fn cancel(&mut self, force: bool, now: Mono) -> Vec<Effect> {
        if let Some(ladder) = &mut self.ladder {
            return if force {
                acts(ladder.force(now))
            } else {
                Vec::new()
            };
        }
        if let Some(saving) = &mut self.saving {
            saving.force |= force;
            return Vec::new();
        }
        self.ladder_before_exit |= self.leader_runs();
        self.saving = Some(Saving {
            until: now.plus(SAVE_WAIT),
            force,
        });
        vec![Effect::SaveStopping]
    }

    fn begin(&mut self, now: Mono) -> Vec<Effect> {
        let Some(saving) = self.saving.take() else {
            return Vec::new();
        };
        self.start_ladder(now, saving.force)
    }

    fn start_ladder(&mut self, now: Mono, force: bool) -> Vec<Effect> {
        let (ladder, first) = Ladder::begin(&self.plan, now, self.leader_runs(), force);
        self.ladder = Some(ladder);
        acts(first)
    }

    fn left(&mut self, now: Mono) -> Vec<Effect> {
        if self.leader_runs() || self.saving.is_some() {
            return Vec::new();
        }
        match &mut self.ladder {
            Some(ladder) => acts(ladder.leader_ended(&self.plan, now)),
            None if self.leftovers == LeftoversPolicy::Kill => self.start_ladder(now, false),
            None => Vec::new(),
        }
    }

    fn emptied(&mut self) -> Vec<Effect> {
        if self.leader_runs() {
            return Vec::new();
        }
        self.finished = true;
        vec![Effect::Finish]
    }

    fn deaf(&mut self, now: Mono) -> Vec<Effect> {
        let leader_runs = self.leader_runs();
        self.plan.channel = false;
        match &mut self.ladder {
            Some(ladder) => acts(ladder.unheard(&self.plan, now, leader_runs)),
            None => Vec::new(),
        }
    }

    /// It has no channel any more. A question that was put already keeps its grace.
    pub fn channel_ended(&mut self) {
        self.plan.channel = false;
    }

    fn tick(&mut self, now: Mono) -> Vec<Effect> {
        if self.saving.is_some_and(|saving| now >= saving.until) {
            return self.begin(now);
        }
        let leader_runs = self.leader_runs();
        match &mut self.ladder {
            Some(ladder) => acts(ladder.tick(&self.plan, now, leader_runs)),
            None => Vec::new(),
        }
    }

    /// When a [`Event::Tick`] has something to do.
    pub fn due(&self) -> Option<Mono> {
        if self.finished {
            return None;
        }
        self.saving
            .map(|saving| saving.until)
            .or(self.ladder.as_ref().map(Ladder::due))
    }

    /// The leader has not been seen to end.
    pub fn leader_runs(&self) -> bool {
        self.leader == Leader::Runs
    }

    /// The leader runs, or what it left may go on without it: the worker lives.
    pub fn lives(&self) -> bool {
        self.leader_runs() || (self.leftovers == LeftoversPolicy::Wait && !self.finished)
    }

    /// Was its end by this signal asked for, by whom ever?
    pub fn was_asked(&self, signal: i32) -> bool {
        self.asked.contains(&signal)
    }

    /// A ladder is under way or about to begin.
    pub fn is_stopping(&self) -> bool {
        self.saving.is_some() || self.ladder.is_some()
    }

    /// The ladder waits for `stopping` to reach the disk.
    pub fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// The leader's exit, once it has ended.
    pub fn exit(&self) -> Option<Exit> {
        match self.leader {
            Leader::Runs | Leader::Gone => None,
            Leader::Ended(exit) => Some(exit),
        }
    }

    /// The rung it is at, or the one that worked.
    pub fn rung(&self) -> Rung {
        self.ladder.as_ref().map_or(Rung::None, Ladder::rung)
    }

    /// When the ladder began.
    pub fn ladder_began(&self) -> Option<Mono> {
        self.ladder.as_ref().map(Ladder::began)
    }

    /// How it ended, once its leader has.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.leader {
            Leader::Runs => None,
            Leader::Ended(exit) => Some(outcome(exit, self.ladder_before_exit, &self.asked)),
            Leader::Gone => Some(outcome_unseen(self.ladder_before_exit, &self.asked)),
        }
    }
}

fn acts(acts: Vec<Act>) -> Vec<Effect> {
    acts.into_iter().map(Effect::Act).collect()
}

/// Signals that ask a program to end: HUP, INT, QUIT, ABRT, KILL, TERM. After one of these any
/// exit is the asker's doing; another signal only explains a death by that very signal.
const ENDING: [i32; 6] = [1, 2, 3, 6, 9, 15];

/// The outcome of a witnessed end (section 1).
pub fn outcome(exit: Exit, ladder_before_exit: bool, asked: &[i32]) -> Outcome {
    let explained = asked
        .iter()
        .any(|s| ENDING.contains(s) || exit == Exit::Signal(*s));
    match exit {
        _ if ladder_before_exit || explained => Outcome::Cancelled,
        Exit::Code(0) => Outcome::Completed,
        Exit::Code(_) | Exit::Signal(_) => Outcome::Crashed,
    }
}

/// The outcome of an end whose exit is not for us to know.
fn outcome_unseen(ladder_before_exit: bool, asked: &[i32]) -> Outcome {
    if ladder_before_exit || asked.iter().any(|s| ENDING.contains(s)) {
        Outcome::Cancelled
    } else {
        Outcome::Unknown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn machine(leftovers: LeftoversPolicy) -> Machine {
        let plan = Plan {
            channel: false,
            grace: Duration::from_secs(5),
            kill_grace: Duration::from_secs(2),
            stop_signal: 15,
            unkillable_after: Duration::from_secs(5),
        };
        Machine::new(plan, leftovers)
    }

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    #[test]
    fn a_worker_that_ends_cleanly_is_looked_after_and_finished() {
        let mut m = machine(LeftoversPolicy::Kill);
        assert_eq!(
            m.step(Event::LeaderExited(Exit::Code(0)), at(1)),
            [Effect::Look]
        );
        assert_eq!(m.step(Event::Emptied, at(1)), [Effect::Finish]);
        assert_eq!(
            (m.outcome(), m.rung()),
            (Some(Outcome::Completed), Rung::None)
        );
    }

    #[test]
    fn no_signal_is_sent_before_stopping_is_saved() {
        let mut m = machine(LeftoversPolicy::Kill);
        assert_eq!(
            m.step(Event::Cancel { force: true }, at(1)),
            [Effect::SaveStopping]
        );
        assert_eq!(m.step(Event::Tick, at(2)), []);
        assert_eq!(m.step(Event::Saved, at(2)), [Effect::Act(Act::Kill)]);
    }

    #[test]
    fn a_sick_disk_delays_the_ladder_by_two_seconds_at_most() {
        let mut m = machine(LeftoversPolicy::Kill);
        m.step(Event::Cancel { force: false }, at(1));
        assert_eq!(m.due(), Some(at(3)));
        let effects = m.step(Event::Tick, at(3));
        assert!(effects.contains(&Effect::Act(Act::Group(15))));
        assert_eq!(m.step(Event::Saved, at(4)), []);
    }

    #[test]
    fn the_exit_of_the_leader_is_not_the_end() {
        let mut m = machine(LeftoversPolicy::Kill);
        m.step(Event::LeaderExited(Exit::Code(0)), at(1));
        let effects = m.step(Event::Left, at(1));
        assert!(effects.contains(&Effect::Act(Act::Rest(15))));
        assert!(m.is_stopping());
        assert_eq!(m.step(Event::Tick, at(3)), [Effect::Act(Act::Kill)]);
        assert_eq!(m.step(Event::Emptied, at(4)), [Effect::Finish]);
        assert_eq!(
            (m.outcome(), m.rung()),
            (Some(Outcome::Completed), Rung::Kill)
        );
    }

    #[test]
    fn with_leftovers_wait_the_worker_lives_until_the_last_of_them_ends() {
        let mut m = machine(LeftoversPolicy::Wait);
        m.step(Event::LeaderExited(Exit::Code(3)), at(1));
        assert_eq!(m.step(Event::Left, at(1)), []);
        assert_eq!(m.due(), None);
        m.step(Event::Cancel { force: false }, at(5));
        assert!(
            m.step(Event::Saved, at(5))
                .contains(&Effect::Act(Act::Rest(15)))
        );
        assert_eq!(m.step(Event::Emptied, at(6)), [Effect::Finish]);
        assert_eq!(
            m.outcome(),
            Some(Outcome::Crashed),
            "the cancel came after the exit"
        );
    }

    #[test]
    fn the_table_of_outcomes() {
        for (exit, ladder, asked, outcome_wanted) in [
            (Exit::Code(0), false, vec![], Outcome::Completed),
            (Exit::Code(1), false, vec![], Outcome::Crashed),
            (Exit::Signal(9), false, vec![], Outcome::Crashed),
            (Exit::Code(0), true, vec![], Outcome::Cancelled),
            (Exit::Code(143), true, vec![], Outcome::Cancelled),
            (Exit::Signal(9), true, vec![], Outcome::Cancelled),
            (Exit::Code(143), false, vec![15], Outcome::Cancelled),
            (Exit::Signal(10), false, vec![10], Outcome::Cancelled),
            (Exit::Code(0), false, vec![10], Outcome::Completed),
            (Exit::Signal(11), false, vec![18], Outcome::Crashed),
        ] {
            assert_eq!(
                outcome(exit, ladder, &asked),
                outcome_wanted,
                "{exit:?} {ladder} {asked:?}"
            );
        }
    }

    #[test]
    fn of_a_process_that_is_no_child_only_the_asking_is_known() {
        let mut m = machine(LeftoversPolicy::Wait);
        assert_eq!(m.step(Event::LeaderGone, at(1)), [Effect::Look]);
        assert_eq!(m.step(Event::Emptied, at(1)), [Effect::Finish]);
        assert_eq!((m.exit(), m.outcome()), (None, Some(Outcome::Unknown)));
        let mut m = machine(LeftoversPolicy::Wait);
        m.step(Event::Cancel { force: false }, at(1));
        m.step(Event::Saved, at(1));
        m.step(Event::LeaderGone, at(2));
        assert_eq!(m.outcome(), Some(Outcome::Cancelled));
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            any::<bool>().prop_map(|force| Event::Cancel { force }),
            (1..65i32).prop_map(Event::Signalled),
            Just(Event::Saved),
            (0..256i32).prop_map(|c| Event::LeaderExited(Exit::Code(c))),
            Just(Event::LeaderGone),
            (0..40u64).prop_map(|s| Event::Extended { until: at(s) }),
            Just(Event::Left),
            Just(Event::Emptied),
            Just(Event::Deaf),
            Just(Event::Tick),
        ]
    }

    proptest! {
        #[test]
        fn whatever_happens_it_finishes_once_and_only_after_the_leaders_end(
            events in proptest::collection::vec((event(), 0u64..4), 1..60),
        ) {
            let mut m = machine(LeftoversPolicy::Kill);
            let (mut clock, mut finishes, mut leader_ended, mut saves) = (1, 0, false, 0);
            for (event, pause) in events {
                clock += pause;
                leader_ended |= matches!(event, Event::LeaderExited(_) | Event::LeaderGone);
                for effect in m.step(event, at(clock)) {
                    match effect {
                        Effect::Finish => {
                            finishes += 1;
                            prop_assert!(leader_ended && event == Event::Emptied);
                        }
                        Effect::SaveStopping => saves += 1,
                        Effect::Act(_) | Effect::Look => prop_assert_eq!(finishes, 0),
                    }
                }
            }
            prop_assert!(finishes <= 1 && saves <= 1);
        }

        #[test]
        fn once_asked_to_end_it_always_reaches_the_kill(
            events in proptest::collection::vec(event(), 0..20),
        ) {
            let mut m = machine(LeftoversPolicy::Kill);
            m.step(Event::Cancel { force: false }, at(1));
            for event in events.into_iter().filter(|e| *e != Event::Emptied) {
                m.step(event, at(1));
            }
            for _ in 0..6 {
                let due = m.due().expect("a ladder under way is always due");
                m.step(Event::Tick, due);
            }
            prop_assert!(matches!(m.rung(), Rung::Kill | Rung::Unkillable));
        }
    }
}
