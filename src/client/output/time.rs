//! Times and lengths of time for people, in systemd's manner.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Microseconds since the epoch, now.
pub fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX))
}

/// `3min ago`, `2h 4min ago`, `in 5s`; `now` within a second.
pub fn relative(at: i64, now: i64) -> String {
    let ago = now.saturating_sub(at);
    let seconds = ago.unsigned_abs() / 1_000_000;
    let text = coarse(seconds);
    match (ago >= 0, seconds) {
        (_, 0) => "now".to_owned(),
        (true, _) => format!("{text} ago"),
        (false, _) => format!("in {text}"),
    }
}

/// The two greatest units that count at this size.
fn coarse(seconds: u64) -> String {
    let pair = |big: u64, big_name: &str, small: u64, small_name: &str| {
        let (n, rest) = (seconds / big, seconds % big / small);
        match rest {
            0 => format!("{n}{big_name}"),
            _ => format!("{n}{big_name} {rest}{small_name}"),
        }
    };
    if seconds < MINUTE {
        format!("{seconds}s")
    } else if seconds < HOUR {
        if seconds < 10 * MINUTE {
            pair(MINUTE, "min", 1, "s")
        } else {
            format!("{}min", seconds / MINUTE)
        }
    } else if seconds < DAY {
        pair(HOUR, "h", MINUTE, "min")
    } else if seconds < 2 * DAY {
        pair(DAY, " day", HOUR, "h")
    } else if seconds < 60 * DAY {
        format!("{} days", seconds / DAY)
    } else if seconds < 730 * DAY {
        format!("{} months", seconds / (30 * DAY))
    } else {
        format!("{} years", seconds / (365 * DAY))
    }
}

/// A length of time: `85ms`, `5.012s`, `2min 3s`, `1h 4min`.
pub fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    if seconds >= MINUTE {
        coarse(seconds)
    } else if seconds > 0 {
        let text = format!("{:.3}", length.as_secs_f64());
        format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
    } else if length.as_millis() > 0 {
        format!("{}ms", length.as_millis())
    } else if length.is_zero() {
        "0".to_owned()
    } else {
        format!("{}us", length.as_micros())
    }
}

/// `Mon 2026-11-30 11:32:19 UTC`, in the caller's time zone.
pub fn absolute(at: i64) -> String {
    in_zone(at, TimeZone::system())
}

fn in_zone(at: i64, zone: TimeZone) -> String {
    match Timestamp::from_microsecond(at) {
        Ok(time) => time
            .to_zoned_datetime(zone)
            .strftime("%a %Y-%m-%d %H:%M:%S %Z")
            .to_string(),
        Err(_) => format!("@{at}us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_times_name_the_units_that_count() {
        let now = 10_000_000_000_000_000;
        for (seconds, text) in [
            (0, "now"),
            (11, "11s ago"),
            (185, "3min 5s ago"),
            (180, "3min ago"),
            (1234, "20min ago"),
            (7440, "2h 4min ago"),
            (90_000, "1 day 1h ago"),
            (200_000, "2 days ago"),
            (-5, "in 5s"),
        ] {
            assert_eq!(relative(now - seconds * 1_000_000, now), text, "{seconds}");
        }
        assert_eq!(relative(i64::MIN, i64::MAX), "292471 years ago");
    }

    #[test]
    fn lengths_of_time_are_short() {
        for (micros, text) in [
            (0, "0"),
            (12, "12us"),
            (85_000, "85ms"),
            (5_012_000, "5.012s"),
            (5_000_000, "5s"),
            (123_000_000, "2min 3s"),
        ] {
            assert_eq!(span(Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn a_time_is_written_as_systemd_writes_it() {
        assert_eq!(
            in_zone(1_796_038_339_000_000, TimeZone::UTC),
            "Mon 2026-11-30 11:32:19 UTC"
        );
        assert_eq!(in_zone(i64::MAX, TimeZone::UTC), format!("@{}us", i64::MAX));
    }
}
