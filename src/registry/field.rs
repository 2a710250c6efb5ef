//! How each type of a row's field is written in TOML and read back.
//!
//! Times are offset date-times in UTC with microseconds, or integers (microseconds since the
//! epoch) outside the years 0 to 9999; both are read anywhere. Lengths of time are texts in
//! seconds, `"2.013441s"`. Integers above 2^63 - 1, which TOML does not promise to carry, are
//! texts too.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::{DeInteger, DeValue};
use toml::value::{Datetime, Offset};

use crate::worker::row::bytes;
use crate::worker::{
    BootId, Control, HowKnown, LeftoversPolicy, Outcome, Pid, Rare, RestartPolicy, Rung, Status,
    Timestamp, WorkerId,
};

/// A value of one key.
pub(super) trait Field: Sized {
    /// The error ends a sentence that begins with the key.
    fn read(value: DeValue<'_>) -> Result<Self, String>;
    fn write(&self, out: &mut String);
    /// Such a value is left out; a missing key means the same.
    fn is_unset(&self) -> bool {
        false
    }
}

fn expected<T>(what: &str, value: &DeValue<'_>) -> Result<T, String> {
    Err(format!("is of type {}, not {what}", value.type_str()))
}

pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

impl Field for String {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::String(text) => Ok(text.into_owned()),
            other => expected("string", &other),
        }
    }

    fn write(&self, out: &mut String) {
        quote(self, out);
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }
}

impl Field for Rare<String> {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        String::read(value).map(Into::into)
    }

    fn write(&self, out: &mut String) {
        quote(self, out);
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }
}

impl Field for bool {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Boolean(b) => Ok(b),
            other => expected("boolean", &other),
        }
    }

    fn write(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }

    fn is_unset(&self) -> bool {
        !self
    }
}

fn number(n: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(n.as_str(), n.radix()).ok()
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Field for $ty {
            fn read(value: DeValue<'_>) -> Result<Self, String> {
                let found = match &value {
                    DeValue::Integer(n) => number(n),
                    DeValue::String(text) => text.parse().ok(),
                    other => return expected("integer", other),
                };
                found
                    .and_then(|n| Self::try_from(n).ok())
                    .ok_or_else(|| format!("is no integer from {} to {}", Self::MIN, Self::MAX))
            }

            fn write(&self, out: &mut String) {
                let _ = match i64::try_from(*self) {
                    Ok(n) => write!(out, "{n}"),
                    Err(_) => write!(out, "\"{self}\""),
                };
            }

            fn is_unset(&self) -> bool {
                *self == 0
            }
        }
    )*};
}
integers!(u16 u32 u64 i32 i64);

macro_rules! words {
    ($($ty:ty)*) => {$(
        impl Field for $ty {
            fn read(value: DeValue<'_>) -> Result<Self, String> {
                match &value {
                    DeValue::String(text) => text.parse().map_err(|e| format!("is wrong: {e}")),
                    other => expected("string", other),
                }
            }

            fn write(&self, out: &mut String) {
                let _ = write!(out, "\"{self}\"");
            }
        }
    )*};
}
words!(Status Outcome HowKnown Rung Control RestartPolicy LeftoversPolicy WorkerId BootId);

impl Field for Pid {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        Pid::new(i64::read(value)?).map_err(|e| format!("is wrong: {e}"))
    }

    fn write(&self, out: &mut String) {
        let _ = write!(out, "{}", self.get());
    }
}

impl<T: Field> Field for Option<T> {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        T::read(value).map(Some)
    }

    fn write(&self, out: &mut String) {
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn is_unset(&self) -> bool {
        self.is_none()
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Array(items) => items
                .into_iter()
                .enumerate()
                .map(|(n, item)| {
                    T::read(item.into_inner()).map_err(|why| format!("entry {n} {why}"))
                })
                .collect::<Result<Vec<T>, String>>()
                .map(|mut all| {
                    all.shrink_to_fit();
                    all
                }),
            other => expected("array", &other),
        }
    }

    fn write(&self, out: &mut String) {
        out.push('[');
        for (n, item) in self.iter().enumerate() {
            if n > 0 {
                out.push_str(", ");
            }
            item.write(out);
        }
        out.push(']');
    }

    fn is_unset(&self) -> bool {
        self.is_empty()
    }
}

fn write_os(text: &OsStr, out: &mut String) {
    match text.to_str() {
        Some(text) => quote(text, out),
        None => {
            out.push_str("{ bytes = ");
            quote(&bytes::escape(text.as_encoded_bytes()), out);
            out.push_str(" }");
        }
    }
}

impl Field for OsString {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        use std::os::unix::ffi::OsStringExt;
        match value {
            DeValue::String(text) => Ok(text.into_owned().into()),
            DeValue::Table(mut table) => {
                let escaped = match table.remove("bytes").map(|v| v.into_inner()) {
                    Some(DeValue::String(text)) if table.is_empty() => text,
                    _ => return Err("is a table, but not { bytes = \"...\" }".to_owned()),
                };
                bytes::unescape(&escaped)
                    .map(OsString::from_vec)
                    .map_err(|e| format!("has a {e}"))
            }
            other => expected("string", &other),
        }
    }

    fn write(&self, out: &mut String) {
        write_os(self, out);
    }
}

impl Field for PathBuf {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        OsString::read(value).map(PathBuf::from)
    }

    fn write(&self, out: &mut String) {
        write_os(self.as_os_str(), out);
    }
}

const DAY_USEC: i64 = 86_400_000_000;
/// 0000-01-01 and 10000-01-01 in microseconds since the epoch.
const DATES: std::ops::Range<i64> = -719_528 * DAY_USEC..2_932_897 * DAY_USEC;

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
/// Days are counted in eras of 400 years that begin on the 1st of March.
fn civil(day: i64) -> (i64, i64, i64) {
    let from_march = day + 719_468;
    let era = from_march.div_euclid(146_097);
    let of_era = from_march.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let first = i64::from(month >= 10);
    (
        year + era * 400 + first,
        month + 3 - 12 * first,
        of_year - (153 * month + 2) / 5 + 1,
    )
}

/// The inverse of [`civil`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = year.rem_euclid(400);
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn micros(at: &Datetime) -> Option<i64> {
    let (date, time) = (at.date?, at.time?);
    let offset = match at.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let day = days(date.year.into(), date.month.into(), date.day.into());
    let minutes = i64::from(time.hour) * 60 + i64::from(time.minute) - offset;
    let seconds = minutes * 60 + i64::from(time.second.unwrap_or(0));
    let micros = i64::from(time.nanosecond.unwrap_or(0) / 1_000);
    Some(day * DAY_USEC + seconds * 1_000_000 + micros)
}

impl Field for Timestamp {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Datetime(at) => micros(&at)
                .map(Timestamp)
                .ok_or_else(|| format!("is {at}, which lacks date, time or offset")),
            DeValue::Integer(_) => i64::read(value).map(Timestamp),
            other => expected("offset date-time", &other),
        }
    }

    fn write(&self, out: &mut String) {
        if !DATES.contains(&self.0) {
            return self.0.write(out);
        }
        let (year, month, day) = civil(self.0.div_euclid(DAY_USEC));
        let rest = self.0.rem_euclid(DAY_USEC);
        let (seconds, micros) = (rest / 1_000_000, rest % 1_000_000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let _ = write!(
            out,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"
        );
    }
}

impl Field for Duration {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        let DeValue::String(text) = &value else {
            return expected("string as \"2.5s\"", &value);
        };
        let wrong = || format!("is {text:?}, which is no time in seconds as \"2.5s\" is");
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let plain = text.strip_suffix('s').ok_or_else(wrong)?;
        let (whole, part) = plain.split_once('.').unwrap_or((plain, "0"));
        if !digits(whole) || !digits(part) || part.len() > 9 {
            return Err(wrong());
        }
        let secs = whole.parse().map_err(|_| wrong())?;
        let nanos = format!("{part:0<9}").parse().map_err(|_| wrong())?;
        Ok(Duration::new(secs, nanos))
    }

    fn write(&self, out: &mut String) {
        let _ = write!(out, "\"{}", self.as_secs());
        if self.subsec_nanos() > 0 {
            let part = format!("{:09}", self.subsec_nanos());
            let _ = write!(out, ".{}", part.trim_end_matches('0'));
        }
        out.push_str("s\"");
    }
}

/// A value of an unknown key, as it is kept.
pub(super) fn keep(value: DeValue<'_>) -> Result<toml::Value, String> {
    Ok(match value {
        DeValue::String(text) => toml::Value::String(text.into_owned()),
        DeValue::Integer(n) => {
            let n = number(&n).and_then(|n| i64::try_from(n).ok());
            toml::Value::Integer(n.ok_or("is an integer out of range")?)
        }
        DeValue::Float(f) => toml::Value::Float(
            f.as_str()
                .parse()
                .map_err(|_| "is a float out of range".to_owned())?,
        ),
        DeValue::Boolean(b) => toml::Value::Boolean(b),
        DeValue::Datetime(at) => toml::Value::Datetime(at),
        DeValue::Array(items) => toml::Value::Array(
            items
                .into_iter()
                .map(|item| keep(item.into_inner()))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => {
            let mut kept = toml::Table::new();
            for (key, value) in table {
                kept.insert(key.into_inner().into_owned(), keep(value.into_inner())?);
            }
            toml::Value::Table(kept)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree_over_the_whole_range() {
        for (day, date) in [
            (0, (1970, 1, 1)),
            (-719_528, (0, 1, 1)),
            (2_932_896, (9999, 12, 31)),
            (11_016, (2000, 2, 29)),
            (-1, (1969, 12, 31)),
        ] {
            assert_eq!(civil(day), date);
        }
        for day in (-719_528..2_932_897).step_by(7) {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), day);
        }
    }
}
