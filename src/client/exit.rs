//! Exit codes of `musterctl` (section 13), and the one error type of the client: a sentence for
//! stderr with the code it ends in.

use std::fmt;

use crate::worker::{Exit, Outcome};

/// What the program returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code(pub u8);

impl Code {
    /// Done.
    pub const DONE: Code = Code(0);
    /// It was tried and failed.
    pub const FAILED: Code = Code(1);
    /// The command line, or a value on it, is wrong.
    pub const USAGE: Code = Code(2);
    /// The worker is known but does not run: `status`, and what only a running one can have done
    /// to it (`kill`, `freeze`, `thaw`, `send`).
    pub const NOT_RUNNING: Code = Code(3);
    /// `status`: no such worker.
    pub const NO_SUCH_WORKER: Code = Code(4);
    /// Actions: not authorised.
    pub const NOT_AUTHORISED: Code = Code(4);
    /// Actions: no such worker.
    pub const UNKNOWN_WORKER: Code = Code(5);
    /// The configuration has faults.
    pub const BAD_CONFIG: Code = Code(6);
    /// No daemon can be reached.
    pub const UNREACHABLE: Code = Code(7);
    /// Refused by admission.
    pub const REFUSED: Code = Code(8);
    /// A `--timeout` has passed.
    pub const TIMEOUT: Code = Code(124);

    /// As a shell tells that a signal ended a program.
    pub fn signal(signal: i32) -> Code {
        Code(u8::try_from(signal).map_or(255, |s| s.saturating_add(128)))
    }

    /// The worse of two: the higher one.
    #[must_use]
    pub fn worst(self, other: Code) -> Code {
        self.max(other)
    }

    /// A worker's own status as a shell tells it: its exit code, or 128 + signal. Where the
    /// leader's exit is not known: 0 for completed, else 1.
    pub fn of_worker(outcome: Option<Outcome>, exit: Option<Exit>) -> Code {
        match exit {
            // Only the low byte of exit(3)'s argument ever reaches the parent.
            Some(Exit::Code(code)) => Code(u8::try_from(code & 0xff).unwrap_or(1)),
            Some(Exit::Signal(signal)) => Code::signal(signal),
            None if outcome == Some(Outcome::Completed) => Code::DONE,
            None => Code::FAILED,
        }
    }
}

impl From<Code> for std::process::ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

/// What went wrong, said once on stderr by `main`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The code it ends in.
    pub code: Code,
    /// One sentence; empty where everything was said already.
    pub message: String,
}

impl Failure {
    /// With this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Code 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Code::FAILED, message)
    }

    /// Code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::USAGE, message)
    }

    /// Code 7.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Code::UNREACHABLE, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Why a verb asks: the same D-Bus error ends in another code for a look than for an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// `status`.
    Status,
    /// Everything else.
    Action,
}

/// The code of a named D-Bus error.
pub fn code_of(error_name: &str, asking: Asking) -> Code {
    let own = error_name.strip_prefix("org.muster1.Error.");
    match own.unwrap_or(error_name) {
        "NoSuchWorker" if asking == Asking::Status => Code::NO_SUCH_WORKER,
        "NoSuchWorker" => Code::UNKNOWN_WORKER,
        "Ambiguous" | "AmbiguousWorker" => Code::USAGE,
        "ShuttingDown" | "Reloading" => Code::UNREACHABLE,
        // A name that is taken is a refusal of admission too (section 10).
        "NameTaken" => Code::REFUSED,
        name if own.is_some() && (name == "Refused" || name.starts_with("Refused.")) => {
            Code::REFUSED
        }
        "org.freedesktop.DBus.Error.AccessDenied"
        | "org.freedesktop.DBus.Error.AuthFailed"
        | "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired" => Code::NOT_AUTHORISED,
        "org.freedesktop.DBus.Error.InvalidArgs" => Code::USAGE,
        "org.freedesktop.DBus.Error.ServiceUnknown"
        | "org.freedesktop.DBus.Error.NameHasNoOwner"
        | "org.freedesktop.DBus.Error.NoReply"
        | "org.freedesktop.DBus.Error.NoServer"
        | "org.freedesktop.DBus.Error.Disconnected" => Code::UNREACHABLE,
        name if name.starts_with("org.freedesktop.DBus.Error.Spawn.")
            || name.starts_with("org.freedesktop.systemd1.") =>
        {
            Code::UNREACHABLE
        }
        _ => Code::FAILED,
    }
}

impl From<crate::places::NoPlace> for Failure {
    fn from(error: crate::places::NoPlace) -> Self {
        match error {
            crate::places::NoPlace::Relative { .. } => Failure::usage(error.to_string()),
            crate::places::NoPlace::NoHome => Failure::unreachable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_error_has_its_code() {
        for (name, status, action) in [
            ("org.muster1.Error.NoSuchWorker", 4, 5),
            ("org.muster1.Error.Ambiguous", 2, 2),
            ("org.muster1.Error.Refused.Draining", 8, 8),
            ("org.muster1.Error.Refused.TooMany", 8, 8),
            ("org.muster1.Error.Refused.SpawnRate", 8, 8),
            ("org.muster1.Error.Refused.TokenBudget", 8, 8),
            ("org.muster1.Error.NameTaken", 8, 8),
            ("org.muster1.Error.WrongState", 1, 1),
            ("org.muster1.Error.StartFailed", 1, 1),
            ("org.muster1.Error.ShuttingDown", 7, 7),
            ("org.freedesktop.DBus.Error.AccessDenied", 4, 4),
            ("org.freedesktop.DBus.Error.InvalidArgs", 2, 2),
            ("org.freedesktop.DBus.Error.ServiceUnknown", 7, 7),
            ("org.freedesktop.DBus.Error.NoReply", 7, 7),
            ("org.freedesktop.DBus.Error.Spawn.ExecFailed", 7, 7),
            ("com.example.Refused.X", 1, 1),
        ] {
            assert_eq!(code_of(name, Asking::Status), Code(status), "{name}");
            assert_eq!(code_of(name, Asking::Action), Code(action), "{name}");
        }
    }

    #[test]
    fn a_workers_status_is_told_as_a_shell_tells_it() {
        for (outcome, exit, code) in [
            (Outcome::Completed, Some(Exit::Code(0)), 0),
            (Outcome::Crashed, Some(Exit::Code(7)), 7),
            (Outcome::Crashed, Some(Exit::Code(255)), 255),
            (Outcome::Cancelled, Some(Exit::Signal(15)), 143),
            (Outcome::Crashed, Some(Exit::Signal(9)), 137),
            (Outcome::Cancelled, Some(Exit::Code(0)), 0),
            (Outcome::Unknown, None, 1),
            (Outcome::Completed, None, 0),
        ] {
            assert_eq!(
                Code::of_worker(Some(outcome), exit),
                Code(code),
                "{outcome} {exit:?}"
            );
        }
    }

    #[test]
    fn the_worst_of_several_is_the_highest() {
        let all = [Code::DONE, Code::UNKNOWN_WORKER, Code::FAILED];
        assert_eq!(
            all.into_iter().fold(Code::DONE, Code::worst),
            Code::UNKNOWN_WORKER
        );
    }
}
