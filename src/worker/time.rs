//! Three clocks, kept apart by type. Nobody here reads one: time is passed in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Wall-clock time, microseconds since the epoch (UTC). For people and for grace.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// `self - earlier` in microseconds; negative if `earlier` is later. Saturates.
    pub fn since(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Moved by `micros`; saturates.
    #[must_use]
    pub fn plus(self, micros: i64) -> Timestamp {
        Timestamp(self.0.saturating_add(micros))
    }

    /// For the bus: microseconds since the epoch, 0 for a time before it.
    pub fn micros(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }
}

/// `CLOCK_MONOTONIC`, nanoseconds: ladders and detectors. Stands still in suspend.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Mono(pub u64);

/// `CLOCK_BOOTTIME`, nanoseconds: hard deadlines. Goes on in suspend.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Boot(pub u64);

macro_rules! monotone {
    ($($clock:ident)*) => {$(
        impl $clock {
            /// `duration` later; saturates.
            #[must_use]
            pub fn plus(self, duration: Duration) -> Self {
                Self(self.0.saturating_add(nanos(duration)))
            }

            /// Time since `earlier`; zero if `earlier` is later.
            pub fn since(self, earlier: Self) -> Duration {
                Duration::from_nanos(self.0.saturating_sub(earlier.0))
            }
        }
    )*};
}
monotone!(Mono Boot);

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One reading of all three clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Now {
    /// Wall clock.
    pub wall: Timestamp,
    /// Monotonic clock.
    pub mono: Mono,
    /// Boot-time clock.
    pub boot: Boot,
}
