//! The identity of a process: pid, start ticks and boot id together, never a bare number.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A pid that may be signalled: 2 or more. 0, 1 and negatives cannot be written, since to
/// kill(2) they mean a group, init or everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Pid(i32);

/// Why a recorded identity is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessIdError {
    /// 0, 1, negative, or out of range.
    #[error("{0} is not the pid of a process that may be signalled")]
    Pid(i64),
    /// Our own pid.
    #[error("{0} is this daemon itself")]
    Own(i64),
    /// Not a UUID as the kernel writes it.
    #[error("{0:?} is not a boot id")]
    Boot(String),
}

impl Pid {
    /// Refuses 0, 1, negatives and our own pid.
    pub fn new(pid: i64) -> Result<Self, ProcessIdError> {
        match i32::try_from(pid) {
            Ok(p) if p > 1 && p.unsigned_abs() != std::process::id() => Ok(Self(p)),
            Ok(p) if p > 1 => Err(ProcessIdError::Own(pid)),
            _ => Err(ProcessIdError::Pid(pid)),
        }
    }

    /// The number, for a system call or for display.
    pub fn get(self) -> i32 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Pid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Pid::new(i64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kernel's boot id (`/proc/sys/kernel/random/boot_id`): start ticks of two boots never
/// compare equal by accident.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BootId(u128);

impl std::str::FromStr for BootId {
    type Err = ProcessIdError;

    fn from_str(text: &str) -> Result<Self, ProcessIdError> {
        let text = text.trim();
        let bad = || ProcessIdError::Boot(text.chars().take(64).collect());
        let hex: String = text.split('-').collect();
        if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        u128::from_str_radix(&hex, 16).map(Self).map_err(|_| bad())
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let h = format!("{:032x}", self.0);
        write!(
            f,
            "{}-{}-{}-{}-{}",
            &h[..8],
            &h[8..12],
            &h[12..16],
            &h[16..20],
            &h[20..]
        )
    }
}

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for BootId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BootId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// One process of one boot. Two are the same process only if all three fields are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// The number.
    pub pid: Pid,
    /// Field 22 of `/proc/PID/stat` (proc_pid_stat(5)): raw clock ticks since boot.
    pub start_ticks: u64,
    /// The boot these ticks count from.
    pub boot_id: BootId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_mean_more_than_one_process_are_refused() {
        for pid in [0, 1, -1, -500, i64::from(i32::MAX) + 1, i64::MIN] {
            assert!(Pid::new(pid).is_err(), "{pid}");
        }
        assert!(Pid::new(i64::from(std::process::id())).is_err());
        assert_eq!(Pid::new(2).map(Pid::get), Ok(2));
    }

    #[test]
    fn a_boot_id_survives_text_and_garbage_is_refused() {
        let text = "0b6bd4c2-5b4c-4f2e-9d3f-1c1f6a1c2f3a";
        assert_eq!(
            text.parse::<BootId>().map(|b| b.to_string()),
            Ok(text.to_owned())
        );
        for bad in [
            "",
            "0",
            "0b6bd4c2-5b4c-4f2e-9d3f-1c1f6a1c2f3",
            "+b6bd4c25b4c4f2e9d3f1c1f6a1c2f3a",
        ] {
            assert!(bad.parse::<BootId>().is_err(), "{bad:?}");
        }
    }
}
