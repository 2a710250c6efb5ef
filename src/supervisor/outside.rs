//! Processes that do a worker's work from outside its leaf: one that left it with the worker's
//! mark in its environment, or one that works in its worktree from elsewhere. Shown, never
//! touched (section 8). Blocking; run off the loop.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Supervisor;
use super::handle::{Caller, Reply};
use super::hook::hook_leaf;
use super::verbs::answer;
use crate::sys::cgroup::{self, Tree};
use crate::sys::process::{environ_value, scan};
use crate::worker::{Pid, WorkerId};

/// Named at most.
const MAX: usize = 32;

/// One such process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outsider {
    /// Its pid when it was seen.
    pub pid: i32,
    /// Its command name.
    pub comm: String,
    /// `left-the-leaf` or `works-in-the-worktree`.
    pub why: &'static str,
}

impl Supervisor {
    pub(super) fn outside(&self, by: &Caller, worker: &str, reply: Reply<Vec<Outsider>>) {
        let id = match self.find_to_manage(by, worker) {
            Ok(id) => id,
            Err(refused) => return answer(reply, Err(refused)),
        };
        let row = self
            .registry
            .get(id)
            .filter(|row| !row.status.is_terminal());
        let leaf = row.and_then(|row| row.leaf.clone());
        let worktree = row.and_then(|row| row.worktree.clone());
        let leader = row.and_then(|row| row.process).map(|process| process.pid);
        let own = self.tree.as_ref().ok().map(Tree::root_cgroup);
        tokio::task::spawn_blocking(move || {
            let looked = match (leaf, worktree, own) {
                (Some(leaf), worktree, Some(own)) => {
                    look(id, leader, &leaf, worktree.as_deref(), own.as_deref())
                }
                // Without leaves nothing tells inside from outside.
                _ => Vec::new(),
            };
            answer(reply, Ok(looked));
        });
    }
}

fn look(
    id: WorkerId,
    leader: Option<Pid>,
    leaf: &Path,
    worktree: Option<&Path>,
    own: Option<&Path>,
) -> Vec<Outsider> {
    let mut found = Vec::new();
    for stat in scan().unwrap_or_default() {
        if found.len() == MAX || stat.has_ended() || Some(stat.pid) == leader {
            continue;
        }
        let Ok(cgroup) = cgroup::of_process(stat.pid) else {
            continue;
        };
        let supervisor = own.is_some_and(|own| cgroup == own.join("supervisor"));
        let hook = cgroup
            .file_name()
            .is_some_and(|name| name == hook_leaf(id).as_str());
        if cgroup.starts_with(leaf) || supervisor || hook {
            continue;
        }
        let marked = environ_value(stat.pid, "MUSTER_WORKER")
            .is_some_and(|mark| mark == id.as_str().as_bytes());
        let why = if marked {
            "left-the-leaf"
        } else if worktree.is_some_and(|tree| works_in(stat.pid, tree)) {
            "works-in-the-worktree"
        } else {
            continue;
        };
        found.push(Outsider {
            pid: stat.pid.get(),
            comm: stat.comm,
            why,
        });
    }
    found
}

fn works_in(pid: Pid, tree: &Path) -> bool {
    let cwd: std::io::Result<PathBuf> = std::fs::read_link(format!("/proc/{pid}/cwd"));
    cwd.is_ok_and(|cwd| cwd.starts_with(tree))
}
