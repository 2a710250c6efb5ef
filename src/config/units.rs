//! Lengths of time and sizes as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// Units as systemd.time(7) spells them, with their nanoseconds, greatest first; the first
/// spelling is the one shown.
const UNITS: &[(&[&str], u64)] = &[
    (&["w", "week", "weeks"], 604_800_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000),
    (&["h", "hr", "hour", "hours"], 3_600_000_000_000),
    (&["min", "m", "minute", "minutes"], 60_000_000_000),
    (&["s", "sec", "second", "seconds"], 1_000_000_000),
    (&["ms", "msec"], 1_000_000),
    (&["us", "usec"], 1_000),
    (&["ns", "nsec"], 1),
];

/// Nanoseconds of one unit of time.
pub fn unit_nanos(unit: &str) -> Option<u64> {
    UNITS
        .iter()
        .find(|(names, _)| names.contains(&unit))
        .map(|(_, nanos)| *nanos)
}

/// Reads `"90s"`, `"1h 30min"`, `"500ms"`, `"0"`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no length of time, as \"90s\" or \"1h 30min\" are");
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.trim();
    let mut nanos: u128 = 0;
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = rest[digits..].trim_start();
        let letters = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let unit = &rest[..letters];
        let factor = unit_nanos(unit).ok_or_else(bad)?;
        nanos = nanos.saturating_add(u128::from(number) * u128::from(factor));
        rest = rest[letters..].trim_start();
    }
    let secs = u64::try_from(nanos / 1_000_000_000).map_err(|_| bad())?;
    Ok(Duration::new(secs, (nanos % 1_000_000_000) as u32))
}

/// The shortest text that [`parse_duration`] reads back.
pub fn show_duration(value: Duration) -> String {
    let mut nanos = value.as_nanos();
    if nanos == 0 {
        return "0".to_owned();
    }
    // "24h" reads better than "1d", and "7d" better than "1w".
    let greatest = if nanos < 2 * 86_400_000_000_000 {
        "h"
    } else {
        "d"
    };
    let mut parts = Vec::new();
    for (names, factor) in UNITS.iter().skip_while(|(names, _)| names[0] != greatest) {
        let factor = u128::from(*factor);
        if nanos >= factor {
            parts.push(format!("{}{}", nanos / factor, names[0]));
            nanos %= factor;
        }
    }
    parts.join(" ")
}

const SIZES: &[(&[&str], u64)] = &[
    (&["TiB", "T"], 1 << 40),
    (&["GiB", "G"], 1 << 30),
    (&["MiB", "M"], 1 << 20),
    (&["KiB", "K"], 1 << 10),
    (&["B", ""], 1),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no size, as \"64MiB\" is one");
        let trimmed = text.trim();
        let digits = trimmed.len()
            - trimmed
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len();
        let number: u64 = trimmed[..digits].parse().map_err(|_| bad())?;
        let unit = trimmed[digits..].trim_start();
        let (_, factor) = SIZES
            .iter()
            .find(|(names, _)| names.contains(&unit))
            .ok_or_else(bad)?;
        number.checked_mul(*factor).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, factor) = SIZES
            .iter()
            .find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor))
            .unwrap_or(&SIZES[SIZES.len() - 1]);
        write!(f, "{}{}", self.0 / factor, names[0])
    }
}
