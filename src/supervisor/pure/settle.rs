//! Has a worker said how its work came out, and what follows when it ends? PURE (specification
//! section 5).
//!
//! Everything here rests on the row, so it is answered the same after the worker has left the
//! table, after a reload and after a crash.

#![forbid(unsafe_code)]

use crate::worker::{Control, HowKnown, Kind, Row};

/// What a row says about settling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// A terminal frame was folded in.
    pub settled: bool,
    /// The end is written; the first one stays.
    pub ended: bool,
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Write the row as settled. Nothing else of it changes.
    Save,
    /// Tell whoever asked what was said.
    Answer,
    /// It ended without a word: tell whoever asked that no answer comes.
    Fail,
    /// Tell the world of the end, with the reservation that goes free by it.
    Release,
}

impl Account {
    /// Of a row.
    pub fn of(row: &Row) -> Self {
        Self {
            settled: row.settled,
            ended: row.status.is_terminal() && row.outcome.is_some(),
        }
    }

    /// A terminal frame, or a report that means the same. The first one counts.
    pub fn terminal(&mut self) -> Vec<Effect> {
        if self.settled || self.ended {
            return Vec::new();
        }
        self.settled = true;
        vec![Effect::Save, Effect::Answer]
    }

    /// Its end for good, however it came: witnessed, found, or a start that failed.
    pub fn end(&mut self) -> Vec<Effect> {
        if self.ended {
            return Vec::new();
        }
        self.ended = true;
        if self.settled {
            vec![Effect::Release]
        } else {
            vec![Effect::Fail, Effect::Release]
        }
    }
}

/// Is its end without a terminal frame a failure? A plain program says how it went by its exit.
pub fn owes(kind: &Kind, control: Control) -> bool {
    *kind != Kind::Command || control == Control::Frames
}

/// Did it end without the terminal frame that it owed? A cancel says why there is none, and what
/// never ran owed nothing.
pub fn unsettled(row: &Row) -> bool {
    Account::of(row).ended
        && !row.settled
        && row.cancelled.is_none()
        && row.how_known != Some(HowKnown::StartFailed)
        && owes(&row.kind, row.control)
}

/// What is worth telling of a row in words: what it said of its failure, what was seen of it,
/// and what it did not say.
pub fn note(row: &Row) -> Option<String> {
    let said = Some(row.failure.as_str()).filter(|error| !error.is_empty());
    let parts: Vec<String> = said
        .map(|error| format!("it said that it failed: {error}"))
        .into_iter()
        .chain(row.note.clone())
        .chain(unsettled(row).then(|| UNSETTLED.to_owned()))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Of an end that counts as a failure whatever the exit code says.
const UNSETTLED: &str = "it ended without a result";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::worker::{Outcome, Owner, Status, Timestamp, WorkerId};

    /// What can happen to one worker and the row it has on disk.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Terminal,
        Written,
        End,
        Restart,
        Reload,
        Crash,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => Just(Event::Terminal),
            3 => Just(Event::Written),
            2 => Just(Event::End),
            2 => Just(Event::Restart),
            1 => Just(Event::Reload),
            1 => Just(Event::Crash),
        ]
    }

    #[derive(Debug, Default)]
    struct World {
        memory: Account,
        disk: Account,
        answers: u32,
        failures: u32,
        releases: u32,
        said: bool,
    }

    impl World {
        fn carry_out(&mut self, effects: Vec<Effect>) {
            for effect in effects {
                match effect {
                    Effect::Save => {}
                    Effect::Answer => self.answers += 1,
                    Effect::Fail => self.failures += 1,
                    Effect::Release => self.releases += 1,
                }
            }
        }

        fn happen(&mut self, event: Event) {
            match event {
                Event::Terminal => {
                    self.said |= !self.memory.ended;
                    let effects = self.memory.terminal();
                    self.carry_out(effects);
                }
                Event::Written => self.disk = self.memory,
                Event::End => {
                    let effects = self.memory.end();
                    self.carry_out(effects);
                    // The end is told once it is on disk.
                    self.disk = self.memory;
                }
                // The rows are on disk when the next image begins.
                Event::Reload => self.disk = self.memory,
                // A generation that is followed by another ends nothing: the row goes on.
                Event::Restart => {}
                // The next daemon finds the row as it is on disk, and the worker gone.
                Event::Crash => {
                    self.memory = self.disk;
                    let effects = self.memory.end();
                    self.carry_out(effects);
                    self.disk = self.memory;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_reservation_is_released_once_and_every_failure_told_once(
            events in proptest::collection::vec(event(), 0..40),
        ) {
            let mut world = World::default();
            for event in events.iter().copied().chain([Event::End]) {
                let before = world.memory;
                world.happen(event);
                // Only a crash takes back what no file has.
                let crashed = matches!(event, Event::Crash);
                prop_assert!(!before.settled || world.memory.settled || crashed);
                prop_assert!(!before.ended || world.memory.ended);
            }
            prop_assert_eq!(world.releases, 1);
            prop_assert!(world.failures <= 1 && world.answers <= 1);
            prop_assert_eq!(world.failures == 0, world.disk.settled);
            let crash = events.iter().any(|e| matches!(e, Event::Crash));
            if !crash {
                prop_assert_eq!(world.disk.settled, world.said);
                prop_assert_eq!(world.answers + world.failures, 1);
            }
        }
    }

    #[test]
    fn a_failed_frame_and_the_exit_after_it_fail_the_unit_once() {
        let mut account = Account::default();
        assert_eq!(account.terminal(), [Effect::Save, Effect::Answer]);
        assert_eq!(account.end(), [Effect::Release]);
        assert_eq!((account.terminal(), account.end()), (vec![], vec![]));
    }

    #[test]
    fn a_note_tells_what_it_said_what_was_seen_and_what_it_did_not_say() {
        let owner = Owner { uid: 1, gid: 1 };
        let mut row = Row::new(WorkerId::from_bits(1), owner, Timestamp(1));
        row.kind = Kind::Subagent { handle: "h".into() };
        row.status = Status::Exited;
        assert_eq!(note(&row), None);
        row.outcome = Some(Outcome::Completed);
        assert_eq!(note(&row).as_deref(), Some("it ended without a result"));
        row.note = Some("the daemon was lost".into());
        row.failure = "no key".to_owned().into();
        row.settled = true;
        let whole = "it said that it failed: no key; the daemon was lost";
        assert_eq!(note(&row).as_deref(), Some(whole));
        (row.settled, row.note) = (false, None);
        row.failure = String::new().into();
        row.how_known = Some(HowKnown::StartFailed);
        assert_eq!(note(&row), None);
    }

    #[test]
    fn a_plain_program_owes_no_word() {
        let think = Kind::Subagent { handle: "h".into() };
        assert!(!owes(&Kind::Command, Control::None));
        assert!(!owes(&Kind::Command, Control::Notify));
        assert!(owes(&Kind::Command, Control::Frames));
        assert!(owes(&think, Control::None));
    }
}
