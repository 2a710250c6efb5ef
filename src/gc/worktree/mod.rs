//! Is a worktree clean? Specification section 4.
//!
//! Nobody looks into a user's directories but a helper process that has taken the user's ids
//! (`helper`); the daemon asks it over two pipes (`prober`).
//!
//! ```text
//! sweep -> Probes = Prober -> [pipes] -> musterd probe (owner's ids) -> check -> git
//! ```

mod check;
mod discover;
mod git;
mod helper;
mod index;
mod index_copy;
mod place;
mod prober;
mod repo;
mod status;
mod wire;

use std::path::PathBuf;
use std::pin::Pin;

use super::facts::Tree;
use crate::worker::Owner;

pub use discover::{Owned, owned_worktree};
pub use helper::helper_main;
pub use prober::{HelperIo, HelperLauncher, ProbeOptions, Prober};

/// Device and inode.
pub type Inode = (u64, u64);

/// What a directory is, whatever it is called: its own device and inode first, then those of
/// the directories it lies in, up to the root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity(pub Vec<Inode>);

impl Identity {
    /// The directory itself.
    pub fn own(&self) -> Option<Inode> {
        self.0.first().copied()
    }
}

/// Answer of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeState {
    /// The probe ran to its end, all of its output was understood, and nothing can be lost.
    Clean,
    /// Something could be lost.
    Dirty(String),
    /// Everything else.
    Unknown(String),
}

impl From<TreeState> for Tree {
    fn from(state: TreeState) -> Self {
        match state {
            TreeState::Clean => Tree::Clean,
            TreeState::Dirty(what) => Tree::Dirty(what),
            TreeState::Unknown(why) => Tree::Unknown(why),
        }
    }
}

/// An answer that comes later.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Whom a sweep asks about directories. Each answer comes within the probe's time limit.
pub trait Probes: Send + Sync {
    /// Is the worktree clean? `mount` is where its file system is to be mounted, if recorded.
    fn probe(&self, owner: Owner, path: PathBuf, mount: Option<PathBuf>) -> Later<TreeState>;

    /// What directory is it? `None` where that cannot be told.
    fn identify(&self, owner: Owner, path: PathBuf) -> Later<Option<Identity>>;
}
