//! Trees that several rows name. A dead row's tree is protected while a row that lives, or may
//! live, owns the same tree, one inside it or one around it, or runs in it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::gather::Gathered;
use super::sweep::{RowFacts, may_live};
use super::worktree::{Identity, Inode};
use crate::worker::{Owner, WorkerId};

/// The rows that may be at work, by the directories they use.
pub(super) struct Users {
    /// Worktrees they own.
    trees: BTreeMap<PathBuf, (WorkerId, Owner)>,
    /// Directories they run in.
    cwds: BTreeMap<PathBuf, (WorkerId, Owner)>,
}

impl Users {
    pub(super) fn new(rows: &[RowFacts], found: &[Gathered]) -> Self {
        let mut users = Self {
            trees: BTreeMap::new(),
            cwds: BTreeMap::new(),
        };
        for (row, found) in rows.iter().zip(found) {
            if !may_live(&found.facts) {
                continue;
            }
            let user = (row.id, row.owner);
            if let Some(tree) = &row.worktree {
                users.trees.entry(tree.clone()).or_insert(user);
            }
            users.cwds.entry(row.cwd.clone()).or_insert(user);
        }
        users
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trees.is_empty() && self.cwds.is_empty()
    }

    /// Every directory in use, with an owner who may look at it.
    pub(super) fn paths(&self) -> impl Iterator<Item = (Owner, PathBuf)> + '_ {
        self.trees
            .iter()
            .chain(&self.cwds)
            .map(|(path, (_, owner))| (*owner, path.clone()))
    }

    /// Who works in the row's tree, as the paths are written.
    pub(super) fn by_path(&self, row: &RowFacts) -> Option<WorkerId> {
        let tree = row.worktree.as_deref()?;
        // Paths sort by component, so what lies inside a tree follows it directly.
        let inside = |map: &BTreeMap<PathBuf, (WorkerId, Owner)>| {
            let (path, (id, _)) = map.range(tree.to_path_buf()..).next()?;
            path.starts_with(tree).then_some(*id)
        };
        let around = || tree.ancestors().find_map(|a| self.trees.get(a));
        inside(&self.trees)
            .or_else(|| inside(&self.cwds))
            .or_else(|| around().map(|(id, _)| *id))
    }

    /// The same users by what their directories are.
    pub(super) fn by_identity(&self, named: &Named) -> UsersByIdentity {
        let mut index = UsersByIdentity::default();
        for (path, (id, owner)) in &self.trees {
            if let Some(own) = named.get(*owner, path).and_then(Identity::own) {
                index.trees.entry(own).or_insert(*id);
            }
        }
        for (path, (id, owner)) in self.trees.iter().chain(&self.cwds) {
            for inode in named.get(*owner, path).iter().flat_map(|i| &i.0) {
                index.inside.entry(*inode).or_insert(*id);
            }
        }
        index
    }
}

/// The rows that may be at work, by device and inode.
#[derive(Default)]
pub(super) struct UsersByIdentity {
    /// Worktrees they own.
    trees: HashMap<Inode, WorkerId>,
    /// Every directory that one they use lies in, and that one itself.
    inside: HashMap<Inode, WorkerId>,
}

impl UsersByIdentity {
    /// Who works in this tree under another name: a symbolic link, a bind mount.
    pub(super) fn user_of(&self, tree: &Identity) -> Option<WorkerId> {
        // Running in a directory above a tree (a home directory, /) is no use of the tree;
        // owning one around it is.
        let around = || tree.0.iter().find_map(|inode| self.trees.get(inode));
        let inside = tree.own().and_then(|own| self.inside.get(&own));
        inside.or_else(around).copied()
    }
}

/// Directories by their identity, as far as it could be found.
#[derive(Default)]
pub(super) struct Named(HashMap<(Owner, PathBuf), Identity>);

impl Named {
    /// The directories to ask for, each once.
    pub(super) fn wanted(paths: impl Iterator<Item = (Owner, PathBuf)>) -> Vec<(Owner, PathBuf)> {
        let mut seen = HashSet::new();
        paths.filter(|key| seen.insert(key.clone())).collect()
    }

    pub(super) fn insert(&mut self, owner: Owner, path: PathBuf, answer: Option<Option<Identity>>) {
        if let Some(Some(identity)) = answer {
            self.0.insert((owner, path), identity);
        }
    }

    pub(super) fn get(&self, owner: Owner, path: &Path) -> Option<&Identity> {
        self.0.get(&(owner, path.to_path_buf()))
    }
}
