//! The cheap facts: is anything of a worker alive. Every look goes through [`Look`], so that
//! tests can say what the system says.

use std::path::Path;

use super::facts::{Facts, Live, Tree};
use super::sweep::RowFacts;
use crate::worker::{HowKnown, ProcessId, Status};

/// What the system says of a recorded process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Process {
    /// It runs.
    Alive,
    /// It is gone: `pid-gone`, `pid-recycled` or `rebooted`.
    Gone(HowKnown),
    /// It cannot be told; the text says why.
    Unknown(String),
}

/// Looks at the system. Called off the event loop; may block for as long as `/proc` takes.
pub trait Look: Send + Sync {
    /// Is the process with this identity alive?
    fn process(&self, id: &ProcessId) -> Process;

    /// Has the leaf (a path below the cgroup2 mount) processes in it? `None`: no such leaf.
    /// The error says why it cannot be told.
    fn leaf_populated(&self, leaf: &Path) -> Result<Option<bool>, String>;
}

/// A row with what was found of it.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) facts: Facts,
    /// The row claims life, is no child of ours and is dead; this is how we know.
    pub(super) found_dead: Option<HowKnown>,
}

impl Gathered {
    /// The look itself failed.
    pub(super) fn failed(row: &RowFacts, why: &str) -> Self {
        let mut found = gather(row, &Blind(why));
        if found.facts.live == Live::No {
            found.facts.live = Live::Unknown(why.to_owned());
        }
        found
    }
}

/// Sees nothing.
struct Blind<'a>(&'a str);

impl Look for Blind<'_> {
    fn process(&self, _: &ProcessId) -> Process {
        Process::Unknown(self.0.to_owned())
    }

    fn leaf_populated(&self, _: &Path) -> Result<Option<bool>, String> {
        Err(self.0.to_owned())
    }
}

/// Fills in the facts of one row. Looks no further than the first sign of life.
pub(super) fn gather(row: &RowFacts, look: &dyn Look) -> Gathered {
    let mut gone = None;
    let live = if row.known_live {
        Live::Yes
    } else {
        liveness(row, look, &mut gone)
    };
    // A row that is coming up has no process, so none of its own can be confirmed dead.
    let coming_up = matches!(row.status, Status::Spawning | Status::Restarting);
    let found_dead = gone.filter(|_| live == Live::No && !row.status.is_terminal());
    Gathered {
        facts: Facts {
            status: row.status,
            held: row.held,
            read_only: row.read_only,
            pid_confirmed_dead: gone.is_some() && !coming_up,
            live,
            exited_at: row.exited,
            tree: match row.worktree {
                Some(_) => Tree::NotAsked,
                None => Tree::NotOwned,
            },
        },
        found_dead,
    }
}

fn liveness(row: &RowFacts, look: &dyn Look, gone: &mut Option<HowKnown>) -> Live {
    let mut doubt = None;
    if let Some(id) = &row.process {
        match look.process(id) {
            Process::Alive => return Live::Yes,
            Process::Gone(how) => *gone = Some(how),
            Process::Unknown(why) => doubt = Some(format!("process {}: {why}", id.pid)),
        }
    }
    if let Some(leaf) = &row.leaf {
        match look.leaf_populated(leaf) {
            Ok(Some(true)) => return Live::Yes,
            Ok(Some(false) | None) => {}
            Err(why) => doubt = Some(format!("control group {}: {why}", leaf.display())),
        }
    }
    for id in &row.descendants {
        match look.process(id) {
            Process::Alive => return Live::Yes,
            Process::Gone(_) => {}
            Process::Unknown(why) => doubt = Some(format!("process {}: {why}", id.pid)),
        }
    }
    doubt.map_or(Live::No, Live::Unknown)
}
