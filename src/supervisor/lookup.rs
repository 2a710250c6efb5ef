//! Who may see and change which row, and the calls that only read the roll.

use super::Supervisor;
use super::handle::{Caller, ListFilter, ListView, Right, Usage, WorkerView};
use super::refused::Refused;
use super::verbs::PAGE;
use crate::registry::ResolveError;
use crate::sys::cgroup;
use crate::worker::{Now, Pid, Row, WorkerId};

impl Supervisor {
    /// Root and the daemon's own user may do everything; others what they were granted. Who may
    /// manage others' rows may list them.
    pub(super) fn has(&self, by: &Caller, right: Right) -> bool {
        by.uid == 0
            || by.uid == self.set.me.uid
            || by.rights.contains(&right)
            || (right == Right::ListAll && by.rights.contains(&Right::ManageAll))
    }

    /// An error that names the right, for calls that are about no row.
    pub(super) fn allow(&self, by: &Caller, right: Right) -> Result<(), Refused> {
        if self.has(by, right) {
            Ok(())
        } else {
            Err(Refused::NeedsRight(right))
        }
    }

    fn owns(by: &Caller, row: &Row) -> bool {
        by.uid == row.owner.uid
    }

    /// The row that a text means: the caller's own rows first, then everybody's. Others' ids are
    /// no secret (signals tell them), their names and handles are.
    fn lookup(&self, by: &Caller, worker: &str) -> Result<WorkerId, Refused> {
        let refuse = |error| match error {
            ResolveError::NoSuch => Refused::NoSuchWorker(worker.to_owned()),
            ResolveError::Ambiguous(candidates) => Refused::Ambiguous {
                worker: worker.to_owned(),
                candidates,
            },
        };
        match self.registry.resolve(worker, |row| Self::owns(by, row)) {
            Err(ResolveError::NoSuch) if self.has(by, Right::ManageAll) => {
                self.registry.resolve(worker, |_| true).map_err(refuse)
            }
            Err(ResolveError::NoSuch) => self.registry.resolve_id(worker).map_err(refuse),
            found => found.map_err(refuse),
        }
    }

    /// The same, for somebody who wants to see it.
    pub(super) fn find(&self, by: &Caller, worker: &str) -> Result<WorkerId, Refused> {
        self.find_with(by, worker, Right::ListAll)
    }

    /// The same, for somebody who wants to change it.
    pub(super) fn find_to_manage(&self, by: &Caller, worker: &str) -> Result<WorkerId, Refused> {
        self.find_with(by, worker, Right::ManageAll)
    }

    /// Others' rows need `right`.
    fn find_with(&self, by: &Caller, worker: &str, right: Right) -> Result<WorkerId, Refused> {
        let id = self.lookup(by, worker)?;
        match self.registry.get(id) {
            Some(row) if Self::owns(by, row) || self.has(by, right) => Ok(id),
            Some(_) => Err(Refused::NeedsRight(right)),
            None => Err(Refused::NoSuchWorker(worker.to_owned())),
        }
    }

    /// The same, and the row must be one that may be written.
    pub(super) fn find_to_change(&self, by: &Caller, worker: &str) -> Result<WorkerId, Refused> {
        let id = self.find_to_manage(by, worker)?;
        if self.registry.is_read_only(id) {
            Err(Refused::NewerSchema(id))
        } else {
            Ok(id)
        }
    }

    pub(super) fn by_pid(&self, by: &Caller, pid: Pid) -> Result<WorkerId, Refused> {
        let id = self
            .worker_of_process(pid)
            .ok_or_else(|| Refused::NoSuchWorker(format!("process {pid}")))?;
        self.find(by, id.as_str())
    }

    fn seen_by(&self, by: &Caller, row: &Row) -> WorkerView {
        let view = self.view(row);
        if Self::owns(by, row) || self.has(by, Right::ManageAll) {
            view
        } else {
            view.redacted()
        }
    }

    pub(super) fn view_of(
        &mut self,
        by: &Caller,
        worker: &str,
    ) -> Result<Box<WorkerView>, Refused> {
        let id = self.find(by, worker)?;
        self.refresh_health(id, crate::sys::clock::now());
        let row = self
            .registry
            .get(id)
            .ok_or_else(|| Refused::NoSuchWorker(worker.to_owned()))?;
        let mut view = self.seen_by(by, row);
        view.usage = self
            .children
            .of_worker(id)
            .and_then(|c| c.leaf.as_ref())
            .map(usage);
        Ok(Box::new(view))
    }

    /// The rows of one page. It needs the right to see others' rows only where there are some
    /// on it.
    fn page<'s>(
        &'s self,
        by: &'s Caller,
        filter: &'s ListFilter,
    ) -> impl Iterator<Item = Result<&'s Row, Refused>> {
        let limit = if filter.limit == 0 {
            PAGE
        } else {
            filter.limit.min(PAGE)
        };
        let all = self.has(by, Right::ListAll);
        let wanted = |row: &&Row| {
            filter.owner.is_none_or(|uid| row.owner.uid == uid)
                && match filter.status.as_slice() {
                    [] => filter.all || !row.status.is_terminal(),
                    some => some.contains(&row.status),
                }
                && filter.kind.as_ref().is_none_or(|kind| {
                    row.kind.kind_type().as_str() == kind || row.kind.label() == *kind
                })
        };
        self.registry
            .iter_after(filter.after)
            .filter(wanted)
            .take(limit as usize)
            .map(move |row| match all || Self::owns(by, row) {
                true => Ok(row),
                false => Err(Refused::NeedsRight(Right::ListAll)),
            })
    }

    /// Reads what the health of a page's rows hangs on, where it could make a difference.
    fn refresh_page(&mut self, by: &Caller, filter: &ListFilter, now: Now) -> Result<(), Refused> {
        let mut stale = Vec::new();
        for row in self.page(by, filter) {
            let row = row?;
            if self.health_is_stale(row, now) {
                stale.push(row.id);
            }
        }
        for id in stale {
            self.refresh_health(id, now);
        }
        Ok(())
    }

    pub(super) fn list(
        &mut self,
        by: &Caller,
        filter: &ListFilter,
    ) -> Result<Vec<ListView>, Refused> {
        let now = crate::sys::clock::now();
        self.refresh_page(by, filter, now)?;
        let all = self.has(by, Right::ManageAll);
        let listed = |row: &Row| self.listed(row, all || Self::owns(by, row), now);
        self.page(by, filter).map(|row| row.map(listed)).collect()
    }

    pub(super) fn views(
        &mut self,
        by: &Caller,
        filter: &ListFilter,
    ) -> Result<Vec<WorkerView>, Refused> {
        self.refresh_page(by, filter, crate::sys::clock::now())?;
        self.page(by, filter)
            .map(|row| row.map(|row| self.seen_by(by, row)))
            .collect()
    }
}

fn usage(leaf: &cgroup::Leaf) -> Usage {
    Usage {
        cpu_nsec: leaf.cpu_usec().map(|usec| usec.saturating_mul(1000)),
        memory_current: leaf.memory_current(),
        memory_peak: leaf.memory_peak(),
        tasks: leaf.tasks(),
    }
}
