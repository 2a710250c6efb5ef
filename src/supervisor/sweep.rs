//! Sweeps: the roll handed to the collector, its verdicts carried out. Every trigger (the own
//! tick, the timer, `reap` by hand, `forget`) comes through here.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use super::handle::{Caller, Change, ReapOptions, Reply, Right};
use super::refused::Refused;
use super::saving::durable;
use super::timers::Key;
use super::verbs::{PAGE, answer};
use super::{Inner, Supervisor};
use crate::gc::decide::{jump_correction, shifted_by_jump};
use crate::gc::facts::{Decision, KeepReason};
use crate::gc::report::{Report, ReportRow};
use crate::gc::worktree::{ProbeOptions, Prober};
use crate::gc::{Look, Process, RowFacts, SweepInput, SweepOutcome, Verdict, sweep};
use crate::registry::Finished;
use crate::registry::store::ClockMark;
use crate::registry::writer::Job;
use crate::sys::process::Liveness;
use crate::sys::{cgroup, clock, process};
use crate::worker::{HowKnown, Now, Outcome, ProcessId, Row, Status, Timestamp, WorkerId};

/// Ids named by the Reaped signal at most.
const REAPED_MAX: usize = 1000;

/// A wall clock that is slewed, or read a moment later than the other one, has not been set.
const CLOCK_NOISE: i64 = 1_000_000;

/// Whom a sweep is for.
#[derive(Debug)]
enum Purpose {
    Own,
    Reap {
        by: u32,
        options: ReapOptions,
        reply: Reply<Report>,
    },
    Forget {
        id: WorkerId,
        force: bool,
        reply: Reply<()>,
    },
}

/// A sweep that waits for its turn: one at a time.
#[derive(Debug)]
struct Wanted {
    purpose: Purpose,
    /// `None` for all rows.
    scope: Option<Vec<WorkerId>>,
    /// Only rows of this owner.
    owner: Option<u32>,
    grace_secs: i64,
}

impl Wanted {
    fn forget(id: WorkerId, force: bool, reply: Reply<()>) -> Self {
        Self {
            purpose: Purpose::Forget { id, force, reply },
            scope: Some(vec![id]),
            owner: None,
            grace_secs: i64::MIN,
        }
    }
}

/// A sweep that has come back.
#[derive(Debug)]
pub(super) struct Swept {
    purpose: Purpose,
    outcome: SweepOutcome,
}

/// What is known between two sweeps.
#[derive(Debug, Default)]
pub(super) struct State {
    running: bool,
    waiting: VecDeque<Wanted>,
    judged: HashMap<WorkerId, u64>,
    round: u64,
    last_own: Option<Now>,
    /// The last report that did not fit a page.
    last: Option<Paged>,
}

/// A report of which later pages may be asked for: they come from here, for a page must neither
/// sweep nor probe again.
#[derive(Debug)]
struct Paged {
    by: u32,
    options: ReapOptions,
    rows: Vec<ReportRow>,
    errors: Vec<String>,
}

impl Paged {
    /// Is this the same question, but for the page?
    fn answers(&self, by: &Caller, options: &ReapOptions) -> bool {
        let page_apart = ReapOptions {
            limit: self.options.limit,
            after: self.options.after,
            ..options.clone()
        };
        options.after.is_some() && by.uid == self.by && page_apart == self.options
    }
}

impl State {
    pub(super) fn is_quiet(&self) -> bool {
        !self.running && self.waiting.is_empty()
    }
}

impl Supervisor {
    /// `reap` by hand, by the timer, on the bus.
    pub(super) fn reap(&mut self, by: &Caller, options: ReapOptions, reply: Reply<Report>) {
        if let Some(report) = self.later_page(by, &options) {
            if !report.more {
                self.sweeps.last = None;
            }
            return answer(reply, Ok(report));
        }
        let mut scope = Vec::new();
        for worker in &options.workers {
            match self.find_to_manage(by, worker) {
                Ok(id) => scope.push(id),
                Err(refused) => return answer(reply, Err(refused)),
            }
        }
        let grace = options.grace.unwrap_or(self.set.config.gc.grace);
        let wanted = Wanted {
            scope: (!options.workers.is_empty()).then_some(scope),
            owner: (!self.has(by, Right::ManageAll)).then_some(by.uid),
            grace_secs: i64::try_from(grace.as_secs()).unwrap_or(i64::MAX),
            purpose: Purpose::Reap {
                by: by.uid,
                options,
                reply,
            },
        };
        self.want_sweep(wanted);
    }

    fn later_page(&self, by: &Caller, options: &ReapOptions) -> Option<Report> {
        let last = self.sweeps.last.as_ref()?;
        last.answers(by, options)
            .then(|| page(options, &last.rows, last.errors.clone()))
    }

    /// `forget`: the collector's own question, with no grace, about one row.
    pub(super) fn forget(&mut self, by: &Caller, worker: &str, force: bool, reply: Reply<()>) {
        let id = match self.find_to_change(by, worker) {
            Ok(id) => id,
            Err(refused) => return answer(reply, Err(refused)),
        };
        match self.children.node_of(id) {
            Some(node) if self.is_adopted(node) => answer(reply, self.let_go(id, node, force)),
            _ => self.want_sweep(Wanted::forget(id, force, reply)),
        }
    }

    /// The daemon's own tick.
    pub(super) fn own_sweep(&mut self, now: Now) {
        self.sweeps.last_own = Some(now);
        let grace = self.set.config.gc.grace.as_secs();
        self.want_sweep(Wanted {
            purpose: Purpose::Own,
            scope: None,
            owner: None,
            grace_secs: i64::try_from(grace).unwrap_or(i64::MAX),
        });
    }

    /// Sets the own tick, where there is a row it could do something about.
    pub(super) fn schedule_sweep(&mut self, now: Now) {
        let interval = self.set.config.gc.interval;
        let dead: u64 = self
            .registry
            .counts()
            .filter(|(s, _)| s.is_terminal())
            .map(|(_, n)| n)
            .sum();
        if interval.is_zero() || dead == 0 {
            return self.timers.set(Key::Sweep, None);
        }
        let last = self.sweeps.last_own.map_or(now.mono, |at| at.mono);
        self.timers.at_latest(Key::Sweep, last.plus(interval));
    }

    /// Sweeps that have not begun go to the next image's callers: ask again.
    pub(super) fn refuse_waiting_sweeps(&mut self) {
        for wanted in std::mem::take(&mut self.sweeps.waiting) {
            match wanted.purpose {
                Purpose::Own => {}
                Purpose::Reap { reply, .. } => answer(reply, Err(Refused::Reloading)),
                Purpose::Forget { reply, .. } => answer(reply, Err(Refused::Reloading)),
            }
        }
    }

    fn want_sweep(&mut self, wanted: Wanted) {
        self.sweeps.waiting.push_back(wanted);
        self.next_sweep();
    }

    fn next_sweep(&mut self) {
        if self.sweeps.running {
            return;
        }
        let Some(wanted) = self.sweeps.waiting.pop_front() else {
            return;
        };
        self.sweeps.running = true;
        let now = clock::now();
        self.correct_clock(now);
        let gc = &self.set.config.gc;
        let forget = matches!(wanted.purpose, Purpose::Forget { .. });
        let input = SweepInput {
            rows: self
                .registry
                .iter()
                .map(|row| self.facts(row, &wanted, forget.then_some(now.wall)))
                .collect(),
            now: now.wall,
            grace_secs: wanted.grace_secs,
            parallel: gc.probe_parallel as usize,
            budget: gc.sweep_budget,
        };
        let launcher = Arc::new(self.sweep_launcher());
        let probes = Arc::new(Prober::new(
            launcher,
            ProbeOptions {
                ignored: gc.ignored == crate::config::Ignored::Dirty,
                limit: gc.probe_timeout,
                keep: gc.probe_parallel as usize,
            },
        ));
        let purpose = wanted.purpose;
        self.spawn_inner(async move {
            let outcome = sweep(input, Arc::new(System), probes).await;
            Inner::Swept(Box::new(Swept { purpose, outcome }))
        });
    }

    /// A snapshot of one row. `forget` stands in for a missing `exited_at`: a row that is
    /// dropped by hand need not have had its clock started.
    fn facts(&self, row: &Row, wanted: &Wanted, forget: Option<Timestamp>) -> RowFacts {
        let in_scope = match &wanted.scope {
            Some(ids) => ids.contains(&row.id),
            None => wanted.owner.is_none_or(|uid| row.owner.uid == uid),
        };
        RowFacts {
            id: row.id,
            generation: row.generation,
            name: row.name.clone(),
            owner: row.owner,
            status: row.status,
            held: row.held,
            read_only: self.registry.is_read_only(row.id),
            known_live: self.children.node_of(row.id).is_some()
                || self.starting.contains_key(&row.id),
            exited: row.exited.or(forget.filter(|_| row.status.is_terminal())),
            process: row.process,
            descendants: Vec::new(),
            leaf: row.leaf.clone(),
            worktree: row.worktree.clone(),
            worktree_mount: row.worktree_mount.clone(),
            cwd: row.cwd.clone(),
            last_judged: self.sweeps.judged.get(&row.id).copied().unwrap_or(0),
            in_scope,
        }
    }

    /// Notices that the wall clock was set, also between two lives of the daemon in one boot.
    /// After a jump forward of over an hour, rows within their grace get the jump added.
    pub(super) fn correct_clock(&mut self, now: Now) {
        let boot_usec = i64::try_from(now.boot.0 / 1000).unwrap_or(i64::MAX);
        let offset = now.wall.0.saturating_sub(boot_usec);
        let before = self.clock.replace(offset);
        if before.is_some_and(|before| (offset - before).abs() < CLOCK_NOISE) {
            self.clock = before;
            return;
        }
        if let Some(jump) = before.and_then(|before| jump_correction(before, offset)) {
            self.shift_rows(jump, now);
        }
        if let Ok(boot_id) = process::boot_id() {
            let mark = ClockMark {
                boot_id,
                wall_minus_boot_usec: offset,
            };
            drop(self.writer.submit(Job::Clock(mark)));
        }
    }

    fn shift_rows(&mut self, jump: i64, now: Now) {
        let grace = i64::try_from(self.set.config.gc.grace.as_secs()).unwrap_or(i64::MAX);
        let shifted: Vec<(WorkerId, Timestamp)> = self
            .registry
            .iter()
            .filter_map(|row| Some((row.id, shifted_by_jump(row.exited?, now.wall, grace, jump)?)))
            .collect();
        super::journal::clock_jumped(jump / 1_000_000, shifted.len());
        for (id, exited) in shifted {
            let _ = self.registry.update(id, |row| row.exited = Some(exited));
            drop(self.save(id));
        }
    }

    pub(super) fn swept(&mut self, swept: Swept) {
        self.sweeps.running = false;
        self.sweeps.round += 1;
        let now = clock::now();
        let Swept { purpose, outcome } = swept;
        let SweepOutcome {
            verdicts,
            errors,
            probe_times,
            took,
        } = outcome;
        self.counters.sweeps.add(took);
        for took in probe_times {
            self.counters.probes.add(took);
        }
        for error in &errors {
            tracing::warn!(%error, "a sweep could not look at everything");
        }
        match purpose {
            Purpose::Forget { id, force, reply } => self.forgotten(id, force, verdicts, reply, now),
            Purpose::Own => {
                self.carry_out(verdicts, false, now);
                self.last_reap = Some(now.wall);
                self.purge();
            }
            Purpose::Reap { by, options, reply } => {
                let (rows, saved) = self.carry_out(verdicts, options.dry_run, now);
                let report = page(&options, &rows, errors.clone());
                if !options.dry_run {
                    self.last_reap = Some(now.wall);
                    self.purge();
                }
                self.sweeps.last = report.more.then_some(Paged {
                    by,
                    options,
                    rows,
                    errors,
                });
                tokio::spawn(async move {
                    for saved in saved {
                        let _ = saved.await;
                    }
                    let _ = reply.send(Ok(report));
                });
            }
        }
        self.schedule_sweep(now);
        self.look_for_idleness(now);
        self.next_sweep();
    }

    /// Acts on verdicts, each only if its row is still what was judged.
    fn carry_out(
        &mut self,
        verdicts: Vec<Verdict>,
        dry_run: bool,
        now: Now,
    ) -> (
        Vec<ReportRow>,
        Vec<tokio::sync::oneshot::Receiver<std::io::Result<()>>>,
    ) {
        let mut rows = Vec::with_capacity(verdicts.len());
        let (mut saved, mut removed) = (Vec::new(), Vec::new());
        for verdict in verdicts {
            if verdict.judged {
                self.sweeps.judged.insert(verdict.id, self.sweeps.round);
            }
            if dry_run {
                rows.push(verdict.report);
                continue;
            }
            let current = self.registry.get(verdict.id).map(|row| row.generation);
            if current != Some(verdict.generation) {
                rows.push(verdict.report.changed());
                continue;
            }
            if let Some(how) = verdict.found_dead {
                self.found_dead(verdict.id, how);
            }
            if let Some(answer) = self.carry_out_one(&verdict, now) {
                saved.push(answer);
            }
            if verdict.decision == Decision::Reap {
                removed.push(verdict.id);
            }
            rows.push(verdict.report);
        }
        if !dry_run {
            self.tell_reaped(&rows, removed);
        }
        (rows, saved)
    }

    fn carry_out_one(
        &mut self,
        verdict: &Verdict,
        now: Now,
    ) -> Option<tokio::sync::oneshot::Receiver<std::io::Result<()>>> {
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
    ) -> tokio::sync::oneshot::Receiver<std::io::Result<()>> {
        if let Some(entry) = self.registry.remove(id) {
            super::journal::row_removed(entry.row(), why);
        }
        self.lazy.remove(&id);
        self.sweeps.judged.remove(&id);
        let _ = self.changes.send(Change::Removed { id, why });
        self.writer.submit(Job::Reap(id))
    }

    fn tell_reaped(&mut self, rows: &[ReportRow], mut removed: Vec<WorkerId>) {
        removed.truncate(REAPED_MAX);
        let counts = Report::count(rows);
        // Those of an action alone are the sums of the others.
        for (key, n) in counts.iter().filter(|(key, _)| key.contains(':')) {
            *self.counters.swept.entry(key.clone()).or_default() += n;
        }
        let _ = self.changes.send(Change::Reaped { counts, removed });
    }

    fn forgotten(
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

    /// Deletes reaped rows past their retention, and their output.
    fn purge(&self) {
        let store = Arc::clone(&self.store);
        let (retention, now) = (self.set.config.gc.reaped_retention, clock::now().wall);
        let output = self.set.state_dir.join("output");
        tokio::task::spawn_blocking(move || match store.purge_reaped(retention, now) {
            Ok(ids) => {
                for id in ids {
                    let _ = std::fs::remove_file(output.join(format!("{id}.log")));
                }
            }
            Err(error) => tracing::warn!(%error, "cannot delete old reaped rows"),
        });
    }
}

/// Is it only the worktree that keeps the row?
fn forcible(reason: &KeepReason) -> bool {
    matches!(
        reason,
        KeepReason::WorktreeDirty(_) | KeepReason::WorktreeUnprobed(_)
    )
}

fn page(options: &ReapOptions, rows: &[ReportRow], errors: Vec<String>) -> Report {
    let limit = if options.limit == 0 {
        PAGE
    } else {
        options.limit.min(PAGE)
    };
    Report::new(options.dry_run, rows, errors, limit as usize, options.after)
}

/// The real system, as the collector looks at it.
struct System;

impl Look for System {
    fn process(&self, id: &ProcessId) -> Process {
        match process::check(id) {
            Liveness::Alive => Process::Alive,
            Liveness::Gone(how) => Process::Gone(how),
            Liveness::Unknown(why) => Process::Unknown(why),
        }
    }

    fn leaf_populated(&self, leaf: &Path) -> Result<Option<bool>, String> {
        cgroup::populated(leaf).map_err(|e| e.to_string())
    }
}
