//! The calls that read the roll or change one row: who may, which row, what comes of it.

use super::Supervisor;
use super::handle::{Caller, CancelOptions, CancelReply, CancelState, Command, Ended, Reply, Whom};
use super::members::{signal_group_of, signal_leader_of};
use super::refused::Refused;
use super::saving::{Waiter, durable};
use super::step::Event;
use crate::sys::process::Delivery;
use crate::worker::{Cancellation, NodeId, Outcome, RestartPolicy, Status, WorkerId};

/// Rows of one page at most.
pub(super) const PAGE: u32 = 1000;

impl Supervisor {
    pub(super) fn handle_command(&mut self, command: Command) {
        let Some(command) = self.unless_early(command) else {
            return;
        };
        match command {
            Command::Spawn(by, spec, io, reply) => self.spawn(by, *spec, io, reply),
            Command::Resolve(by, worker, reply) => answer(reply, self.find(&by, &worker)),
            Command::ByPid(by, pid, reply) => answer(reply, self.by_pid(&by, pid)),
            Command::List(by, filter, reply) => answer(reply, self.list(&by, &filter)),
            Command::Views(by, filter, reply) => answer(reply, self.views(&by, &filter)),
            Command::View(by, worker, reply) => answer(reply, self.view_of(&by, &worker)),
            Command::Outside(by, worker, reply) => self.outside(&by, &worker, reply),
            Command::Service(reply) => {
                let _ = reply.send(self.service_view());
            }
            Command::Allowed(by, right, reply) => answer(reply, self.allow(&by, right)),
            Command::Cancel(by, worker, reason, how, reply) => {
                self.cancel(&by, &worker, &reason, how, reply);
            }
            Command::Wait(by, worker, reply) => self.wait(&by, &worker, reply),
            Command::Kill(by, worker, whom, signal, reply) => {
                answer(reply, self.kill_verb(&by, &worker, whom, signal));
            }
            Command::Send(by, worker, frame, reply) => {
                answer(reply, self.send_verb(&by, &worker, &frame));
            }
            Command::Freeze(by, worker, frozen, reply) => {
                answer(reply, self.freeze(&by, &worker, frozen));
            }
            Command::Reap(by, options, reply) => self.reap(&by, options, reply),
            Command::Hold(by, worker, held, reply) => self.hold(&by, &worker, held, reply),
            Command::Forget(by, worker, force, reply) => self.forget(&by, &worker, force, reply),
            Command::Reload(by, reply) => self.reload(&by, reply),
            Command::Inside(by, reply) => answer(reply, self.inside(&by)),
            Command::Report(worker, facts, reply) => answer(reply, self.report(worker, facts)),
            Command::Adopt(by, pidfd, how, reply) => self.adopt(by, pidfd, how, reply),
            Command::Attend(by, worker, reply) => answer(reply, self.attend(&by, &worker)),
            Command::BusQuiet => self.bus_is_quiet(),
            Command::Restore(by, worker, reply) => self.restore(&by, worker, reply),
            Command::Stop => self.stop(crate::sys::clock::now()),
            Command::Drain(by, reason, how, reply) => {
                answer(reply, self.drain_verb(&by, &reason, how));
            }
            Command::Resume(by, reply) => answer(reply, self.resume_verb(&by)),
        }
    }

    pub(super) fn cancel(
        &mut self,
        by: &Caller,
        worker: &str,
        reason: &str,
        how: CancelOptions,
        reply: Reply<CancelReply>,
    ) {
        let id = match self.find_to_change(by, worker) {
            Ok(id) => id,
            Err(refused) => return answer(reply, Err(refused)),
        };
        let reason = if reason.is_empty() {
            "cancelled"
        } else {
            reason
        };
        let descendants = if how.keep_descendants {
            Vec::new()
        } else {
            self.cancel_below(id, by.uid, how.now)
        };
        let mut found = CancelReply {
            state: CancelState::Begun,
            durable: true,
            descendants,
            outcome: None,
        };
        if self.cancel_starting(id, by.uid, reason, how.now) {
            found.durable = false;
            return answer(reply, Ok(found));
        }
        if self.cancel_restarting(id, by.uid, reason) {
            found.outcome = Some(Outcome::Cancelled);
            return self.answer_saved(id, found, reply);
        }
        let Some(node) = self.children.node_of(id) else {
            return answer(reply, self.already_ended(id, found));
        };
        if self.hooks.contains_key(&node) {
            found.state = CancelState::Running;
            return self.cancel_in_hook(id, (by.uid, reason), found, reply);
        }
        if let Some(child) = self.children.get_mut(node) {
            if child.machine.is_stopping() {
                found.state = CancelState::Running;
            }
            child.cancels.push((reply, found));
        }
        self.begin_ladder(node, by.uid, reason, how.now);
    }

    /// All of it has ended but its stop hook; only a next generation is there to be prevented.
    fn cancel_in_hook(
        &mut self,
        id: WorkerId,
        (by, reason): (u32, &str),
        found: CancelReply,
        reply: Reply<CancelReply>,
    ) {
        if self
            .registry
            .get(id)
            .is_none_or(|row| row.restart == RestartPolicy::No)
        {
            return answer(reply, Ok(found));
        }
        self.again.stop(id);
        let cancellation = Cancellation::new(by, reason, crate::sys::clock::now().wall);
        let _ = self.registry.update(id, |row| {
            row.cancelled.get_or_insert(cancellation);
        });
        self.answer_saved(id, found, reply);
    }

    fn already_ended(&self, id: WorkerId, found: CancelReply) -> Result<CancelReply, Refused> {
        let row = self
            .registry
            .get(id)
            .ok_or_else(|| Refused::NoSuchWorker(id.to_string()))?;
        if !row.status.is_terminal() {
            let why = "it is no child of this daemon; the next sweep settles it".to_owned();
            return Err(Refused::WrongState {
                id,
                status: row.status,
                why,
            });
        }
        Ok(CancelReply {
            state: CancelState::Ended,
            outcome: row.outcome,
            ..found
        })
    }

    /// Cancels what a worker has asked for, and what those have.
    fn cancel_below(&mut self, id: WorkerId, by: u32, force: bool) -> Vec<WorkerId> {
        let mut found = Vec::new();
        for (parent, child) in self.registry.descendants_of(id) {
            let what = if parent == id { "parent" } else { "ancestor" };
            let reason = format!("its {what} {id} was cancelled");
            if let Some(node) = self.children.node_of(child) {
                if !self.cancel_node(node, by, &reason, force) {
                    continue;
                }
            } else if !self.cancel_starting(child, by, &reason, force)
                && !self.cancel_restarting(child, by, &reason)
            {
                continue;
            }
            found.push(child);
        }
        found
    }

    fn wait(&mut self, by: &Caller, worker: &str, reply: Waiter) {
        let id = match self.find_to_manage(by, worker) {
            Ok(id) => id,
            Err(refused) => return answer(reply, Err(refused)),
        };
        // One that was on its way when the others were sent back; it would hold up the reload.
        if self.is_reloading() {
            return answer(reply, Err(Refused::Reloading));
        }
        if let Some(node) = self.children.node_of(id)
            && let Some(child) = self.children.get_mut(node)
        {
            add_waiter(&mut child.waiters, reply);
            return;
        }
        let Some(row) = self.registry.get(id) else {
            return answer(reply, Err(Refused::NoSuchWorker(worker.to_owned())));
        };
        let waiters = match self.starting.get_mut(&id) {
            Some(starting) => Some(&mut starting.waiters),
            None => self.again.waiters(id),
        };
        if let Some(waiters) = waiters {
            add_waiter(waiters, reply);
            return;
        }
        if !row.status.is_terminal() {
            let why = "it is not ours to wait for yet; ask again after the next sweep".to_owned();
            return answer(
                reply,
                Err(Refused::WrongState {
                    id,
                    status: row.status,
                    why,
                }),
            );
        }
        let outcome = row.outcome.unwrap_or(Outcome::Unknown);
        answer(
            reply,
            Ok(Ended {
                outcome,
                view: Box::new(self.view(row)),
            }),
        );
    }

    pub(super) fn running(&self, by: &Caller, worker: &str) -> Result<(WorkerId, NodeId), Refused> {
        let id = self.find_to_change(by, worker)?;
        match (self.children.node_of(id), self.registry.get(id)) {
            (Some(node), _) => Ok((id, node)),
            (None, Some(row)) => Err(Refused::WrongState {
                id,
                status: row.status,
                why: "it has no running process".to_owned(),
            }),
            (None, None) => Err(Refused::NoSuchWorker(worker.to_owned())),
        }
    }

    fn kill_verb(
        &mut self,
        by: &Caller,
        worker: &str,
        whom: Whom,
        signal: i32,
    ) -> Result<(), Refused> {
        if !(1..=64).contains(&signal) {
            return Err(Refused::InvalidArgs(format!(
                "{signal} is no signal number (1 to 64)"
            )));
        }
        let (id, node) = self.running(by, worker)?;
        self.on_event(node, Event::Signalled(signal));
        let Some(child) = self.children.get(node) else {
            return Ok(());
        };
        let sent = match whom {
            // Signals to a zombie arrive, and do nothing.
            Whom::Leader if !child.machine.leader_runs() => Ok(Delivery::Gone),
            Whom::Leader => signal_leader_of(child, signal),
            Whom::Group => signal_group_of(child, signal),
            Whom::All if signal == libc::SIGKILL => {
                super::members::kill_all(child);
                Ok(Delivery::Sent)
            }
            Whom::All => {
                super::members::signal_rest(child, signal);
                signal_group_of(child, signal)
            }
        };
        match sent {
            Ok(Delivery::Sent) => Ok(()),
            Ok(Delivery::Gone) => Err(Refused::WrongState {
                id,
                status: Status::Stopping,
                why: "the process has ended already".to_owned(),
            }),
            Ok(Delivery::Denied) => Err(Refused::Io(
                "the kernel does not let us signal it (EPERM)".to_owned(),
            )),
            Err(error) => Err(Refused::Io(format!("cannot signal worker {id}: {error}"))),
        }
    }

    /// One frame from outside to a worker.
    fn send_verb(&mut self, by: &Caller, worker: &str, frame: &str) -> Result<(), Refused> {
        let (id, node) = self.running(by, worker)?;
        let bytes = crate::control::frame::passed_on(frame).map_err(Refused::InvalidArgs)?;
        let max = self.set.config.limits.max_frame.0;
        if bytes.len() as u64 > max {
            return Err(Refused::InvalidArgs(format!(
                "the frame is longer than {max} bytes (limits.max_frame)"
            )));
        }
        let sent = self.offer_bytes(node, bytes);
        match (sent, self.children.get(node)) {
            (true, _) => Ok(()),
            (false, child) => Err(Refused::WrongState {
                id,
                status: self
                    .registry
                    .get(id)
                    .map_or(Status::Exited, |row| row.status),
                why: match child.and_then(|child| child.lost.as_deref()) {
                    Some(why) => format!("its control channel was lost: {why}"),
                    None if self.is_frozen_with_channel(node) => {
                        "it is frozen, and no more can wait for it; thaw it first".to_owned()
                    }
                    None => "it has no control channel; start it with control=frames".to_owned(),
                },
            }),
        }
    }

    fn freeze(&mut self, by: &Caller, worker: &str, frozen: bool) -> Result<(), Refused> {
        let (id, node) = self.running(by, worker)?;
        let Some(child) = self.children.get_mut(node) else {
            return Ok(());
        };
        let Some(leaf) = &child.leaf else {
            let why = match child.adopted {
                Some(_) => "an adopted process has no control group of ours to freeze",
                None => "freezing needs a writable cgroup2",
            };
            return Err(Refused::NotSupported(why.to_owned()));
        };
        if frozen && child.machine.is_stopping() {
            return Err(Refused::WrongState {
                id,
                status: Status::Stopping,
                why: "it is being ended".to_owned(),
            });
        }
        leaf.freeze(frozen)
            .map_err(|e| Refused::Io(format!("cannot freeze worker {id}: {e}")))?;
        child.frozen = frozen;
        match frozen {
            true => self.watch_life(node),
            false => self.thawed(node, crate::sys::clock::now()),
        }
        let _ = self.changes.send(super::handle::Change::Changed(id));
        Ok(())
    }

    fn hold(&mut self, by: &Caller, worker: &str, held: bool, reply: Reply<()>) {
        let id = match self.find_to_change(by, worker) {
            Ok(id) => id,
            Err(refused) => return answer(reply, Err(refused)),
        };
        let _ = self.registry.update(id, |row| row.held = held);
        if let Some(node) = self.children.node_of(id) {
            self.watch_life(node);
        }
        let _ = self.changes.send(super::handle::Change::Changed(id));
        let saved = self.save(id);
        self.schedule_sweep(crate::sys::clock::now());
        tokio::spawn(async move { answer(reply, durable(saved.await)) });
    }
}

/// Those that have gone leave, so that one who asks again and again adds up to nothing.
fn add_waiter(waiters: &mut Vec<Waiter>, reply: Waiter) {
    waiters.retain(|waiter| !waiter.is_closed());
    waiters.push(reply);
}

pub(super) fn answer<T>(reply: Reply<T>, result: Result<T, Refused>) {
    let _ = reply.send(result);
}
