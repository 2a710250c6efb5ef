use proptest::prelude::*;

use super::*;
use crate::worker::Timestamp;

const START: u64 = 1_000_000_000_000;

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn at(millis: u64) -> Now {
    let ns = START + millis * 1_000_000;
    Now {
        wall: Timestamp(0),
        mono: Mono(ns),
        boot: Boot(ns),
    }
}

fn frames() -> Promise {
    Promise {
        progress: seconds(120),
        pong: Some(seconds(10)),
        pings: true,
        by_cpu: false,
        idle: None,
    }
}

fn silent() -> Promise {
    Promise {
        progress: seconds(120),
        by_cpu: true,
        ..Promise::default()
    }
}

fn life(promise: Promise) -> Life {
    Life::new(promise, at(0).mono)
}

/// Goes from look to look; `answers` says whether a ping at that time is answered.
fn run(
    life: &mut Life,
    facts: &Facts,
    until: u64,
    answers: impl Fn(u64) -> bool,
) -> (u32, Option<(u64, &'static str)>) {
    let mut pings = 0;
    while let Some(due) = life.due(facts) {
        let millis = (due.0 - START).div_ceil(1_000_000);
        if millis > until {
            break;
        }
        match life.look(facts, at(millis)) {
            Look::Nothing => {}
            Look::ReadCpu => {
                life.used_cpu(0, at(millis).mono);
                if let Look::End(why) = life.look(facts, at(millis)) {
                    return (pings, Some((millis, why)));
                }
            }
            Look::Ping(_) => {
                pings += 1;
                if answers(millis) {
                    life.ponged(at(millis).mono);
                }
            }
            Look::End(why) => return (pings, Some((millis, why))),
        }
    }
    (pings, None)
}

#[test]
fn one_that_promised_nothing_is_never_looked_at() {
    assert_eq!(life(silent()).due(&Facts::default()), None);
}

#[test]
fn pings_go_out_every_third_of_the_window_and_an_answer_leaves_it_alone() {
    let mut quiet = life(frames());
    let (pings, end) = run(&mut quiet, &Facts::default(), 600_000, |_| true);
    assert!((170..=185).contains(&pings), "{pings} in ten minutes");
    assert_eq!(end, None);
    assert_eq!(quiet.health(&Facts::default(), at(600_000)), Health::Busy);
}

#[test]
fn silence_and_no_answer_is_stuck_once_both_windows_are_over() {
    let mut hung = life(frames());
    let (_, end) = run(&mut hung, &Facts::default(), 600_000, |ms| ms < 150_000);
    let (when, why) = end.unwrap();
    assert!((155_000..162_000).contains(&when), "{when}");
    assert!(why.starts_with("stuck"));
}

#[test]
fn work_without_answers_is_left_alone() {
    let mut busy = life(frames());
    for s in 0..600 {
        busy.progressed(at(s * 1000).mono);
        busy.due(&Facts::default());
        let look = busy.look(&Facts::default(), at(s * 1000));
        assert!(!matches!(look, Look::End(_)), "{s} {look:?}");
    }
}

#[test]
fn a_look_that_comes_late_gives_the_worker_its_window_again() {
    let mut hung = life(frames());
    run(&mut hung, &Facts::default(), 121_000, |_| true);
    hung.due(&Facts::default());
    // Half an hour in which we were stopped: its pongs lie unread.
    let late = 121_000 + 1_800_000;
    assert!(matches!(
        hung.look(&Facts::default(), at(late)),
        Look::Ping(_)
    ));
    let (_, end) = run(&mut hung, &Facts::default(), late + 60_000, |_| false);
    let (when, _) = end.unwrap();
    assert!(when >= late + 10_000, "{when}");
}

#[test]
fn cpu_time_is_asked_for_only_when_it_could_matter_and_counts() {
    let promise = Promise {
        pong: Some(seconds(10)),
        ..silent()
    };
    let mut worker = life(promise);
    let facts = Facts::default();
    assert_eq!(
        worker.due(&facts),
        Some(at(120_000).mono.plus(Duration::from_nanos(1)))
    );
    assert_eq!(worker.look(&facts, at(120_001)), Look::ReadCpu);
    worker.used_cpu(5_000_000, at(120_001).mono);
    assert_eq!(worker.look(&facts, at(120_001)), Look::Nothing);
    assert_eq!(worker.look(&facts, at(240_002)), Look::ReadCpu);
    // What an event loop needs to wake now and then is no work.
    worker.used_cpu(5_010_000, at(240_002).mono);
    assert!(matches!(worker.look(&facts, at(240_002)), Look::End(_)));
}

#[test]
fn a_frozen_one_is_judged_by_its_deadline_alone() {
    let mut worker = life(Promise {
        idle: Some(seconds(1)),
        ..frames()
    });
    let facts = Facts {
        frozen: true,
        settled: true,
        ..Facts::default()
    };
    assert_eq!(worker.due(&facts), None);
    assert_eq!(worker.look(&facts, at(900_000)), Look::Nothing);
    worker.thawed(at(900_000).mono);
    let thawed = Facts {
        frozen: false,
        ..facts
    };
    assert!(matches!(
        worker.look(&thawed, at(900_500)),
        Look::Nothing | Look::Ping(_)
    ));
    let dead = Facts {
        deadline: Some(at(5).boot),
        ..facts
    };
    assert_eq!(worker.health(&dead, at(900_000)), Health::DeadlineExceeded);
}

#[test]
fn an_idle_one_is_retired_only_if_settled_and_nobody_keeps_it() {
    let promise = Promise {
        idle: Some(seconds(30)),
        ..silent()
    };
    for (settled, kept, ends) in [
        (true, false, Some(30_000)),
        (false, false, None),
        (true, true, None),
    ] {
        let facts = Facts {
            settled,
            kept,
            ..Facts::default()
        };
        let (_, end) = run(&mut life(promise), &facts, 100_000, |_| true);
        assert_eq!(end, ends.map(|at| (at, "idle")), "{settled} {kept}");
    }
}

#[test]
fn quiet_counts_anew_when_it_is_let_go() {
    let mut worker = life(Promise {
        idle: Some(seconds(30)),
        ..silent()
    });
    let mut facts = Facts {
        settled: true,
        kept: true,
        ..Facts::default()
    };
    assert_eq!(run(&mut worker, &facts, 95_000, |_| true).1, None);
    facts.kept = false;
    let (when, _) = run(&mut worker, &facts, 200_000, |_| true).1.unwrap();
    assert_eq!(when, 120_000);
}

#[test]
fn a_lost_channel_ends_one_that_is_still_there_a_moment_later() {
    let mut worker = life(frames());
    worker.lost_channel(at(500).mono);
    let facts = Facts::default();
    assert_eq!(worker.health(&facts, at(500)), Health::Dead);
    assert_eq!(worker.look(&facts, at(900)), Look::Nothing);
    assert_eq!(worker.due(&facts), Some(at(1_500).mono));
    assert!(matches!(worker.look(&facts, at(1_500)), Look::End(_)));
    let ended = Facts {
        ended: true,
        ..facts
    };
    assert_eq!(worker.look(&ended, at(1_500)), Look::Nothing);
    assert_eq!(worker.due(&ended), None);
}

#[test]
fn more_time_that_was_asked_for_is_given() {
    let mut worker = life(frames());
    worker.extended(seconds(600), at(0).mono);
    let (_, end) = run(&mut worker, &Facts::default(), 900_000, |_| false);
    let (when, _) = end.unwrap();
    assert!((600_000..605_000).contains(&when), "{when}");
}

proptest! {
    #[test]
    fn every_look_that_is_due_makes_the_next_one_later(
        pong in proptest::option::of(1u64..20_000),
        idle in proptest::option::of(1u64..20_000),
        progress in 1u64..20_000,
        settled: bool, kept: bool, pings: bool, by_cpu: bool,
    ) {
        let promise = Promise {
            progress: Duration::from_millis(progress),
            pong: pong.map(Duration::from_millis),
            pings,
            by_cpu,
            idle: idle.map(Duration::from_millis),
        };
        let facts = Facts { settled, kept, ..Facts::default() };
        let mut worker = life(promise);
        let mut last = Mono(0);
        for _ in 0..50 {
            let Some(due) = worker.due(&facts) else { break };
            prop_assert!(due > last, "a look that changes nothing would spin");
            last = due;
            let now = Now { mono: due, ..Now::default() };
            for _ in 0..3 {
                match worker.look(&facts, now) {
                    Look::Nothing => break,
                    Look::ReadCpu => worker.used_cpu(0, due),
                    Look::Ping(_) => {}
                    Look::End(_) => return Ok(()),
                }
            }
        }
    }
}
