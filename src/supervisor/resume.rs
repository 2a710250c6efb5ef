//! The other half of a reload: the table made again from the hand-over of the image before.

use std::io;

use super::Supervisor;
use super::channel::{from_hex, half_of};
use super::children::{Child, Tracked};
use super::drain::Drain;
use super::handover::{Handover, NodeState};
use super::life::Life;
use super::notified::Notify;
use super::socket::Socket;
use super::step::Event;
use super::timers::Key;
use crate::sys::cgroup::Leaf;
use crate::sys::clock;
use crate::sys::process::ProcessRef;
use crate::sys::reexec::take;
use crate::worker::NodeId;

impl Supervisor {
    /// Takes every child in again and looks at what happened meanwhile.
    pub(super) fn resume(&mut self, handover: Handover) -> io::Result<()> {
        self.children.start_at(handover.next_node);
        self.counters = handover.counters;
        self.started = handover.started;
        self.drain = handover.closed.map(|closed| Drain {
            leave: false,
            until: None,
            for_good: false,
            closed,
        });
        self.last_reap = handover.last_reap;
        let max_frame = self.set.config.limits.max_frame.0;
        self.resume_again(handover.again);
        let mut ended = Vec::new();
        let now = clock::now();
        for state in handover.nodes {
            let node = state.node;
            let leader_ended = !state.machine.leader_runs();
            let deadline = state.deadline;
            let due = state.machine.due();
            let (stop_by, attendances) = (state.stop_by, state.attendances.clone());
            let row = self.registry.get(state.worker);
            let owner = row.map(|row| row.owner.uid);
            let settled = row.is_some_and(|row| row.settled);
            let life = state.life.clone().or(row.map(|row| self.life(row, now)));
            let (child, tracked) =
                child(state, life.unwrap_or_default(), (owner, settled), max_frame)?;
            self.children.watch_leader(node, &child.process)?;
            self.children.insert(child);
            self.children.watch_notify(node)?;
            self.timers.set(Key::Stopping(node), stop_by);
            for number in attendances {
                self.children.add_attendance(node, take(number)?)?;
            }
            for tracked in tracked {
                self.children.track(node, tracked)?;
            }
            if let Some(deadline) = deadline {
                self.deadlines.insert(node, deadline);
            }
            self.timers.set(Key::Node(node), due);
            self.children.watch_channel(node);
            self.watch_life(node);
            if leader_ended {
                ended.push(node);
            }
        }
        for node in ended {
            self.resume_ended(node);
        }
        self.schedule_output(clock::now());
        Ok(())
    }

    /// Its leader was seen to end by the image before; what is left of it is looked at anew.
    fn resume_ended(&mut self, node: NodeId) {
        self.children.leader_seen(node);
        let exit = self
            .children
            .get(node)
            .and_then(|child| child.machine.exit());
        if let Some(exit) = exit {
            self.on_event(node, Event::LeaderExited(exit));
        }
    }
}

fn child(
    state: NodeState,
    life: Life,
    (owner, settled): (Option<u32>, bool),
    max_frame: u64,
) -> io::Result<(Child, Vec<Tracked>)> {
    let process = ProcessRef::handed_over(state.process, take(state.pidfd)?);
    let mut tracked = Vec::with_capacity(state.tracked.len());
    for one in state.tracked {
        tracked.push(Tracked {
            process: ProcessRef::handed_over(one.process, take(one.pidfd)?),
            comm: one.comm,
            in_group: one.in_group,
        });
    }
    let notify = match state.notify {
        Some(number) => Some(Notify {
            socket: take(number)?,
            stop_by: state.stop_by,
        }),
        None => None,
    };
    let channel = match state.channel {
        Some(number) => Some(Box::new(Socket::resumed(
            take(number)?,
            max_frame,
            half_of(&state.half_frame, state.skip)?,
            from_hex(&state.unsent)?,
        ))),
        None => None,
    };
    let child = Child {
        adopted: state.adopted.then_some(owner).flatten(),
        notify,
        tty: state.tty,
        attendances: Vec::new(),
        node: state.node,
        id: state.worker,
        kind: state.kind,
        process,
        pgid: state.pgid,
        leaf: state.leaf.map(Leaf::open).transpose()?,
        events: None,
        tracked: Vec::new(),
        machine: state.machine,
        deadline: state.deadline,
        started: state.started,
        bucket: state.bucket,
        life,
        lost: state.lost,
        attended: 0,
        waiting: (!state.looked).then(Vec::new),
        durable: false,
        cancels: Vec::new(),
        frozen: state.frozen,
        processes: state.processes,
        unenforced: state.unenforced,
        waiters: Vec::new(),
        channel,
        skipped: state.skipped,
        said: state.said.unwrap_or(settled),
        says: state.says.into(),
    };
    Ok((child, tracked))
}
