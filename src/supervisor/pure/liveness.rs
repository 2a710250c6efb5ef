//! Is a live worker well? Three detectors, one answer. PURE (specification section 6).
//!
//! A: a hard deadline. B: no progress. C: ping and pong. The end of the channel dominates; then
//! the deadline; then recent progress; then a recent pong; else it is stuck.

#![forbid(unsafe_code)]

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::worker::{Boot, Health, Mono, Now};

/// What a worker promised and what it is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// A: the hard deadline with its slack, if there is one.
    pub deadline: Option<Boot>,
    /// B: how old the last progress may be.
    pub progress: Duration,
    /// C: how old the last pong may be; `None` if it promised no heartbeat.
    pub pong: Option<Duration>,
}

/// What was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The end of its channel, or of its process.
    pub ended: bool,
    /// Last progress; its start at first.
    pub progress: Mono,
    /// Last pong; its start at first.
    pub pong: Mono,
    /// Its leaf is frozen: only the deadline counts.
    pub frozen: bool,
}

/// The classifier.
pub fn classify(terms: &Terms, seen: &Seen, now: Now) -> Health {
    if seen.ended {
        return Health::Dead;
    }
    if terms.deadline.is_some_and(|deadline| now.boot >= deadline) {
        return Health::DeadlineExceeded;
    }
    if now.mono.since(seen.progress) <= terms.progress {
        return Health::Healthy;
    }
    match terms.pong {
        _ if seen.frozen => Health::Busy,
        None => Health::Busy,
        Some(pong) if now.mono.since(seen.pong) <= pong => Health::Busy,
        Some(_) => Health::Stuck,
    }
}

/// Must a ladder be started, and with what reason in the row?
pub fn verdict(health: Health) -> Option<&'static str> {
    match health {
        Health::Healthy | Health::Busy => None,
        Health::Stuck => Some("stuck: no progress and no answer"),
        Health::DeadlineExceeded => Some("deadline exceeded"),
        Health::Dead => Some("control channel lost"),
    }
}

/// How often to ping: a third of the pong window, between 50 ms and 5 s.
pub fn ping_interval(pong: Duration) -> Duration {
    (pong / 3).clamp(Duration::from_millis(50), Duration::from_secs(5))
}

/// The hard deadline of a worker started at `start`: what it was told and the slack in which it
/// can end by itself.
pub fn deadline(start: Boot, told: Duration, slack: Duration) -> Boot {
    start.plus(told).plus(slack)
}

/// When the answer of [`classify`] may change by time alone; `None` if it cannot.
pub fn next_look(terms: &Terms, seen: &Seen) -> (Option<Mono>, Option<Boot>) {
    let mono = terms
        .pong
        .filter(|_| !seen.frozen && !seen.ended)
        .map(|pong| {
            let tick = Duration::from_nanos(1);
            seen.progress
                .plus(terms.progress)
                .max(seen.pong.plus(pong))
                .plus(tick)
        });
    (mono, terms.deadline.filter(|_| !seen.ended))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::worker::Timestamp;

    const START: u64 = 1_000_000_000_000;

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn now(s: u64) -> Now {
        let ns = START + s * 1_000_000_000;
        Now {
            wall: Timestamp(0),
            mono: Mono(ns),
            boot: Boot(ns),
        }
    }

    fn terms(deadline: Option<u64>, pong: Option<u64>) -> Terms {
        Terms {
            deadline: deadline.map(|d| Boot(START).plus(seconds(d))),
            progress: seconds(120),
            pong: pong.map(seconds),
        }
    }

    fn seen(progress: u64, pong: u64) -> Seen {
        Seen {
            ended: false,
            progress: now(progress).mono,
            pong: now(pong).mono,
            frozen: false,
        }
    }

    #[test]
    fn the_table_of_detectors() {
        let rows: &[(&str, Terms, Seen, u64, Health)] = &[
            (
                "just started",
                terms(None, Some(10)),
                seen(0, 0),
                1,
                Health::Healthy,
            ),
            (
                "quiet but answering",
                terms(None, Some(10)),
                seen(0, 125),
                130,
                Health::Busy,
            ),
            (
                "quiet, silent",
                terms(None, Some(10)),
                seen(0, 100),
                130,
                Health::Stuck,
            ),
            (
                "progress at the very edge",
                terms(None, Some(10)),
                seen(0, 0),
                120,
                Health::Healthy,
            ),
            (
                "just past the edge",
                terms(None, Some(10)),
                seen(0, 0),
                121,
                Health::Stuck,
            ),
            (
                "pong at the very edge",
                terms(None, Some(10)),
                seen(0, 120),
                130,
                Health::Busy,
            ),
            (
                "no heartbeat promised",
                terms(None, None),
                seen(0, 0),
                100_000,
                Health::Busy,
            ),
            (
                "deadline reached",
                terms(Some(60), None),
                seen(60, 0),
                60,
                Health::DeadlineExceeded,
            ),
            (
                "before the deadline",
                terms(Some(60), None),
                seen(59, 0),
                59,
                Health::Healthy,
            ),
            (
                "frozen: only the deadline counts",
                terms(Some(500), Some(10)),
                Seen {
                    frozen: true,
                    ..seen(0, 0)
                },
                400,
                Health::Busy,
            ),
            (
                "frozen past its deadline",
                terms(Some(300), Some(10)),
                Seen {
                    frozen: true,
                    ..seen(0, 0)
                },
                400,
                Health::DeadlineExceeded,
            ),
            (
                "the end dominates",
                terms(Some(1), Some(10)),
                Seen {
                    ended: true,
                    ..seen(0, 0)
                },
                0,
                Health::Dead,
            ),
        ];
        for (name, terms, seen, at, health) in rows {
            assert_eq!(classify(terms, seen, now(*at)), *health, "{name}");
        }
    }

    #[test]
    fn suspend_ages_nobody_but_the_deadline_goes_on() {
        let slept = Now {
            boot: now(4_000).boot,
            ..now(10)
        };
        assert_eq!(
            classify(&terms(None, Some(10)), &seen(5, 5), slept),
            Health::Healthy
        );
        assert_eq!(
            classify(&terms(Some(3_600), Some(10)), &seen(5, 5), slept),
            Health::DeadlineExceeded
        );
    }

    #[test]
    fn pings_keep_within_their_bounds() {
        for (pong, ping) in [(10_000, 3_333), (60_000, 5_000), (90, 50), (0, 50)] {
            let interval = ping_interval(Duration::from_millis(pong));
            assert_eq!(interval.as_millis(), ping, "{pong}");
        }
    }

    proptest! {
        #[test]
        fn a_worker_that_promised_no_heartbeat_is_never_stuck(
            progress in 0u64..1 << 40, at in 0u64..1 << 40, deadline in proptest::option::of(0u64..1 << 40),
        ) {
            let terms = Terms { deadline: deadline.map(Boot), progress: seconds(1), pong: None };
            let seen = Seen { ended: false, progress: Mono(progress), pong: Mono(0), frozen: false };
            let now = Now { wall: Timestamp(0), mono: Mono(at), boot: Boot(at) };
            prop_assert_ne!(classify(&terms, &seen, now), Health::Stuck);
        }

        #[test]
        fn the_answer_does_not_change_before_the_next_look(
            progress in 0u64..1 << 36, pong in 0u64..1 << 36, window in 0u64..1 << 36, at in 0u64..1 << 37,
        ) {
            let terms = Terms {
                deadline: None,
                progress: Duration::from_nanos(window),
                pong: Some(Duration::from_nanos(window)),
            };
            let seen = Seen { ended: false, progress: Mono(progress), pong: Mono(pong), frozen: false };
            let look = next_look(&terms, &seen).0.map_or(u64::MAX, |m| m.0);
            let now = Now { wall: Timestamp(0), mono: Mono(at), boot: Boot(at) };
            prop_assert_eq!(classify(&terms, &seen, now) == Health::Stuck, at >= look);
        }
    }
}
