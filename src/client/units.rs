//! Lengths of time, sizes, percentages and signals as they are written on the command line.

use std::time::Duration;

use crate::config::unit_nanos;

/// A number of tokens that is no empty budget.
pub fn parse_tokens(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("a budget of 0 lets nothing run; leave the option out".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err("it is no whole number".to_owned()),
    }
}

/// A length of time as systemd.time(7) writes it: `90`, `90s`, `1h 30min`, `1.5d`. A bare number
/// is seconds.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let bad = || {
        format!(
            "{text:?} is no length of time; write for instance 90s, 5min, \"1h 30min\" or 2d (a bare number is seconds)"
        )
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let letters = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, after) = tail.split_at(letters);
        // The bus takes microseconds, so there is nothing smaller.
        let unit = match unit {
            "" => 1_000_000,
            _ => unit_nanos(unit).ok_or_else(bad)? / 1_000,
        };
        if unit == 0 {
            return Err(bad());
        }
        let micros = scaled(number, unit).ok_or_else(bad)?;
        total = total
            .checked_add(micros)
            .ok_or_else(|| format!("{text:?} is too long"))?;
        rest = after.trim_start();
    }
    Ok(Duration::from_micros(total))
}

/// `number` (digits, perhaps with one point) times `unit`; `None` if it is no number or too big.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    if fraction.len() > 12 {
        return None;
    }
    let parse = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u64>().ok(),
    };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(parse(fraction)?) * u128::from(unit) / scale;
    parse(whole)?
        .checked_mul(unit)?
        .checked_add(u64::try_from(part).ok()?)
}

/// Bytes: a number with an optional binary suffix `K M G T` (also `KiB`, `KB`, `B`).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no size; write for instance 512M, 4G or a number of bytes");
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(bad()),
    };
    scaled(number, 1 << shift).ok_or_else(bad)
}

/// Percent of one CPU: `150%` or `150`.
pub fn parse_percent(text: &str) -> Result<u32, String> {
    match text.trim().trim_end_matches('%').parse() {
        Ok(percent) if percent > 0 => Ok(percent),
        _ => Err(format!(
            "{text:?} is no percentage; write for instance 150% for one and a half CPUs"
        )),
    }
}

/// A signal by name (`TERM`, `SIGTERM`, `RTMIN+3`) or number.
pub fn parse_signal(text: &str) -> Result<i32, String> {
    let bad = || format!("{text:?} is no signal; write for instance TERM, SIGINT or 9");
    if let Ok(number) = text.parse::<i32>() {
        return if (1..=64).contains(&number) {
            Ok(number)
        } else {
            Err(bad())
        };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some(offset) = name.strip_prefix("RTMIN") {
        let offset: i32 = match offset.strip_prefix('+') {
            Some(digits) => digits.parse().map_err(|_| bad())?,
            None if offset.is_empty() => 0,
            None => return Err(bad()),
        };
        let number = libc::SIGRTMIN() + offset;
        return if (0..=30).contains(&offset) && number <= 64 {
            Ok(number)
        } else {
            Err(bad())
        };
    }
    format!("SIG{name}")
        .parse::<nix::sys::signal::Signal>()
        .map(|signal| signal as i32)
        .map_err(|_| bad())
}

/// `SIGTERM` for 15; `SIG34` for one without a name.
pub fn signal_name(number: i32) -> String {
    nix::sys::signal::Signal::try_from(number)
        .map_or_else(|_| format!("SIG{number}"), |s| s.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_systemd_reads_them() {
        for (text, micros) in [
            ("90", 90_000_000),
            ("0", 0),
            ("90s", 90_000_000),
            ("1h 30min", 5_400_000_000),
            ("1h30m", 5_400_000_000),
            ("1.5d", 129_600_000_000),
            ("250 ms", 250_000),
            (".5s", 500_000),
            ("2w", 1_209_600_000_000),
        ] {
            assert_eq!(
                parse_span(text),
                Ok(Duration::from_micros(micros)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in [
            "",
            " ",
            "s",
            "5x",
            "-5s",
            "1..2s",
            "1.2.3s",
            "5s!",
            "99999999999999999999s",
            "999999999999999w",
        ] {
            assert!(parse_span(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_percentages_and_signals_are_read_and_rubbish_is_refused() {
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("1.5G"), Ok(3 << 29));
        assert_eq!(parse_size("77"), Ok(77));
        for text in ["", "M", "5Q", "-1", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_percent("150%"), Ok(150));
        assert!(parse_percent("0").is_err());
        for (text, number) in [("TERM", 15), ("SIGKILL", 9), ("int", 2), ("10", 10)] {
            assert_eq!(parse_signal(text), Ok(number), "{text:?}");
        }
        for text in ["0", "65", "-1", "SIGFOO", "RTMIN+99", "RTMIN-1"] {
            assert!(parse_signal(text).is_err(), "{text:?}");
        }
        assert_eq!(
            parse_signal(&signal_name(34)),
            Err("\"SIG34\" is no signal; write for instance TERM, SIGINT or 9".to_owned())
        );
        assert_eq!(signal_name(15), "SIGTERM");
    }
}
