//! Error names on the bus: from a [`Refused`] to a name, and on the client's side back.

use super::auth::No;
use crate::supervisor::handle::Right;
use crate::supervisor::refused::Refused;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What an error reply says, without its text. Clients go by this, never by the text.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
            /// A name this version does not know.
            Other,
        }

        impl Code {
            /// Every code that has a name.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The D-Bus error name; that of `Other` is `org.freedesktop.DBus.Error.Failed`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Code::$variant => $name,)*
                    Code::Other => "org.freedesktop.DBus.Error.Failed",
                }
            }

            /// For want of a right.
            pub fn is_denied(self) -> bool {
                matches!(self, Code::AccessDenied | Code::NeedsAPerson)
            }

            /// The code of a D-Bus error name.
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($name => Code::$variant,)*
                    _ => Code::Other,
                }
            }
        }
    };
}

codes! {
    /// Nothing on the roll answers to it.
    NoSuchWorker = "org.muster1.Error.NoSuchWorker",
    /// Several rows answer to it.
    Ambiguous = "org.muster1.Error.Ambiguous",
    /// The caller's process has gone.
    CallerGone = "org.muster1.Error.CallerGone",
    /// The program could not be executed.
    StartFailed = "org.muster1.Error.StartFailed",
    /// Admission is closed.
    Draining = "org.muster1.Error.Refused.Draining",
    /// A limit of admission.
    TooMany = "org.muster1.Error.Refused.TooMany",
    /// Workers that start workers, too far.
    Depth = "org.muster1.Error.Refused.Depth",
    /// A chain of messages that is too long.
    MessageDepth = "org.muster1.Error.Refused.MessageDepth",
    /// One worker asks too fast; passes by itself.
    SpawnRate = "org.muster1.Error.Refused.SpawnRate",
    /// The machine strains for memory; passes by itself.
    MemoryPressure = "org.muster1.Error.Refused.MemoryPressure",
    /// The machine strains for CPU time; passes by itself.
    CpuPressure = "org.muster1.Error.Refused.CpuPressure",
    /// The worker that asks has spent its tokens.
    TokenBudget = "org.muster1.Error.Refused.TokenBudget",
    /// The worker that asks is being ended.
    AskerEnds = "org.muster1.Error.Refused.AskerEnds",
    /// The state directory cannot be written.
    DiskFull = "org.muster1.Error.Refused.DiskFull",
    /// A non-terminal row has the name.
    NameTaken = "org.muster1.Error.NameTaken",
    /// The verb does not fit the row's status.
    WrongState = "org.muster1.Error.WrongState",
    /// The row was written by a newer version.
    NewerSchema = "org.muster1.Error.NewerSchema",
    /// The host or this version cannot do it.
    NotSupported = "org.muster1.Error.NotSupported",
    /// The image is being replaced; ask again.
    Reloading = "org.muster1.Error.Reloading",
    /// The daemon is on its way out.
    ShuttingDown = "org.muster1.Error.ShuttingDown",
    /// A system call failed.
    Io = "org.freedesktop.DBus.Error.IOError",
    /// Not authorised.
    AccessDenied = "org.freedesktop.DBus.Error.AccessDenied",
    /// Not without a password, and the call does not let a person be asked for one.
    NeedsAPerson = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired",
    /// An argument or a key is unusable.
    InvalidArgs = "org.freedesktop.DBus.Error.InvalidArgs",
    /// No such object.
    UnknownObject = "org.freedesktop.DBus.Error.UnknownObject",
    /// No such interface on the object.
    UnknownInterface = "org.freedesktop.DBus.Error.UnknownInterface",
    /// No such method in the interface.
    UnknownMethod = "org.freedesktop.DBus.Error.UnknownMethod",
    /// No such property in the interface.
    UnknownProperty = "org.freedesktop.DBus.Error.UnknownProperty",
    /// The property cannot be written.
    PropertyReadOnly = "org.freedesktop.DBus.Error.PropertyReadOnly",
    /// A limit of the connection.
    LimitsExceeded = "org.freedesktop.DBus.Error.LimitsExceeded",
}

/// An error reply before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub code: Code,
    /// For people: what happened to which thing, and what to do.
    pub message: String,
}

impl Failure {
    /// An error reply.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// An unusable argument.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgs, message)
    }

    /// A right that was not granted, and what the authority said to it.
    pub fn no_right(right: Right, no: &No) -> Self {
        let mut failure = Self::from(Refused::NeedsRight(right));
        if no.needs_a_person {
            failure.code = Code::NeedsAPerson;
        }
        if !no.why.is_empty() {
            failure.message.push_str(": ");
            failure.message.push_str(&no.why);
        }
        failure
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let code = match &refused {
            Refused::NoSuchWorker(_) | Refused::NoSuchReaped(_) | Refused::NotInside => {
                Code::NoSuchWorker
            }
            Refused::Ambiguous { .. } => Code::Ambiguous,
            Refused::NeedsRight(_) | Refused::NotAuthorised(_) => Code::AccessDenied,
            Refused::CallerGone => Code::CallerGone,
            Refused::BadSpec(_) | Refused::InvalidArgs(_) => Code::InvalidArgs,
            Refused::StartFailed { .. } => Code::StartFailed,
            Refused::Draining => Code::Draining,
            Refused::ShuttingDown => Code::ShuttingDown,
            Refused::TooMany(_) => Code::TooMany,
            Refused::Depth(_) => Code::Depth,
            Refused::MessageDepth(_) => Code::MessageDepth,
            Refused::SpawnRate { .. } => Code::SpawnRate,
            Refused::MemoryPressure(_) => Code::MemoryPressure,
            Refused::CpuPressure(_) => Code::CpuPressure,
            Refused::TokenBudget(_) => Code::TokenBudget,
            Refused::AskerEnds(_) => Code::AskerEnds,
            Refused::NameTaken { .. } => Code::NameTaken,
            Refused::DiskFull(_) => Code::DiskFull,
            Refused::WrongState { .. } => Code::WrongState,
            Refused::NewerSchema(_) => Code::NewerSchema,
            Refused::NotSupported(_) => Code::NotSupported,
            Refused::Reloading => Code::Reloading,
            Refused::Io(_) => Code::Io,
        };
        let message = match &refused {
            Refused::NeedsRight(right) => format!(
                "not authorised: this needs the polkit action {}; root may always",
                action(*right)
            ),
            other => other.to_string(),
        };
        Self { code, message }
    }
}

/// The polkit action that grants a right.
pub fn action(right: Right) -> &'static str {
    match right {
        Right::Spawn => "org.muster1.spawn",
        Right::ListAll => "org.muster1.list-all",
        Right::ManageAll => "org.muster1.manage-all",
        Right::ManageService => "org.muster1.manage-service",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_its_name() {
        for code in Code::ALL {
            assert_eq!(Code::from_name(code.name()), *code);
        }
        assert_eq!(Code::from_name("org.example.Error"), Code::Other);
    }

    #[test]
    fn a_missing_right_is_access_denied_and_names_the_action() {
        let failure = Failure::from(Refused::NeedsRight(Right::ManageAll));
        assert_eq!(failure.code, Code::AccessDenied);
        assert!(failure.message.contains("org.muster1.manage-all"));
    }
}
