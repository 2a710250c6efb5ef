//! The registry's record of a worker. It outlives the process (section 2).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::id::WorkerId;
use super::kind::Kind;
use super::process::{Pid, ProcessId};
use super::rare::Rare;
use super::spec::{Control, Ending, LeftoversPolicy, Limits, RestartPolicy, Timeouts};
use super::status::{HowKnown, Outcome, Rung, Status};
use super::time::Timestamp;

/// Whom a worker belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Uid.
    pub uid: u32,
    /// Gid.
    pub gid: u32,
}

/// How the leader's process ended, as waitid(2) told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// Exit code.
    Code(i32),
    /// Signal that ended it.
    Signal(i32),
}

/// Who asked for the end, why and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    /// Uid that asked; the daemon's own for deadlines, drain and so on.
    pub by: u32,
    /// Why, in the caller's words; at most 1 KiB.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// Most of a reason that is kept, bytes.
const REASON_MAX: usize = 1024;

impl Cancellation {
    /// With the reason clipped to what a row may hold.
    pub fn new(by: u32, reason: &str, at: Timestamp) -> Self {
        let reason = clip(reason, REASON_MAX);
        Self { by, reason, at }
    }
}

/// What the leader left running (section 8).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Leftovers {
    /// How many processes.
    pub count: u32,
    /// Command names, each once, at most 32 of them.
    pub names: Vec<String>,
}

/// Tokens used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tokens {
    /// Into the model.
    pub input: u64,
    /// Out of the model.
    pub output: u64,
}

/// One row of the roll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: WorkerId,
    /// Its name, empty for none.
    pub name: String,
    /// Why it exists.
    pub kind: Kind,
    /// Whom it belongs to.
    pub owner: Owner,
    /// What was asked to run.
    pub argv: Vec<OsString>,
    /// Where.
    pub cwd: PathBuf,
    /// The worktree it owns (section 4), if it does.
    pub worktree: Option<PathBuf>,
    /// Where the worktree's file system was mounted when the row was made.
    pub worktree_mount: Option<PathBuf>,
    /// The worker that asked for it.
    pub parent: Option<WorkerId>,
    /// 0 for a worker asked for from outside.
    pub depth: u32,
    /// Message hops behind it: one more than its parent's.
    pub msg_depth: u32,
    /// Row made.
    pub created: Timestamp,
    /// Program executed.
    pub started: Option<Timestamp>,
    /// Seen dead; the grace counts from here.
    pub exited: Option<Timestamp>,
    /// The leader's identity.
    pub process: Option<ProcessId>,
    /// The leader's process group.
    pub pgid: Option<Pid>,
    /// Its leaf, a path below the cgroup2 mount.
    pub leaf: Option<PathBuf>,
    /// Where it stands.
    pub status: Status,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What the outcome rests on.
    pub how_known: Option<HowKnown>,
    /// The leader's exit.
    pub exit: Option<Exit>,
    /// The kernel's OOM killer struck in its leaf.
    pub oom_killed: bool,
    /// The rung that worked.
    pub rung: Option<Rung>,
    /// From the first rung to the end.
    pub took: Option<Duration>,
    /// Processes that were ended by the ladder or swept after it.
    pub processes: u32,
    /// Error of a failed start: errno, stage and path in words; or another fact worth telling.
    pub note: Option<String>,
    /// What it said of its own failure, by frame or by report, empty if it said nothing of the
    /// kind; at most 1 KiB.
    pub failure: Rare<String>,
    /// A terminal frame was folded in, by whichever generation. Never taken back.
    pub settled: bool,
    /// Asked to end.
    pub cancelled: Option<Cancellation>,
    /// Tokens used.
    pub tokens: Tokens,
    /// Generations after the first.
    pub restarts: u32,
    /// Frames and fields of its channel that were skipped, as far as this counts.
    pub frames_skipped: u16,
    /// What the leader left running.
    pub leftovers: Leftovers,
    /// Kept by hand, and not collected while it is.
    pub held: bool,
    /// Put on the roll by Adopt.
    pub adopted: bool,
    /// Limits asked for.
    pub limits: Rare<Limits>,
    /// Detectors asked for.
    pub timeouts: Rare<Timeouts>,
    /// Ladder asked for.
    pub ending: Rare<Ending>,
    /// Control channel asked for.
    pub control: Control,
    /// Restart policy asked for.
    pub restart: RestartPolicy,
    /// Restart ceiling asked for.
    pub restart_max: Option<u32>,
    /// Leftovers policy in force.
    pub leftovers_policy: LeftoversPolicy,
    /// Correlation id.
    pub trace_id: String,
    /// The private runtime directory, while it is there.
    pub runtime_dir: Option<PathBuf>,
    /// The output file, where output does not go to the journal.
    pub output: Option<PathBuf>,
    /// Output goes to the journal, under the identifier `muster-ID`.
    pub journal: bool,
    /// Bytes punched out of the output file.
    pub output_dropped: u64,
    /// Grows with every change of the row.
    pub generation: u64,
}

impl Row {
    /// Has it used all the tokens it may use? Its own count: what workers it asked for use is
    /// theirs.
    pub fn budget_is_spent(&self) -> bool {
        let used = self.tokens.input.saturating_add(self.tokens.output);
        self.limits.tokens_max.is_some_and(|max| used >= max)
    }

    /// A row in `spawning`, with everything else at its beginning.
    pub fn new(id: WorkerId, owner: Owner, created: Timestamp) -> Self {
        Self {
            id,
            name: String::new(),
            kind: Kind::Command,
            owner,
            argv: Vec::new(),
            cwd: PathBuf::from("/"),
            worktree: None,
            worktree_mount: None,
            parent: None,
            depth: 0,
            msg_depth: 0,
            created,
            started: None,
            exited: None,
            process: None,
            pgid: None,
            leaf: None,
            status: Status::Spawning,
            outcome: None,
            how_known: None,
            exit: None,
            oom_killed: false,
            rung: None,
            took: None,
            processes: 0,
            note: None,
            failure: Rare::default(),
            settled: false,
            cancelled: None,
            tokens: Tokens::default(),
            restarts: 0,
            frames_skipped: 0,
            leftovers: Leftovers::default(),
            held: false,
            adopted: false,
            limits: Rare::default(),
            timeouts: Rare::default(),
            ending: Rare::default(),
            control: Control::None,
            restart: RestartPolicy::No,
            restart_max: None,
            leftovers_policy: LeftoversPolicy::Kill,
            trace_id: String::new(),
            runtime_dir: None,
            output: None,
            journal: false,
            output_dropped: 0,
            generation: 0,
        }
    }
}

/// At most `max` bytes of a text, cut between characters, control characters replaced.
pub fn clip(text: &str, max: usize) -> String {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0);
    text[..end]
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// Text that may not be UTF-8, kept losslessly in TOML and JSON: a string where it is one, else
/// a table `{ bytes = "..." }` in which every byte that is not printable ASCII, and the
/// backslash, is `\xHH`.
pub mod bytes {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// The wire shape of one such text.
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    pub(super) enum Text {
        Plain(String),
        Escaped { bytes: String },
    }

    pub(super) fn to_text(value: &OsStr) -> Text {
        match value.to_str() {
            Some(text) => Text::Plain(text.to_owned()),
            None => Text::Escaped {
                bytes: escape(value.as_bytes()),
            },
        }
    }

    pub(super) fn from_text(text: Text) -> Result<OsString, String> {
        match text {
            Text::Plain(text) => Ok(text.into()),
            Text::Escaped { bytes } => unescape(&bytes).map(OsString::from_vec),
        }
    }

    /// `\xHH` for everything but printable ASCII without the backslash.
    pub fn escape(bytes: &[u8]) -> String {
        let mut out = String::with_capacity(bytes.len());
        for &byte in bytes {
            if (b' '..=b'~').contains(&byte) && byte != b'\\' {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("\\x{byte:02x}"));
            }
        }
        out
    }

    /// The inverse of [`escape`]; the error says where it stopped understanding.
    pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            if *first != b'\\' {
                out.push(*first);
                rest = tail;
                continue;
            }
            let hex = tail
                .strip_prefix(b"x")
                .and_then(|t| t.get(..2))
                .and_then(|h| std::str::from_utf8(h).ok())
                .and_then(|h| u8::from_str_radix(h, 16).ok());
            match hex {
                Some(byte) => out.push(byte),
                None => return Err(format!("bad escape at byte {}", text.len() - rest.len())),
            }
            rest = &tail[3..];
        }
        Ok(out)
    }

    /// For a path field.
    pub fn serialize<S: Serializer>(value: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        to_text(value.as_os_str()).serialize(serializer)
    }

    /// For a path field.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        from_text(Text::deserialize(deserializer)?)
            .map(PathBuf::from)
            .map_err(serde::de::Error::custom)
    }
}

/// A list of such texts.
pub mod bytes_list {
    use std::ffi::OsString;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::bytes::{Text, from_text, to_text};

    /// For a list field.
    pub fn serialize<S: Serializer>(value: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(value.iter().map(|v| to_text(v)))
    }

    /// For a list field.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<OsString>, D::Error> {
        Vec::<Text>::deserialize(deserializer)?
            .into_iter()
            .map(|t| from_text(t).map_err(serde::de::Error::custom))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Row;
    use super::bytes::{escape, unescape};

    #[test]
    fn a_row_stays_small() {
        let size = size_of::<Row>();
        assert!(size <= 672, "{size} bytes, 100,000 times over");
    }

    #[test]
    fn every_byte_survives_escaping() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&escape(&all)), Ok(all));
    }

    #[test]
    fn a_broken_escape_is_an_error_with_its_place() {
        for (text, place) in [("\\", 0), ("ab\\x", 2), ("\\xg0", 0), ("x\\n", 1)] {
            assert_eq!(
                unescape(text),
                Err(format!("bad escape at byte {place}")),
                "{text:?}"
            );
        }
    }
}
