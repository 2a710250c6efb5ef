//! The words a row is described with. Specification sections 1, 6 and 7.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word used in rows, on the bus, in JSON and on the command line.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            /// The error lists the words that are known.
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok($name::$variant),)*
                    _ => Err(format!("{text:?} is none of {}", [$($word),*].join(", "))),
                }
            }
        }
    };
}
pub(crate) use words;

words! {
    /// Where a row stands.
    Status {
        /// No process confirmed yet.
        Spawning = "spawning",
        /// Its process runs.
        Live = "live",
        /// A ladder is under way, or what the leader left is being ended.
        Stopping = "stopping",
        /// Waiting out a back-off; carries no pid.
        Restarting = "restarting",
        /// Ended, on positive evidence.
        Exited = "exited",
        /// The restart ceiling was hit; it will not be started again.
        PermanentDead = "permanent-dead",
        /// An adopted row whose process can be shown neither alive nor dead.
        Orphaned = "orphaned",
    }
}

impl Status {
    /// May the collector look at it: `exited`, `permanent-dead`, `orphaned`.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Status::Exited | Status::PermanentDead | Status::Orphaned
        )
    }
}

words! {
    /// How a live worker is doing.
    Health {
        /// Recent progress.
        Healthy = "healthy",
        /// Quiet, but it answers, or never promised to: left alone.
        Busy = "busy",
        /// No progress and no answer.
        Stuck = "stuck",
        /// The end of its channel or its process was seen.
        Dead = "dead",
        /// Past its hard deadline.
        DeadlineExceeded = "deadline-exceeded",
    }
}

words! {
    /// How an ended worker ended.
    Outcome {
        /// Exit code 0.
        Completed = "completed",
        /// Another code, or a signal nobody asked for.
        Crashed = "crashed",
        /// A ladder had begun before the exit, or a signal was asked for through musterd.
        Cancelled = "cancelled",
        /// Its end was not witnessed.
        Unknown = "unknown",
    }
}

words! {
    /// What the outcome rests on.
    HowKnown {
        /// We waited for it.
        Waited = "waited",
        /// It never started: the start itself failed.
        StartFailed = "start-failed",
        /// Its pid is gone.
        PidGone = "pid-gone",
        /// Its pid belongs to another process now.
        PidRecycled = "pid-recycled",
        /// The machine was booted since.
        Rebooted = "rebooted",
        /// The daemon died; the kernel ended its workers with it, or the next start did.
        DaemonLost = "daemon-lost",
        /// An adopted process: its pidfd said so.
        PidfdClosed = "pidfd-closed",
    }
}

words! {
    /// A step of the ladder (section 7); in a row, the one that worked.
    Rung {
        /// It ended by itself; nothing was sent.
        None = "none",
        /// Asked on the control channel.
        Cancel = "cancel",
        /// The stop signal to its group, then to the rest of its leaf.
        Term = "term",
        /// SIGKILL to the group and the leaf.
        Kill = "kill",
        /// It outlived the kill; retried with back-off.
        Unkillable = "unkillable",
    }
}
