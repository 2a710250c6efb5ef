//! Is an ended worker to be started again, and when? PURE (specification section 10).
//!
//! The wait doubles with each restart and begins anew after a generation that lived long enough.
//! So many restarts within the window, and the next end is for good.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::worker::{Mono, Outcome, RestartPolicy};

/// What was asked for and what is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// After which ends.
    pub policy: RestartPolicy,
    /// Restarts within the window at most.
    pub max: u32,
    /// The window.
    pub window: Duration,
    /// First wait.
    pub backoff_min: Duration,
    /// Longest wait.
    pub backoff_max: Duration,
    /// A generation that lived so long makes the waits begin anew.
    pub reset_after: Duration,
}

/// The restarts of one worker so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// When generations were asked for, within the window.
    at: VecDeque<Mono>,
    /// How often in a row without a long life between.
    streak: u32,
}

/// The end of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// How long it lived; zero if it could not be started.
    pub lived: Duration,
    /// Its end was asked for, or no new generation may begin any more.
    pub stopped: bool,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// This was the last generation.
    Ended,
    /// The ceiling is hit: permanent-dead.
    Dead,
    /// The next generation begins after this.
    Again(Duration),
}

/// Decides about the end of a generation and notes it. `jitter` is any number: workers that died
/// together shall not come back together.
pub fn decide(rules: &Rules, history: &mut History, end: End, jitter: u16, now: Mono) -> Verdict {
    if end.stopped || !asks(rules.policy, end.outcome) {
        return Verdict::Ended;
    }
    if end.lived >= rules.reset_after {
        *history = History::default();
    }
    while history
        .at
        .front()
        .is_some_and(|at| now.since(*at) >= rules.window)
    {
        history.at.pop_front();
    }
    let within = u32::try_from(history.at.len()).unwrap_or(u32::MAX);
    if within >= rules.max {
        return Verdict::Dead;
    }
    let wait = backoff(rules, history.streak, jitter);
    history.streak = history.streak.saturating_add(1);
    history.at.push_back(now);
    Verdict::Again(wait)
}

fn asks(policy: RestartPolicy, outcome: Outcome) -> bool {
    match policy {
        RestartPolicy::No => false,
        RestartPolicy::OnFailure => matches!(outcome, Outcome::Crashed | Outcome::Unknown),
        RestartPolicy::Always => outcome != Outcome::Cancelled,
    }
}

/// Doubled each time, up to a quarter longer by the jitter; a quarter shorter at the upper end,
/// so that it stays within its bounds.
fn backoff(rules: &Rules, streak: u32, jitter: u16) -> Duration {
    let max = rules.backoff_max.max(rules.backoff_min);
    let factor = 1_u32.checked_shl(streak).unwrap_or(u32::MAX).max(1);
    let base = rules.backoff_min.saturating_mul(factor).min(max);
    let spread = (base / 4).saturating_mul(u32::from(jitter)) / u32::from(u16::MAX);
    if base.saturating_add(base / 4) <= max {
        base + spread
    } else {
        base.saturating_sub(spread).max(rules.backoff_min)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(policy: RestartPolicy) -> Rules {
        Rules {
            policy,
            max: 5,
            window: Duration::from_secs(600),
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_secs(300),
            reset_after: Duration::from_secs(300),
        }
    }

    fn at(seconds: u64) -> Mono {
        Mono(1_000_000_000_000 + seconds * 1_000_000_000)
    }

    fn end(outcome: Outcome, lived: u64) -> End {
        End {
            outcome,
            lived: Duration::from_secs(lived),
            stopped: false,
        }
    }

    #[test]
    fn the_table_of_policies() {
        use Outcome::{Cancelled, Completed, Crashed, Unknown};
        use RestartPolicy::{Always, No, OnFailure};
        for (policy, outcome, again) in [
            (No, Crashed, false),
            (No, Unknown, false),
            (OnFailure, Completed, false),
            (OnFailure, Crashed, true),
            (OnFailure, Unknown, true),
            (OnFailure, Cancelled, false),
            (Always, Completed, true),
            (Always, Crashed, true),
            (Always, Unknown, true),
            (Always, Cancelled, false),
        ] {
            let mut history = History::default();
            let verdict = decide(&rules(policy), &mut history, end(outcome, 1), 0, at(0));
            assert_eq!(
                matches!(verdict, Verdict::Again(_)),
                again,
                "{policy} {outcome}"
            );
        }
    }

    #[test]
    fn the_wait_doubles_until_the_ceiling_makes_it_dead() {
        let rules = rules(RestartPolicy::OnFailure);
        let mut history = History::default();
        let mut now = 0;
        for wait in [1, 2, 4, 8, 16] {
            let verdict = decide(&rules, &mut history, end(Outcome::Crashed, 0), 0, at(now));
            assert_eq!(verdict, Verdict::Again(Duration::from_secs(wait)));
            now += wait;
        }
        let verdict = decide(&rules, &mut history, end(Outcome::Crashed, 0), 0, at(now));
        assert_eq!(verdict, Verdict::Dead);
    }

    #[test]
    fn short_lives_do_not_reset_and_a_long_one_does() {
        let rules = rules(RestartPolicy::Always);
        let mut history = History::default();
        let mut wait = |lived, now| {
            decide(
                &rules,
                &mut history,
                end(Outcome::Completed, lived),
                0,
                at(now),
            )
        };
        assert_eq!(wait(0, 0), Verdict::Again(Duration::from_secs(1)));
        assert_eq!(wait(299, 300), Verdict::Again(Duration::from_secs(2)));
        assert_eq!(wait(300, 610), Verdict::Again(Duration::from_secs(1)));
    }

    #[test]
    fn a_ceiling_of_none_is_dead_at_once() {
        let rules = Rules {
            max: 0,
            ..rules(RestartPolicy::Always)
        };
        let verdict = decide(
            &rules,
            &mut History::default(),
            end(Outcome::Crashed, 9),
            0,
            at(0),
        );
        assert_eq!(verdict, Verdict::Dead);
    }

    proptest! {
        #[test]
        fn waits_keep_their_bounds_and_the_window_its_ceiling(
            ends in proptest::collection::vec((0u64..900, any::<u16>(), any::<bool>()), 1..80),
            max in 0u32..8,
            min_ms in 1u64..5_000,
        ) {
            let rules = Rules {
                max,
                backoff_min: Duration::from_millis(min_ms),
                ..rules(RestartPolicy::Always)
            };
            let (mut history, mut now, mut begun) = (History::default(), at(0), Vec::new());
            for (lived, jitter, crashed) in ends {
                let lived = Duration::from_secs(lived);
                now = now.plus(lived);
                let outcome = if crashed { Outcome::Crashed } else { Outcome::Completed };
                if lived >= rules.reset_after {
                    begun.clear();
                }
                let end = End { outcome, lived, stopped: false };
                match decide(&rules, &mut history, end, jitter, now) {
                    Verdict::Again(wait) => {
                        prop_assert!(wait >= rules.backoff_min && wait <= rules.backoff_max);
                        begun.push(now);
                        now = now.plus(wait);
                    }
                    Verdict::Dead => {
                        let within = begun.iter().filter(|at| now.since(**at) < rules.window);
                        prop_assert_eq!(within.count(), max as usize);
                        break;
                    }
                    Verdict::Ended => prop_assert!(false, "always asks"),
                }
                let within = begun.iter().filter(|at| now.since(**at) < rules.window);
                prop_assert!(within.count() <= max as usize);
            }
        }

        #[test]
        fn what_was_stopped_never_begins_again(
            outcome in proptest::sample::select(Outcome::ALL), lived in 0u64..1000, jitter: u16,
        ) {
            let end = End { outcome, lived: Duration::from_secs(lived), stopped: true };
            let verdict = decide(
                &rules(RestartPolicy::Always), &mut History::default(), end, jitter, at(0),
            );
            prop_assert_eq!(verdict, Verdict::Ended);
        }
    }
}
