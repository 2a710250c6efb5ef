//! May this worker be taken now? PURE (specification section 10).

#![forbid(unsafe_code)]

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::supervisor::refused::Refused;
use crate::worker::{Mono, Priority, WorkerId};

/// What admission looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Load {
    /// Admission is closed.
    pub draining: bool,
    /// Why the state directory cannot be written, if it cannot.
    pub disk: Option<String>,
    /// Live workers.
    pub workers: u32,
    /// Live workers of this owner.
    pub workers_of_owner: u32,
    /// Rows of this owner.
    pub rows_of_owner: u32,
    /// Depth the new worker would have.
    pub depth: u32,
    /// Message depth the new worker would have.
    pub msg_depth: u32,
    /// The worker that asks, if it is one.
    pub parent: Option<Asker>,
    /// How the machine strains.
    pub pressure: Pressure,
}

/// A worker that asks for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// Which.
    pub id: WorkerId,
    /// It is being ended: what it started now would escape that.
    pub ending: bool,
    /// Its own token budget is spent.
    pub spent: bool,
}

/// Share of time in which some process of the service waited for a resource (PSI, `some avg10`),
/// in hundredths of a percent; `None` where the kernel does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// Memory.
    pub memory: Option<u32>,
    /// CPU.
    pub cpu: Option<u32>,
}

/// The configured limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Live workers in all.
    pub workers: u32,
    /// Live workers of one owner.
    pub workers_per_owner: u32,
    /// Rows of one owner.
    pub rows_per_owner: u32,
    /// Depth.
    pub depth: u32,
    /// Message depth.
    pub msg_depth: u32,
    /// Memory pressure, percent.
    pub memory_pressure: u32,
    /// CPU pressure, percent.
    pub cpu_pressure: u32,
}

/// `Ok` or the first reason against it.
pub fn admit(load: &Load, caps: &Caps, priority: Priority) -> Result<(), Refused> {
    if load.draining {
        return Err(Refused::Draining);
    }
    if let Some(why) = &load.disk {
        return Err(Refused::DiskFull(why.clone()));
    }
    if let Some(asker) = &load.parent {
        if asker.spent {
            return Err(Refused::TokenBudget(asker.id));
        }
        if asker.ending {
            return Err(Refused::AskerEnds(asker.id));
        }
    }
    counts(load, caps)?;
    if let Some((now, limit)) = over(load.pressure.memory, caps.memory_pressure, priority) {
        return Err(Refused::MemoryPressure(strain("memory", now, limit)));
    }
    if let Some((now, limit)) = over(load.pressure.cpu, caps.cpu_pressure, priority) {
        return Err(Refused::CpuPressure(strain("CPU", now, limit)));
    }
    Ok(())
}

fn counts(load: &Load, caps: &Caps) -> Result<(), Refused> {
    let many = Refused::TooMany as fn(String) -> Refused;
    let checks = [
        (
            load.workers >= caps.workers,
            "workers",
            caps.workers,
            "max_workers",
            many,
        ),
        (
            load.workers_of_owner >= caps.workers_per_owner,
            "workers of this owner",
            caps.workers_per_owner,
            "max_workers_per_owner",
            many,
        ),
        (
            load.rows_of_owner >= caps.rows_per_owner,
            "rows of this owner",
            caps.rows_per_owner,
            "max_rows_per_owner",
            many,
        ),
        (
            load.depth > caps.depth,
            "levels of workers",
            caps.depth,
            "max_depth",
            Refused::Depth,
        ),
        (
            load.msg_depth > caps.msg_depth,
            "message hops",
            caps.msg_depth,
            "max_message_depth",
            Refused::MessageDepth,
        ),
    ];
    for (over, what, cap, key, refused) in checks {
        if over {
            let hint = match key {
                "max_rows_per_owner" => "; `musterctl reap` and `forget` take ended ones off",
                _ => "",
            };
            let limit = format!("at most {cap} {what} are allowed (limits.{key}){hint}");
            return Err(refused(limit));
        }
    }
    Ok(())
}

/// The configured percentage is for normal workers. Low ones are turned away from half of it,
/// high ones half of the way further up; 100 turns nobody away.
fn over(now: Option<u32>, limit: u32, priority: Priority) -> Option<(u32, u32)> {
    if limit >= 100 {
        return None;
    }
    let limit = match priority {
        Priority::Low => limit * 50,
        Priority::Normal => limit * 100,
        Priority::High => (limit + 100) * 50,
    };
    now.filter(|now| *now >= limit).map(|now| (now, limit))
}

fn strain(what: &str, now: u32, limit: u32) -> String {
    format!(
        "{what} pressure is {}.{:02} %, and workers of this priority are taken below {}.{:02} %",
        now / 100,
        now % 100,
        limit / 100,
        limit % 100
    )
}

/// How fast one worker may ask for others: so many at once, then so many a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// The time up to which its spawns are paid for: each moves it on.
    full_at: Mono,
}

impl Bucket {
    /// A full one.
    pub fn full() -> Self {
        Self { full_at: Mono(0) }
    }

    /// Takes one spawn out, or says after what time there is one.
    pub fn take(&mut self, burst: u32, per_second: u32, now: Mono) -> Result<(), Duration> {
        let each = Duration::from_secs(1) / per_second.max(1);
        let ahead = each.saturating_mul(burst.max(1) - 1);
        let debt = self.full_at.since(now);
        if debt > ahead {
            return Err(debt - ahead);
        }
        self.full_at = self.full_at.max(now).plus(each);
        Ok(())
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self::full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps {
        workers: 3,
        workers_per_owner: 2,
        rows_per_owner: 9,
        depth: 4,
        msg_depth: 5,
        memory_pressure: 60,
        cpu_pressure: 100,
    };

    fn admit(load: &Load, caps: &Caps) -> Result<(), Refused> {
        super::admit(load, caps, Priority::Normal)
    }

    #[test]
    fn an_idle_service_takes_a_worker() {
        assert_eq!(admit(&Load::default(), &CAPS), Ok(()));
        let edge = Load {
            workers: 2,
            workers_of_owner: 1,
            depth: 4,
            msg_depth: 5,
            ..Load::default()
        };
        assert_eq!(admit(&edge, &CAPS), Ok(()));
    }

    #[test]
    fn each_limit_refuses_and_names_its_key() {
        for (load, key) in [
            (
                Load {
                    workers: 3,
                    ..Load::default()
                },
                "max_workers",
            ),
            (
                Load {
                    workers_of_owner: 2,
                    ..Load::default()
                },
                "max_workers_per_owner",
            ),
            (
                Load {
                    rows_of_owner: 9,
                    ..Load::default()
                },
                "max_rows_per_owner",
            ),
            (
                Load {
                    depth: 5,
                    ..Load::default()
                },
                "max_depth",
            ),
            (
                Load {
                    msg_depth: 6,
                    ..Load::default()
                },
                "max_message_depth",
            ),
        ] {
            let Err(refused) = admit(&load, &CAPS) else {
                panic!("{key} let it pass")
            };
            assert!(refused.to_string().contains(key), "{refused}");
        }
    }

    #[test]
    fn draining_and_a_sick_disk_come_first() {
        let full = Load {
            disk: Some("no space left".into()),
            workers: 99,
            ..Load::default()
        };
        assert_eq!(
            admit(&full, &CAPS),
            Err(Refused::DiskFull("no space left".into()))
        );
        let draining = Load {
            draining: true,
            ..full
        };
        assert_eq!(admit(&draining, &CAPS), Err(Refused::Draining));
    }

    #[test]
    fn low_priorities_are_shed_first_and_high_ones_last() {
        for (percent, low, normal, high) in [
            (29, true, true, true),
            (30, false, true, true),
            (59, false, true, true),
            (60, false, false, true),
            (79, false, false, true),
            (80, false, false, false),
        ] {
            let load = Load {
                pressure: Pressure {
                    memory: Some(percent * 100),
                    cpu: Some(10_000),
                },
                ..Load::default()
            };
            for (priority, taken) in [
                (Priority::Low, low),
                (Priority::Normal, normal),
                (Priority::High, high),
            ] {
                let answer = super::admit(&load, &CAPS, priority);
                assert_eq!(answer.is_ok(), taken, "{percent} {priority}: {answer:?}");
            }
        }
    }

    #[test]
    fn a_worker_without_budget_or_at_its_end_gets_no_helper() {
        let id = WorkerId::from_bits(7);
        let asker = |ending, spent| Load {
            parent: Some(Asker { id, ending, spent }),
            ..Load::default()
        };
        assert_eq!(admit(&asker(false, false), &CAPS), Ok(()));
        assert_eq!(
            admit(&asker(true, false), &CAPS),
            Err(Refused::AskerEnds(id))
        );
        assert_eq!(
            admit(&asker(true, true), &CAPS),
            Err(Refused::TokenBudget(id))
        );
    }

    #[test]
    fn a_burst_then_so_many_a_second() {
        let at = |millis: u64| Mono(5_000_000_000 + millis * 1_000_000);
        let mut bucket = Bucket::full();
        for _ in 0..8 {
            assert_eq!(bucket.take(8, 2, at(0)), Ok(()));
        }
        assert_eq!(bucket.take(8, 2, at(0)), Err(Duration::from_millis(500)));
        assert_eq!(bucket.take(8, 2, at(499)), Err(Duration::from_millis(1)));
        assert_eq!(bucket.take(8, 2, at(500)), Ok(()));
        assert!(bucket.take(8, 2, at(501)).is_err());
        for _ in 0..8 {
            assert_eq!(bucket.take(8, 2, at(60_000)), Ok(()));
        }
        assert!(bucket.take(8, 2, at(60_000)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bucket_gives_more_than_its_burst_and_its_rate(
            burst in 1u32..20, rate in 1u32..50,
            pauses in proptest::collection::vec(0u64..2_000, 1..200),
        ) {
            let (mut bucket, mut now, mut taken) = (Bucket::full(), Mono(1 << 40), 0u64);
            let start = now;
            for pause in pauses {
                now = now.plus(Duration::from_millis(pause));
                match bucket.take(burst, rate, now) {
                    Ok(()) => taken += 1,
                    Err(wait) => {
                        now = now.plus(wait);
                        taken += 1;
                        proptest::prop_assert!(bucket.take(burst, rate, now).is_ok());
                    }
                }
                let most = u64::from(burst) + now.since(start).as_millis() as u64 * u64::from(rate) / 1000 + 1;
                proptest::prop_assert!(taken <= most, "{} > {}", taken, most);
            }
        }
    }
}
