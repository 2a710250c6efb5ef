//! `org.freedesktop.LogControl1` (org.freedesktop.LogControl1(5)): `systemctl service-log-level`
//! and `musterctl log-level` read and set here what the daemon logs.

use std::fmt::Debug;

use zbus::{Message, OwnedVariant, Variant};

use super::contract::LOG_CONTROL_INTERFACE;
use super::dispatch::Call;
use super::errors::{Code, Failure};
use crate::config::LogLevel;
use crate::log::Control;
use crate::service_event;
use crate::supervisor::handle::Right;

/// The object; the man page fixes its path for every service.
pub const LOG_OBJECT: &str = "/org/freedesktop/LogControl1";
/// The interface.
pub const LOG_CONTROL: &str = "org.freedesktop.LogControl1";
/// `SYSLOG_IDENTIFIER` of the daemon's own lines.
const IDENTIFIER: &str = "musterd";

/// The log of this process.
pub trait LogControl: Send + Sync + Debug {
    /// The level in force.
    fn level(&self) -> LogLevel;
    /// From now on this one, until the daemon ends.
    fn set_level(&self, level: LogLevel);
    /// Does it go to the journal?
    fn to_journal(&self) -> bool;
}

impl LogControl for Control {
    fn level(&self) -> LogLevel {
        Control::level(self)
    }

    fn set_level(&self, level: LogLevel) {
        Control::set_level(self, level);
    }

    fn to_journal(&self) -> bool {
        Control::to_journal(self)
    }
}

/// syslog's word for a level; there is none below debug.
pub fn word(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "err",
        LogLevel::Warn => "warning",
        LogLevel::Info => "info",
        LogLevel::Debug | LogLevel::Trace => "debug",
    }
}

/// The level that shows what syslog's word asks for. Nothing is logged at `notice`, and nothing
/// above `err`.
pub fn level(word: &str) -> Option<LogLevel> {
    Some(match word {
        "emerg" | "alert" | "crit" | "err" => LogLevel::Error,
        "warning" | "notice" => LogLevel::Warn,
        "info" => LogLevel::Info,
        "debug" => LogLevel::Debug,
        _ => return None,
    })
}

/// One property; `None` for a name there is not.
pub fn get(log: &dyn LogControl, name: &str) -> Option<Variant<'static>> {
    Some(match name {
        "LogLevel" => word(log.level()).into(),
        "LogTarget" if log.to_journal() => "journal".into(),
        "LogTarget" => "console".into(),
        "SyslogIdentifier" => IDENTIFIER.into(),
        _ => return None,
    })
}

/// All of them.
pub fn all(log: &dyn LogControl) -> Vec<(&'static str, Variant<'static>)> {
    LOG_CONTROL_INTERFACE
        .properties
        .iter()
        .filter_map(|p| Some((p.name, get(log, p.name)?)))
        .collect()
}

/// Sets the level, for who may manage the service.
pub async fn set(call: &Call<'_>, name: &str, value: OwnedVariant) -> Result<Message, Failure> {
    let log = &*call.server.log;
    if name != "LogLevel" {
        let known = get(log, name).is_some();
        let (code, why) = match known {
            true => (Code::PropertyReadOnly, "cannot be written"),
            false => (Code::UnknownProperty, "is not there"),
        };
        return Err(Failure::new(code, format!("{LOG_CONTROL}.{name} {why}")));
    }
    let given = String::try_from(value)
        .map_err(|_| Failure::invalid("LogLevel is a string, for example \"debug\""))?;
    let new = level(&given).ok_or_else(|| {
        Failure::invalid(format!(
            "LogLevel {given:?} is none of emerg, alert, crit, err, warning, notice, info, debug"
        ))
    })?;
    call.ask(|caller| call.handle().allowed(caller, Right::ManageService))
        .await?;
    // Told first: the new level may be too high to show it.
    service_event!(
        WARN,
        crate::log::id::LOG_LEVEL,
        "log level {new} from now on, as uid {} asked for",
        call.who.uid
    );
    log.set_level(new);
    call.reply(&())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_syslog_leads_to_a_level_and_back_to_one_that_shows_as_much() {
        for (given, shown) in [
            ("emerg", "err"),
            ("alert", "err"),
            ("crit", "err"),
            ("err", "err"),
            ("warning", "warning"),
            ("notice", "warning"),
            ("info", "info"),
            ("debug", "debug"),
        ] {
            assert_eq!(level(given).map(word), Some(shown), "{given}");
        }
        for wrong in ["", "INFO", "trace", "7"] {
            assert_eq!(level(wrong), None, "{wrong}");
        }
    }
}
