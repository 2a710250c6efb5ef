//! What is asked for when a worker is started. Checked here, carried out elsewhere.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kind::{Kind, KindError};
use super::status::words;

mod check;

words! {
    /// How a worker talks to the daemon (section 9).
    Control {
        /// Not at all.
        None = "none",
        /// JSON frames on a socketpair.
        Frames = "frames",
        /// sd_notify messages.
        Notify = "notify",
    }
}

words! {
    /// What happens to processes that outlive the leader (section 8).
    LeftoversPolicy {
        /// They are ended.
        Kill = "kill",
        /// The worker lives until the last of them ends by itself.
        Wait = "wait",
    }
}

words! {
    /// When a worker is started again (section 10).
    RestartPolicy {
        /// Never.
        No = "no",
        /// After crashed or unknown.
        OnFailure = "on-failure",
        /// After any end but cancelled.
        Always = "always",
    }
}

words! {
    /// Who is turned away first under pressure.
    Priority {
        /// First.
        Low = "low",
        /// Second.
        Normal = "normal",
        /// Last.
        High = "high",
    }
}

/// Does the row own a worktree (section 4)?
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WorktreeChoice {
    /// The linked git worktree its cwd lies in, if it does.
    #[default]
    Auto,
    /// None, whatever the cwd.
    None,
    /// This directory.
    Path(PathBuf),
}

/// Limits of one worker; `None` is no limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Limits {
    /// `memory.max`, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max: Option<u64>,
    /// `pids.max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_max: Option<u64>,
    /// `cpu.weight`, 1 to 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<u64>,
    /// `cpu.max`, percent of one CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_max_percent: Option<u32>,
    /// Nice value, -20 to 19.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Input and output tokens together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u64>,
}

/// Detectors of one worker (section 6); `None` takes the configured default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Timeouts {
    /// Hard deadline, counted from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// Quiet after a settled turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Duration>,
    /// No progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Duration>,
    /// No pong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pong: Option<Duration>,
}

/// How one worker is ended (section 7); `None` takes the configured default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Ending {
    /// Signal of the TERM rung.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<i32>,
    /// From the cancel frame to the TERM rung.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Duration>,
    /// From the TERM rung to the kill rung.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill_grace: Option<Duration>,
    /// Run after the last rung.
    #[serde(skip_serializing_if = "Vec::is_empty", with = "super::row::bytes_list")]
    pub stop_hook: Vec<OsString>,
}

/// `K=V` pairs handed to a worker. Never stored, logged or shown: its `Debug` prints a count.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(pub Vec<OsString>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}

/// Everything a Spawn asks for, but descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Program and arguments; the program is looked up in the worker's own PATH.
    pub argv: Vec<OsString>,
    /// Free text up to 128 bytes, empty for none.
    pub name: String,
    /// Absolute working directory.
    pub cwd: PathBuf,
    /// The worker's environment.
    pub env: Environment,
    /// Why it exists.
    pub kind: Kind,
    /// Detectors.
    pub timeouts: Timeouts,
    /// Control channel.
    pub control: Control,
    /// JSON handed over in the `spawn` frame; never stored.
    pub payload: Option<String>,
    /// Worktree.
    pub worktree: WorktreeChoice,
    /// Another uid (root only).
    pub uid: Option<u32>,
    /// Limits.
    pub limits: Limits,
    /// Restart policy.
    pub restart: RestartPolicy,
    /// Restart ceiling; `None` takes the configured default.
    pub restart_max: Option<u32>,
    /// Leftovers; `None` takes the configured default.
    pub leftovers: Option<LeftoversPolicy>,
    /// Ladder.
    pub ending: Ending,
    /// Priority.
    pub priority: Priority,
    /// Correlation id; empty lets the daemon make one.
    pub trace_id: String,
    /// TMPDIR and TMUX_TMPDIR in the private runtime directory.
    pub private_tmp: bool,
    /// Own session with a controlling terminal on stdin.
    pub tty: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            argv: Vec::new(),
            name: String::new(),
            cwd: PathBuf::from("/"),
            env: Environment::default(),
            kind: Kind::Command,
            timeouts: Timeouts::default(),
            control: Control::None,
            payload: None,
            worktree: WorktreeChoice::Auto,
            uid: None,
            limits: Limits::default(),
            restart: RestartPolicy::No,
            restart_max: None,
            leftovers: None,
            ending: Ending::default(),
            priority: Priority::Normal,
            trace_id: String::new(),
            private_tmp: false,
            tty: false,
        }
    }
}

/// What is wrong with a spec; each names the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The key's value is unusable.
    #[error("{key}: {why}")]
    Bad {
        /// Key of the Spawn dictionary.
        key: &'static str,
        /// What is wrong, and what is right.
        why: String,
    },
    /// The kind's fields.
    #[error("kind-fields: {0}")]
    Kind(#[from] KindError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_never_shows_its_values() {
        assert_eq!(
            format!("{:?}", Environment(vec!["KEY=secret".into()])),
            "Environment(1 variables)"
        );
    }
}
