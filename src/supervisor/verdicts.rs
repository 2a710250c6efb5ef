//! What a sweep has found, carried out on rows that are still what was judged.

use std::collections::BTreeMap;

use tokio::sync::oneshot::Receiver;

use super::Supervisor;
use super::handle::{Caller, Change, ReapOptions, Reply};
use super::refused::Refused;
use super::saving::durable;
use super::sweep::Wanted;
use super::verbs::{PAGE, answer};
use crate::gc::Verdict;
use crate::gc::facts::{Decision, KeepReason};
use crate::gc::report::{Counts, Report, ReportRow};
use crate::registry::Finished;
use crate::registry::writer::Job;
use crate::sys::clock;
use crate::worker::{HowKnown, Now, Outcome, Status, WorkerId};

/// Ids named by the Reaped signal at most.
const REAPED_MAX: usize = 1000;

/// Verdicts on their way from a sweep into the roll.
#[derive(Debug)]
pub(super) struct Carrying {
    left: std::vec::IntoIter<Verdict>,
    dry_run: bool,
    rows: Vec<ReportRow>,
    saved: Vec<Receiver<std::io::Result<()>>>,
    removed: Vec<WorkerId>,
    counts: Counts,
}

/// What became of them.
#[derive(Debug)]
pub(super) struct Carried {
    /// The report's lines.
    pub rows: Vec<ReportRow>,
    /// Each answers when what it stands for is on disk.
    pub saved: Vec<Receiver<std::io::Result<()>>>,
    /// Lines by action and reason.
    pub counts: BTreeMap<String, u64>,
}

/// A report of which later pages may be asked for: they come from here, for a page must neither
/// sweep nor probe again.
#[derive(Debug)]
pub(super) struct Paged {
    pub by: u32,
    pub options: ReapOptions,
    pub rows: Vec<ReportRow>,
    pub counts: BTreeMap<String, u64>,
    pub errors: Vec<String>,
}

impl Paged {
    pub fn page(&self, options: &ReapOptions) -> Report {
        let limit = if options.limit == 0 {
            PAGE
        } else {
            options.limit.min(PAGE)
        };
        let counts = self.counts.clone();
        let mut page = Report::page(&self.rows, counts, limit as usize, options.after);
        page.dry_run = options.dry_run;
        page.errors.clone_from(&self.errors);
        page
    }

    /// Is this the same question, but for the page?
    pub fn answers(&self, by: &Caller, options: &ReapOptions) -> bool {
        let page_apart = ReapOptions {
            limit: self.options.limit,
            after: self.options.after,
            ..options.clone()
        };
        options.after.is_some() && by.uid == self.by && page_apart == self.options
    }
}

impl Carrying {
    /// Nothing is done yet.
    pub fn new(verdicts: Vec<Verdict>, dry_run: bool) -> Self {
        Self {
            rows: Vec::with_capacity(verdicts.len()),
            left: verdicts.into_iter(),
            dry_run,
            saved: Vec::new(),
            removed: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn line(&mut self, row: ReportRow) {
        self.counts.add(&row);
        self.rows.push(row);
    }
}

impl Supervisor {
    /// Acts on one verdict, if its row is still what was judged. `false`: there is none left.
    pub(super) fn carry_out_next(&mut self, all: &mut Carrying, now: Now) -> bool {
        let Some(verdict) = all.left.next() else {
            return false;
        };
        if verdict.judged {
            self.sweeps.judged.insert(verdict.id, self.sweeps.round);
        }
        let current = self.registry.get(verdict.id).map(|row| row.generation);
        if all.dry_run {
            all.line(verdict.report);
            return true;
        }
        if current != Some(verdict.generation) {
            all.line(verdict.report.changed());
            return true;
        }
        if let Some(how) = verdict.found_dead {
            self.found_dead(verdict.id, how);
        }
        all.saved.extend(self.carry_out_one(&verdict, now));
        if verdict.decision == Decision::Reap {
            all.removed.push(verdict.id);
        }
        all.line(verdict.report);
        true
    }

    fn carry_out_one(
        &mut self,
        verdict: &Verdict,
        now: Now,
    ) -> Option<Receiver<std::io::Result<()>>> {
        let id = verdict.id;
        match &verdict.decision {
            Decision::Reap => Some(self.take_off(id, "reaped")),
            Decision::StampExit => {
                let _ = self.registry.update(id, |row| row.exited = Some(now.wall));
                Some(self.save(id))
            }
            Decision::Keep(_) | Decision::Ask(_) if verdict.restamp || verdict.clear_exited => {
                let exited = verdict.restamp.then_some(now.wall);
                let _ = self.registry.update(id, |row| row.exited = exited);
                Some(self.save(id))
            }
            Decision::Keep(_) | Decision::Ask(_) => {
                verdict.found_dead.is_some().then(|| self.save(id))
            }
        }
    }

    /// A row that claimed life, was no child of ours and is dead.
    pub(super) fn found_dead(&mut self, id: WorkerId, how: HowKnown) {
        let finished = self.registry.finish(id, |row| {
            row.outcome = Some(match row.cancelled {
                Some(_) => Outcome::Cancelled,
                None => Outcome::Unknown,
            });
            row.status = Status::Exited;
            row.how_known = Some(how);
        });
        if let Ok(Finished::Now(_)) = finished {
            self.settle(id, Vec::new());
            if let Some(row) = self.registry.get(id) {
                super::journal::found_dead(row, how);
            }
        }
    }

    pub(super) fn take_off(
        &mut self,
        id: WorkerId,
        why: &'static str,
    ) -> Receiver<std::io::Result<()>> {
        if let Some(entry) = self.registry.remove(id) {
            super::journal::row_removed(entry.row(), why);
            self.pass_on_children(id, entry.row().parent);
        }
        self.lazy.remove(&id);
        self.sweeps.judged.remove(&id);
        let _ = self.changes.send(Change::Removed { id, why });
        self.writer.submit(Job::Reap(id))
    }

    /// What a row that leaves the roll had asked for goes to who had asked for it, or a cancel
    /// further up would reach it no more.
    fn pass_on_children(&mut self, gone: WorkerId, to: Option<WorkerId>) {
        let now = clock::now();
        let below: Vec<WorkerId> = self.registry.children_of(gone).collect();
        for id in below {
            // Files that were edited by hand may name parents in a circle.
            let to = to.filter(|to| *to != id);
            if self.registry.hand_on(id, to) {
                self.save_lazily(id, now);
                let _ = self.changes.send(Change::Changed(id));
            }
        }
    }

    /// All of it is carried out.
    pub(super) fn tell_carried_out(&mut self, done: Carrying) -> Carried {
        let counts = done.counts.named();
        if !done.dry_run {
            // Those of an action alone are the sums of the others.
            for (key, n) in counts.iter().filter(|(key, _)| key.contains(':')) {
                *self.counters.swept.entry(key.clone()).or_default() += n;
            }
            let mut removed = done.removed;
            removed.truncate(REAPED_MAX);
            let _ = self.changes.send(Change::Reaped {
                counts: counts.clone(),
                removed,
            });
        }
        Carried {
            rows: done.rows,
            saved: done.saved,
            counts,
        }
    }

    pub(super) fn forgotten(
        &mut self,
        id: WorkerId,
        force: bool,
        verdicts: Vec<Verdict>,
        reply: Reply<()>,
        now: Now,
    ) {
        let Some(verdict) = verdicts.into_iter().find(|v| v.id == id) else {
            return answer(reply, Err(Refused::NoSuchWorker(id.to_string())));
        };
        let Some(row) = self.registry.get(id) else {
            return answer(reply, Err(Refused::NoSuchWorker(id.to_string())));
        };
        let status = row.status;
        let refuse = |why: String| Err(Refused::WrongState { id, status, why });
        if row.generation != verdict.generation {
            return answer(reply, refuse("it changed meanwhile; ask again".to_owned()));
        }
        if let Some(how) = verdict.found_dead {
            self.found_dead(id, how);
        }
        match &verdict.decision {
            Decision::Reap => {}
            // It claimed life until now, so its worktree was not looked at yet.
            Decision::StampExit => {
                let _ = self.registry.update(id, |row| row.exited = Some(now.wall));
                drop(self.save(id));
                return self.want_sweep(Wanted::forget(id, force, reply));
            }
            Decision::Keep(reason) => match (forcible(reason), force) {
                (true, true) => {}
                (true, false) => {
                    let why = reason.sentence() + " (--force drops the row all the same)";
                    return answer(reply, refuse(why));
                }
                (false, _) => return answer(reply, refuse(reason.sentence())),
            },
            Decision::Ask(_) => {
                let why = "its worktree was not looked at; ask again".to_owned();
                return answer(reply, refuse(why));
            }
        }
        let saved = self.take_off(id, "forgotten");
        self.schedule_sweep(now);
        tokio::spawn(async move { answer(reply, durable(saved.await)) });
    }
}

/// Is it only the worktree that keeps the row?
fn forcible(reason: &KeepReason) -> bool {
    matches!(
        reason,
        KeepReason::WorktreeDirty(_) | KeepReason::WorktreeUnprobed(_)
    )
}
