//! Sweeps: the roll handed to the collector, its verdicts carried out. Every trigger (the own
//! tick, the timer, `reap` by hand, `forget`) comes through here.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::event_loop::SHARE;
use super::handle::{Caller, ReapOptions, Reply, Right};
use super::refused::Refused;
use super::timers::Key;
use super::verbs::answer;
use super::verdicts::{Carried, Carrying, Paged};
use super::{Inner, Supervisor};

use crate::gc::report::Report;
use crate::gc::worktree::{ProbeOptions, Prober};
use crate::gc::{Look, Process, RowFacts, SweepInput, SweepOutcome, sweep};
use crate::sys::process::Liveness;
use crate::sys::{cgroup, clock, process};
use crate::worker::{Now, ProcessId, Row, Timestamp, WorkerId};

/// Rows that are written down before the time is looked at.
const AT_ONCE: usize = 32;

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
pub(super) struct Wanted {
    purpose: Purpose,
    /// `None` for all rows.
    scope: Option<HashSet<WorkerId>>,
    /// Only rows of this owner.
    owner: Option<u32>,
    grace_secs: i64,
}

impl Wanted {
    pub(super) fn forget(id: WorkerId, force: bool, reply: Reply<()>) -> Self {
        Self {
            purpose: Purpose::Forget { id, force, reply },
            scope: Some(HashSet::from([id])),
            owner: None,
            grace_secs: i64::MIN,
        }
    }
}

/// A part of a sweep that is done on the loop, some rows a pass.
#[derive(Debug)]
enum Work {
    /// The rows are written down.
    Snapshot {
        wanted: Wanted,
        after: Option<WorkerId>,
        rows: Vec<RowFacts>,
    },
    /// Verdicts are carried out; then the caller is answered.
    CarryOut {
        purpose: Purpose,
        errors: Vec<String>,
        verdicts: Box<Carrying>,
    },
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
    work: Option<Work>,
    waiting: VecDeque<Wanted>,
    pub(super) judged: HashMap<WorkerId, u64>,
    pub(super) round: u64,
    last_own: Option<Now>,
    /// The last report that did not fit a page.
    last: Option<Paged>,
}

impl State {
    pub(super) fn is_quiet(&self) -> bool {
        !self.running && self.waiting.is_empty()
    }

    /// Are verdicts being carried out?
    pub(super) fn carries_out(&self) -> bool {
        matches!(self.work, Some(Work::CarryOut { .. }))
    }

    /// Is there anything to do on the loop?
    pub(super) fn has_work(&self) -> bool {
        self.work.is_some()
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
        let mut scope = HashSet::new();
        for worker in &options.workers {
            match self.find_to_manage(by, worker) {
                Ok(id) => {
                    scope.insert(id);
                }
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
        last.answers(by, options).then(|| last.page(options))
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
        match self.sweeps.work.take() {
            Some(Work::Snapshot { wanted, .. }) => {
                self.sweeps.running = false;
                self.sweeps.waiting.push_front(wanted);
            }
            other => self.sweeps.work = other,
        }
        for wanted in std::mem::take(&mut self.sweeps.waiting) {
            match wanted.purpose {
                Purpose::Own => {}
                Purpose::Reap { reply, .. } => answer(reply, Err(Refused::Reloading)),
                Purpose::Forget { reply, .. } => answer(reply, Err(Refused::Reloading)),
            }
        }
    }

    pub(super) fn want_sweep(&mut self, wanted: Wanted) {
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
        self.correct_clock(clock::now());
        self.sweeps.work = Some(Work::Snapshot {
            wanted,
            after: None,
            rows: Vec::with_capacity(self.registry.len()),
        });
    }

    /// Does a share of what a sweep has to do on the loop. `false`: nothing.
    pub(super) fn sweep_pass(&mut self) -> bool {
        let (began, now) = (Instant::now(), clock::now());
        let has_time = || began.elapsed() < SHARE;
        match self.sweeps.work.take() {
            None => return false,
            Some(Work::Snapshot {
                wanted,
                mut after,
                mut rows,
            }) => {
                while has_time() {
                    let before = rows.len();
                    let next = self.registry.iter_after(after).take(AT_ONCE);
                    rows.extend(next.map(|row| self.facts(row, &wanted, now.wall)));
                    after = rows.last().map(|row| row.id);
                    if rows.len() < before + AT_ONCE {
                        self.look_at(wanted, rows);
                        return true;
                    }
                }
                let work = Work::Snapshot {
                    wanted,
                    after,
                    rows,
                };
                self.sweeps.work = Some(work);
            }
            Some(Work::CarryOut {
                purpose,
                errors,
                mut verdicts,
            }) => {
                while has_time() {
                    if !self.carry_out_next(&mut verdicts, now) {
                        self.carried_out(purpose, errors, *verdicts, now);
                        return true;
                    }
                }
                let work = Work::CarryOut {
                    purpose,
                    errors,
                    verdicts,
                };
                self.sweeps.work = Some(work);
            }
        }
        true
    }

    /// The rows are written down: from here on the collector works by itself.
    fn look_at(&mut self, wanted: Wanted, rows: Vec<RowFacts>) {
        let now = clock::now();
        // A clock that was set meanwhile: what it shifts now has changed, and is judged anew.
        self.correct_clock(now);
        let gc = &self.set.config.gc;
        let input = SweepInput {
            rows,
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

    /// A snapshot of one row. A row that is dropped by hand need not have had its clock started.
    fn facts(&self, row: &Row, wanted: &Wanted, now: Timestamp) -> RowFacts {
        let forgets = matches!(wanted.purpose, Purpose::Forget { .. });
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
            exited: row
                .exited
                .or((forgets && row.status.is_terminal()).then_some(now)),
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

    pub(super) fn swept(&mut self, swept: Swept) {
        self.sweeps.round += 1;
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
        let dry_run = match purpose {
            Purpose::Forget { id, force, reply } => {
                let now = clock::now();
                self.forgotten(id, force, verdicts, reply, now);
                return self.sweep_ended(now);
            }
            Purpose::Own => false,
            Purpose::Reap { ref options, .. } => options.dry_run,
        };
        self.sweeps.work = Some(Work::CarryOut {
            purpose,
            errors,
            verdicts: Box::new(Carrying::new(verdicts, dry_run)),
        });
    }

    fn carried_out(&mut self, purpose: Purpose, errors: Vec<String>, done: Carrying, now: Now) {
        let Carried {
            rows,
            saved,
            counts,
        } = self.tell_carried_out(done);
        let dry_run = matches!(&purpose, Purpose::Reap { options, .. } if options.dry_run);
        if !dry_run {
            self.last_reap = Some(now.wall);
            self.purge();
        }
        if let Purpose::Reap { by, options, reply } = purpose {
            let last = Paged {
                by,
                options,
                rows,
                counts,
                errors,
            };
            let report = last.page(&last.options);
            self.sweeps.last = report.more.then_some(last);
            tokio::spawn(async move {
                for saved in saved {
                    let _ = saved.await;
                }
                let _ = reply.send(Ok(report));
            });
        }
        self.sweep_ended(now);
    }

    fn sweep_ended(&mut self, now: Now) {
        self.sweeps.running = false;
        self.schedule_sweep(now);
        self.look_for_idleness(now);
        self.next_sweep();
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
