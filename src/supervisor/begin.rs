//! Starting a worker: admission, a row, preparation and fork off the loop, then the table.

use std::time::Duration;

use tokio::sync::oneshot;

use super::admission::Bucket;
use super::again::Recipe;
use super::children::Child;
use super::fault::StartFault;
use super::handle::{Caller, Change, Reply, Spawned, Stdio};
use super::ladder::Plan;
use super::notified::Notify;
use super::prepare::{Job, Prepared, prepare};
use super::refused::Refused;
use super::saving::Waiter;
use super::step::{Event, Machine, SAVE_WAIT};
use super::{Inner, Starting, Supervisor, liveness};
use crate::sys::cgroup::Leaf;
use crate::sys::clock;
use crate::sys::process::signal_group;
use crate::sys::spawn::Started;
use crate::worker::{
    Control, HowKnown, NodeId, Now, Outcome, RestartPolicy, Row, Spec, Status, WorkerId,
};

/// What came of one start.
#[derive(Debug)]
pub(super) struct StartResult {
    id: WorkerId,
    node: NodeId,
    outcome: Result<(Started, Prepared), StartFault>,
    saved: oneshot::Receiver<std::io::Result<()>>,
    /// `None` for a generation after the first: nobody asked for it at this moment.
    reply: Option<Reply<Spawned>>,
}

impl Supervisor {
    pub(super) fn spawn(&mut self, by: Caller, spec: Spec, io: Stdio, reply: Reply<Spawned>) {
        let parent = by.pid.and_then(|pid| self.worker_of_process(pid));
        if parent.is_none() && by.pid.is_some_and(|pid| self.is_ours(pid)) {
            let _ = reply.send(Err(Refused::NotAuthorised(super::belonging::NAMELESS)));
            return;
        }
        self.spawn_below(by, parent, spec, io, reply);
    }

    /// The same with a parent that is known.
    pub(super) fn spawn_below(
        &mut self,
        by: Caller,
        parent: Option<WorkerId>,
        spec: Spec,
        io: Stdio,
        reply: Reply<Spawned>,
    ) {
        let now = clock::now();
        let taken =
            Self::check_restart(&spec, &io).and_then(|()| self.take(&by, parent, &spec, now));
        let row = match taken {
            Ok(row) => row,
            Err(refused) => {
                let _ = reply.send(Err(refused));
                return;
            }
        };
        let id = row.id;
        let groups = if row.owner.uid == by.uid {
            by.groups
        } else {
            Vec::new()
        };
        let again = (spec.restart != RestartPolicy::No).then(|| Recipe::new(&spec, &groups));
        let job = self.preparation(&row, spec, io, groups);
        if self.registry.insert(row, None).is_err() {
            let _ = reply.send(Err(Refused::Io(format!("the id {id} is taken; ask again"))));
            return;
        }
        if let Some(recipe) = again {
            self.remember(id, recipe);
        }
        let saved = self.save(id);
        self.launch(id, job, Vec::new(), saved, Some(reply));
    }

    /// Prepares and forks off the loop; [`Supervisor::start_ended`] hears of it.
    pub(super) fn launch(
        &mut self,
        id: WorkerId,
        job: Job,
        waiters: Vec<Waiter>,
        saved: oneshot::Receiver<std::io::Result<()>>,
        reply: Option<Reply<Spawned>>,
    ) {
        let node = self.children.next_node();
        let starting = Starting {
            node,
            cancel: None,
            waiters,
        };
        self.starting.insert(id, starting);
        let forker = self.forker.clone();
        self.spawn_inner(async move {
            let outcome = match prepare(job).await {
                Ok(mut prepared) => match forker.start(prepared.take_image()).await {
                    Ok(started) => Ok((started, prepared)),
                    Err(error) => {
                        let leaf = prepared.undo();
                        Err(StartFault {
                            leaf,
                            ..StartFault::from(error)
                        })
                    }
                },
                Err(fault) => Err(fault),
            };
            Inner::Started(Box::new(StartResult {
                id,
                node,
                outcome,
                saved,
                reply,
            }))
        });
    }

    /// A start came to its end, one way or the other.
    pub(super) fn start_ended(&mut self, result: StartResult) {
        let StartResult {
            id,
            node,
            outcome,
            saved,
            reply,
        } = result;
        let starting = self.starting.remove(&id);
        let (cancel, mut waiters) = starting.map_or((None, Vec::new()), |s| (s.cancel, s.waiters));
        let now = clock::now();
        let answer = outcome
            .and_then(|(started, prepared)| self.started(id, node, started, prepared, now))
            .map_err(|fault| self.start_failed(id, fault, std::mem::take(&mut waiters), now));
        if let Some(child) = self.children.get_mut(node) {
            child.waiters = waiters;
        }
        if let Some(force) = cancel {
            self.on_event(node, Event::Cancel { force });
        }
        self.take_up_early();
        let Some(reply) = reply else { return };
        tokio::spawn(async move {
            let durable = matches!(tokio::time::timeout(SAVE_WAIT, saved).await, Ok(Ok(Ok(()))));
            let _ = reply.send(answer.map(|unenforced| Spawned {
                id,
                unenforced,
                durable,
            }));
        });
    }

    /// Into the table and the row. A process that cannot be watched is ended again: nobody would
    /// ever hear of its end.
    fn started(
        &mut self,
        id: WorkerId,
        node: NodeId,
        started: Started,
        mut prepared: Prepared,
        now: Now,
    ) -> Result<Vec<String>, StartFault> {
        if let Err(error) = self.children.watch_leader(node, &started.process) {
            return Err(given_up(&started, prepared, &error));
        }
        let Some(row) = self.registry.get(id) else {
            let error = std::io::Error::other("its row has gone from the roll");
            return Err(given_up(&started, prepared, &error));
        };
        let child = self.child(row, node, started, &mut prepared, now);
        let (process, pgid, deadline) = (child.process.id(), child.pgid, child.deadline);
        let leaf = child.leaf.as_ref().map(Leaf::rel);
        let has_output = prepared.output.is_some();
        self.children.insert(child);
        if let Err(error) = self.children.watch_notify(node) {
            tracing::error!(%error, MUSTER_WORKER = id.as_str(), "cannot watch its notify socket");
        }
        if let Some(end) = prepared.channel.take() {
            self.open_channel(node, end);
        }
        let _ = self.registry.update(id, |row| {
            row.status = if row.cancelled.is_some() {
                Status::Stopping
            } else {
                Status::Live
            };
            row.started = Some(now.wall);
            row.process = Some(process);
            row.pgid = Some(pgid);
            row.leaf = leaf;
            row.worktree = prepared.worktree;
            row.worktree_mount = prepared.worktree_mount;
            row.runtime_dir = prepared.runtime_dir;
            row.output = prepared.output;
            row.journal = prepared.journal;
        });
        if let Some(streams) = self.journal_streams.as_mut().filter(|_| prepared.journal) {
            streams.insert(node);
        }
        self.save_lazily(id, now);
        self.counters.spawned += 1;
        if has_output {
            self.schedule_output(now);
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert(node, deadline);
        }
        self.watch_life(node);
        self.timers.set(super::timers::Key::Idle, None);
        if let Some(row) = self.registry.get(id) {
            let _ = self.changes.send(match row.restarts {
                0 => Change::New(id),
                _ => Change::Changed(id),
            });
            super::journal::worker_started(row);
        }
        Ok(prepared.unenforced)
    }

    fn child(
        &self,
        row: &Row,
        node: NodeId,
        started: Started,
        prepared: &mut Prepared,
        now: Now,
    ) -> Child {
        // Only who was told its deadline can end by itself before it.
        let slack = match row.control {
            Control::None => Duration::ZERO,
            Control::Frames | Control::Notify => self.set.config.liveness.deadline_slack,
        };
        let leaf = prepared.leaf.take();
        Child {
            node,
            id: row.id,
            kind: row.kind.kind_type(),
            pgid: started.pgid,
            events: None,
            tracked: Vec::new(),
            machine: Machine::new(self.plan(row), row.leftovers_policy),
            deadline: self
                .deadline_told(row)
                .map(|told| liveness::deadline(now.boot, told, slack)),
            started: now.mono,
            waiting: leaf.is_none().then(Vec::new),
            leaf,
            bucket: Bucket::full(),
            life: self.life(row, now),
            lost: None,
            attended: 0,
            frozen: false,
            processes: 0,
            unenforced: prepared.unenforced.clone(),
            waiters: Vec::new(),
            cancels: Vec::new(),
            durable: false,
            adopted: None,
            notify: prepared.notify.take().map(Notify::new),
            tty: prepared.tty,
            attendances: Vec::new(),
            channel: None,
            skipped: 0,
            said: false,
            says: Box::default(),
            process: started.process,
        }
    }

    fn start_failed(
        &mut self,
        id: WorkerId,
        fault: StartFault,
        waiters: Vec<Waiter>,
        now: Now,
    ) -> Refused {
        let sentence = fault.sentence();
        if let Some(leaf) = fault.leaf {
            self.remove_leaf(leaf, 0, now);
        }
        let first = self.registry.get(id).is_none_or(|row| row.restarts == 0);
        if first {
            // The caller is told and may ask again; a policy is for what has run.
            self.again.stop(id);
        }
        let last = self.end_generation(id, Duration::ZERO, waiters, now, |row| {
            row.status = Status::Exited;
            row.outcome = Some(Outcome::Crashed);
            row.how_known = Some(HowKnown::StartFailed);
            row.exited = Some(now.wall);
            row.note = Some(sentence.clone());
        });
        *self.counters.exits.entry(Outcome::Crashed).or_default() += 1;
        if first {
            let _ = self.changes.send(Change::New(id));
        }
        if let Some(row) = self.registry.get(id) {
            super::journal::start_failed(row, &sentence);
        }
        if let Some(waiters) = last {
            self.settle_for_good(id, waiters, now);
        }
        Refused::StartFailed {
            id,
            errno: fault.errno,
            what: fault.what,
            path: fault.path,
        }
    }

    /// How this worker is to be ended: what it asked for, over what is configured.
    pub(super) fn plan(&self, row: &Row) -> Plan {
        let ladder = &self.set.config.ladder;
        Plan {
            channel: row.control == Control::Frames,
            grace: row.ending.grace.unwrap_or(ladder.grace),
            kill_grace: row.ending.kill_grace.unwrap_or(ladder.kill_grace),
            stop_signal: row.ending.stop_signal.unwrap_or(ladder.stop_signal.0),
            unkillable_after: ladder.unkillable_after.max(Duration::from_millis(1)),
        }
    }
}

/// Ends a process that was forked in vain; its status is taken as a stranger's.
fn given_up(started: &Started, prepared: Prepared, error: &std::io::Error) -> StartFault {
    let _ = signal_group(started.pgid, libc::SIGKILL);
    if let Some(leaf) = &prepared.leaf {
        let _ = leaf.kill();
    }
    StartFault {
        errno: error.raw_os_error().unwrap_or(0),
        what: format!("cannot watch the worker's process ({error}); it was ended"),
        path: String::new(),
        leaf: prepared.undo(),
    }
}
