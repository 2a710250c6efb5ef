//! What is counted from the start of the first image on; it goes over a reload. All of it is
//! shown by `musterctl metrics`, parts by `status`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::worker::{Outcome, Rung};

/// The counters; sums, never a gauge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Processes started, each generation of a worker by itself.
    pub spawned: u64,
    /// Ends by outcome.
    pub exits: BTreeMap<Outcome, u64>,
    /// Spawns refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Ladders that came to their end, by the rung that worked.
    pub rungs: BTreeMap<Rung, u64>,
    /// Processes that were left in a leaf by their leader and killed.
    pub leftovers_killed: u64,
    /// Sweeps of the collector, dry runs among them.
    pub sweeps: Spent,
    /// Rows that sweeps acted on or kept, by `action:reason`; without dry runs.
    pub swept: BTreeMap<String, u64>,
    /// Looks into worktrees.
    pub probes: Spent,
    /// Tokens that workers told of.
    pub input_tokens: u64,
    /// The same, output.
    pub output_tokens: u64,
    /// From the moment a call was queued or a timer was due until the loop took it up.
    #[serde(deserialize_with = "same_bounds")]
    pub lag: Histogram,
}

/// How often something was done, and how long it took in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// How often.
    pub count: u64,
    /// Microseconds.
    pub usec: u64,
}

impl Spent {
    /// Counts one.
    pub fn add(&mut self, took: Duration) {
        self.count += 1;
        self.usec = self.usec.saturating_add(micros(took));
    }
}

/// Upper bounds of the buckets in microseconds; the last bucket has none.
pub const BOUNDS_USEC: [u64; 13] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 2_000_000,
];

/// Counts by length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// One for each of [`BOUNDS_USEC`], then what is longer; not cumulative.
    pub buckets: [u64; BOUNDS_USEC.len() + 1],
    /// All lengths, microseconds.
    pub usec: u64,
}

/// One that another release counted by other bounds begins anew: what was counted cannot be told
/// apart by these, and no reload may fail by it.
fn same_bounds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
    #[derive(Deserialize)]
    struct Any {
        buckets: Vec<u64>,
        usec: u64,
    }
    let Any { buckets, usec } = Any::deserialize(deserializer)?;
    Ok(buckets.try_into().map_or_else(
        |_| Histogram::default(),
        |buckets| Histogram { buckets, usec },
    ))
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, length: Duration) {
        let usec = micros(length);
        let at = BOUNDS_USEC.partition_point(|bound| *bound < usec);
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket += 1;
        }
        self.usec = self.usec.saturating_add(usec);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_falls_into_the_first_bucket_that_holds_it() {
        let mut lag = Histogram::default();
        for usec in [0, 50, 51, 100, 2_000_000, 2_000_001, 9_000_000] {
            lag.add(Duration::from_micros(usec));
        }
        assert_eq!(lag.buckets, [2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(lag.count(), 7);
        assert_eq!(lag.usec, 13_000_202);
    }

    #[test]
    fn counters_of_an_image_that_counted_less_are_taken() {
        let old = r#"{"spawned":3,"exits":{"completed":2},"refused":{}}"#;
        let counters: Counters = serde_json::from_str(old).unwrap();
        assert_eq!(counters.spawned, 3);
        assert_eq!(counters.exits[&Outcome::Completed], 2);
        assert_eq!(counters.lag, Histogram::default());
    }

    #[test]
    fn a_histogram_goes_over_a_reload_and_one_of_other_bounds_begins_anew() {
        let mut counters = Counters::default();
        counters.lag.add(Duration::from_micros(70));
        let text = serde_json::to_string(&counters).unwrap();
        assert_eq!(serde_json::from_str::<Counters>(&text).unwrap(), counters);
        for buckets in [1, BOUNDS_USEC.len(), BOUNDS_USEC.len() + 2] {
            let other = format!(
                r#"{{"spawned":3,"lag":{{"buckets":{:?},"usec":9}}}}"#,
                vec![1; buckets]
            );
            let counters: Counters = serde_json::from_str(&other).unwrap();
            assert_eq!((counters.spawned, counters.lag), (3, Histogram::default()));
        }
    }
}
