//! Types of values: how each is read from TOML, shown again, and checked.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use toml::de::DeValue;

use super::units::{Size, parse_duration, show_duration};

use crate::worker::LeftoversPolicy;

/// A type a key may have. Errors end a sentence that begins with the key.
pub(super) trait Value: Sized {
    /// What may stand in the file, and its unit, for the manual page.
    const SHAPE: &'static str;
    /// From TOML.
    fn read(value: &DeValue<'_>) -> Result<Self, String>;
    /// As TOML.
    fn show(&self) -> String;
}

/// A file mode creation mask, 0 to 0o777.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Umask(pub u32);

/// A signal number, 1 to 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(pub i32);

/// Where cgroup leaves are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cgroup {
    /// Where delegation is found.
    Auto,
    /// Nowhere.
    None,
    /// Below this directory of the cgroup2 mount.
    Path(PathBuf),
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// The word in the file.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(format!("{text:?} is none of {}", [$(concat!("\"", $word, "\"")),*].join(", "))),
                }
            }
        }

        impl Value for $name {
            const SHAPE: &'static str = concat!("one of" $(, " \"", $word, "\"")*);

            fn read(value: &DeValue<'_>) -> Result<Self, String> {
                text(value)?.parse()
            }

            fn show(&self) -> String {
                format!("\"{}\"", self.as_str())
            }
        }
    };
}

choice! {
    /// Do ignored files count?
    Ignored {
        /// No.
        Ignore = "ignore",
        /// They make a tree dirty.
        Dirty = "dirty",
    }
}

choice! {
    /// Where workers' output goes.
    OutputTarget {
        /// The journal where there is one, else a file.
        Auto = "auto",
        /// The journal.
        Journal = "journal",
        /// A file.
        File = "file",
    }
}

choice! {
    /// How much the daemon logs.
    LogLevel {
        /// Faults.
        Error = "error",
        /// And what deserves a look.
        Warn = "warn",
        /// And what happened.
        Info = "info",
        /// And why.
        Debug = "debug",
        /// And everything else.
        Trace = "trace",
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

fn text<'a>(value: &'a DeValue<'_>) -> Result<&'a str, String> {
    value
        .as_str()
        .ok_or_else(|| format!("takes a text in quotes, not {}", a(value)))
}

/// "an integer", "a boolean" and so on.
fn a(value: &DeValue<'_>) -> String {
    let kind = value.type_str();
    let article = if kind.starts_with(['a', 'i', 'o']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

fn integer(value: &DeValue<'_>) -> Result<i128, String> {
    let number = value
        .as_integer()
        .ok_or_else(|| format!("takes an integer, not {}", a(value)))?;
    i128::from_str_radix(number.as_str(), number.radix())
        .map_err(|_| "is an integer out of range".to_owned())
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Value for $ty {
            const SHAPE: &'static str = "a number";

            fn read(value: &DeValue<'_>) -> Result<Self, String> {
                let n = integer(value)?;
                Self::try_from(n).map_err(|_| {
                    format!("is {n}, which is not between {} and {}", <$ty>::MIN, <$ty>::MAX)
                })
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
integers!(u32 i32);

impl Value for bool {
    const SHAPE: &'static str = "true or false";

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value
            .as_bool()
            .ok_or_else(|| format!("takes true or false, not {}", a(value)))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for LeftoversPolicy {
    const SHAPE: &'static str = "one of \"kill\" \"wait\"";

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        text(value)?.parse()
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

impl Value for Cgroup {
    const SHAPE: &'static str = "\"auto\", \"none\" or an absolute path";

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match text(value)? {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            path if path.starts_with('/') && !path.contains('\0') => Ok(Self::Path(path.into())),
            other => Err(format!(
                "{other:?} is neither \"auto\" nor \"none\" nor an absolute path"
            )),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "\"auto\"".to_owned(),
            Self::None => "\"none\"".to_owned(),
            Self::Path(path) => toml::Value::from(path.to_string_lossy().as_ref()).to_string(),
        }
    }
}

impl Value for Umask {
    const SHAPE: &'static str = "octal digits in quotes";

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let text =
            text(value).map_err(|_| "takes octal digits in quotes, as \"0022\"".to_owned())?;
        match u32::from_str_radix(text, 8) {
            Ok(mask) if mask <= 0o777 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(Self(mask)),
            _ => Err(format!(
                "{text:?} is not octal between \"0000\" and \"0777\""
            )),
        }
    }

    fn show(&self) -> String {
        format!("\"{:04o}\"", self.0)
    }
}

impl Value for Signal {
    const SHAPE: &'static str = "the name of a signal, or its number";

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        if let Ok(n) = integer(value) {
            return match i32::try_from(n) {
                Ok(n) if (1..=64).contains(&n) => Ok(Self(n)),
                _ => Err(format!("is {n}, which is no signal (1 to 64)")),
            };
        }
        let name = text(value).map_err(|_| "takes a signal's name, as \"SIGTERM\"".to_owned())?;
        let full = match name.strip_prefix("SIG") {
            Some(_) => name.to_owned(),
            None => format!("SIG{name}"),
        };
        nix::sys::signal::Signal::from_str(&full)
            .map(|s| Self(s as i32))
            .map_err(|_| format!("{name:?} is no signal's name, as \"SIGTERM\" is one"))
    }

    fn show(&self) -> String {
        match nix::sys::signal::Signal::try_from(self.0) {
            Ok(signal) => format!("\"{}\"", signal.as_str()),
            Err(_) => self.0.to_string(),
        }
    }
}

impl Value for Duration {
    const SHAPE: &'static str = "a length of time";

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        if integer(value) == Ok(0) {
            return Ok(Duration::ZERO);
        }
        parse_duration(text(value).map_err(|_| {
            format!(
                "takes a length of time in quotes, as \"90s\", not {}",
                a(value)
            )
        })?)
    }

    fn show(&self) -> String {
        format!("\"{}\"", show_duration(*self))
    }
}

impl Value for Size {
    const SHAPE: &'static str = "a size in bytes";

    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        if let Ok(n) = integer(value) {
            return u64::try_from(n)
                .map(Self)
                .map_err(|_| format!("is {n}, which is no size"));
        }
        text(value)
            .map_err(|_| format!("takes a size, as \"64MiB\", not {}", a(value)))?
            .parse()
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

/// Everything the type allows.
pub(super) fn any<T>(_: &T) -> Result<(), String> {
    Ok(())
}

/// From `least` to `most`.
pub(super) fn between<T: Value + PartialOrd>(
    least: T,
    most: T,
) -> impl Fn(&T) -> Result<(), String> {
    move |value| {
        if *value < least || *value > most {
            Err(format!(
                "is {}, which is not between {} and {}",
                value.show(),
                least.show(),
                most.show()
            ))
        } else {
            Ok(())
        }
    }
}

/// Up to `most`.
pub(super) fn at_most<T: Value + PartialOrd>(most: T) -> impl Fn(&T) -> Result<(), String> {
    move |value| {
        if *value > most {
            Err(format!("is {}, more than {}", value.show(), most.show()))
        } else {
            Ok(())
        }
    }
}

/// 1 or more.
pub(super) fn positive(value: &u32) -> Result<(), String> {
    if *value == 0 {
        Err("is 0, which would turn everybody away".to_owned())
    } else {
        Ok(())
    }
}
