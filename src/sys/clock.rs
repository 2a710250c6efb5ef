//! The only reader of clocks: clock_gettime(2), thrice.

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::worker::{Boot, Mono, Now, Timestamp};

/// All three clocks, read one after the other (they differ by well under a microsecond).
pub fn now() -> Now {
    let wall = clock_gettime(ClockId::Realtime);
    Now {
        wall: Timestamp(
            wall.tv_sec
                .saturating_mul(1_000_000)
                .saturating_add(wall.tv_nsec / 1000),
        ),
        mono: Mono(nanos(clock_gettime(ClockId::Monotonic))),
        boot: Boot(nanos(clock_gettime(ClockId::Boottime))),
    }
}

fn nanos(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_clock_goes_backwards_and_boot_time_is_not_behind_monotonic() {
        let first = now();
        let second = now();
        assert!(second.mono >= first.mono && second.boot >= first.boot);
        assert!(second.boot.0 >= first.mono.0);
        assert!(first.wall.0 > 1_500_000_000_000_000);
    }
}
