//! Which worker a process belongs to, also while that worker's own start is still coming back.

use super::Supervisor;
use super::handle::Command;
use crate::sys::cgroup;
use crate::sys::process::stat;
use crate::worker::{Pid, WorkerId};

/// How far up a chain of parents is climbed where no leaf names the worker.
const CLIMB_MAX: usize = 256;

/// Nothing can be derived from such a caller.
pub(super) const NAMELESS: &str = "the caller comes from a worker, and nothing says which any more";

impl Supervisor {
    /// The worker a process belongs to: told by its leaf; without leaves by the chain of its
    /// parents, of which each must be older than its child.
    pub(super) fn worker_of_process(&self, pid: Pid) -> Option<WorkerId> {
        if let Ok(tree) = &self.tree {
            let path = cgroup::of_process(pid).ok()?;
            if let Some(name) = tree.leaf_name_of(&path) {
                let id: WorkerId = name.strip_prefix("w-")?.parse().ok()?;
                return self.registry.get(id).map(|row| row.id);
            }
            // What an adopted process started sits in no leaf of ours.
            if self.children.adopted() == 0 {
                return None;
            }
        }
        let mut at = stat(pid).ok()?;
        for _ in 0..CLIMB_MAX {
            if let Some(child) = self
                .children
                .node_of_pid(at.pid)
                .and_then(|n| self.children.get(n))
                && child.process.id().start_ticks == at.start_ticks
            {
                return Some(child.id);
            }
            // Orphaned to us: its group, its session or its mark may still name the worker.
            if u32::try_from(at.ppid) == Ok(std::process::id()) {
                return self.worker_of_orphan(&at);
            }
            let parent = stat(Pid::new(at.ppid.into()).ok()?).ok()?;
            if parent.start_ticks > at.start_ticks {
                return None;
            }
            at = parent;
        }
        None
    }

    /// Does it come from a worker, whichever? Without leaves only.
    pub(super) fn is_ours(&self, pid: Pid) -> bool {
        self.tree.is_err()
            && self
                .ends_at_us(pid)
                .is_some_and(|child| !self.is_helper(child))
    }

    /// A worker that runs is in the table only when its start has come back to the loop; its first
    /// call may be faster, and without leaves even whose call it is cannot be told. Such a command
    /// is kept until then.
    pub(super) fn unless_early(&mut self, command: Command) -> Option<Command> {
        if let Command::Report(id, ..) = &command
            && self.starting.contains_key(id)
        {
            self.early.push(command);
            return None;
        }
        let pid = match &command {
            Command::Spawn(by, ..) | Command::Adopt(by, ..) | Command::Inside(by, ..) => by.pid,
            Command::ByPid(_, pid, _) => Some(*pid),
            _ => None,
        };
        if pid.is_some_and(|pid| self.is_being_started(pid)) {
            self.early.push(command);
            return None;
        }
        Some(command)
    }

    /// One start more has come back.
    pub(super) fn take_up_early(&mut self) {
        for command in std::mem::take(&mut self.early) {
            self.handle_command(command);
        }
    }

    /// Does the chain of its parents end at a child of ours that the table does not hold yet?
    fn is_being_started(&self, pid: Pid) -> bool {
        if self.tree.is_ok() || self.starting.is_empty() {
            return false;
        }
        self.ends_at_us(pid)
            .is_some_and(|child| self.children.node_of_pid(child).is_none())
    }

    /// The child of ours that the chain of its parents ends at.
    fn ends_at_us(&self, mut pid: Pid) -> Option<Pid> {
        let me = std::process::id();
        for _ in 0..CLIMB_MAX {
            let at = stat(pid).ok()?;
            if u32::try_from(at.ppid) == Ok(me) {
                return Some(at.pid);
            }
            pid = Pid::new(at.ppid.into()).ok()?;
        }
        None
    }
}
