//! The flat table of live children: node, worker and pid each lead to the same entry, and one
//! epoll set watches all their pidfds and leaves. Only the supervisor's task touches it.

mod child;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use tokio::io::unix::AsyncFd;

use super::socket::Socket;
use crate::sys::process::ProcessRef;
use crate::worker::{KindType, NodeId, Pid, WorkerId};
pub use child::{Child, Tracked};

/// What became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// The leader has ended.
    Leader(NodeId),
    /// `cgroup.events` of its leaf changed.
    Leaf(NodeId),
    /// A process tracked for it has ended.
    Tracked(NodeId),
    /// A helper of the daemon has ended; it is in no table.
    Helper(NodeId),
    /// It has something to say on its notify socket.
    Notify(NodeId),
    /// Somebody who attended has gone; the number is the attendance's own.
    Attendance(NodeId),
}

const LEADER: u64 = 0;
const LEAF: u64 = 1;
const TRACKED: u64 = 2;
const HELPER: u64 = 3;
const NOTIFY: u64 = 4;
const ATTENDANCE: u64 = 5;
/// Bits of an event's data that say what it is of; the others are the number.
const KIND_BITS: u32 = 4;

/// Children that get a turn at once.
const AT_ONCE: usize = 64;

/// Channels that get a turn at once. One: who is asked for and left out would not come first the
/// next time.
const CHANNELS: usize = 1;

/// The table.
#[derive(Debug)]
pub struct Children {
    by_node: BTreeMap<NodeId, Child>,
    by_worker: HashMap<WorkerId, NodeId>,
    by_pid: HashMap<Pid, NodeId>,
    by_kind: BTreeMap<KindType, u32>,
    attendances: HashMap<NodeId, NodeId>,
    adopted: usize,
    next: u64,
    poll: AsyncFd<OwnedFd>,
    /// Control channels have a set of their own: what a worker writes waits until everything
    /// else has had its turn.
    channels: AsyncFd<OwnedFd>,
    /// Those that are watched, with whether for writing too.
    watched: HashMap<NodeId, bool>,
}

impl Children {
    /// An empty table whose first node is `next`. Needs a tokio runtime.
    pub fn new(next: NodeId) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let channels = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self {
            by_node: BTreeMap::new(),
            by_worker: HashMap::new(),
            by_pid: HashMap::new(),
            by_kind: BTreeMap::new(),
            attendances: HashMap::new(),
            adopted: 0,
            next: next.0,
            poll: crate::sys::watch::readable(poll)?,
            channels: crate::sys::watch::readable(channels)?,
            watched: HashMap::new(),
        })
    }

    /// A number that was never used before in this daemon's life.
    pub fn next_node(&mut self) -> NodeId {
        let node = NodeId(self.next);
        self.next = self.next.saturating_add(1);
        node
    }

    /// The number the next node will have.
    pub fn next_unused(&self) -> NodeId {
        NodeId(self.next)
    }

    /// Goes on counting where the image before stopped.
    pub fn start_at(&mut self, next: NodeId) {
        self.next = self.next.max(next.0);
    }

    /// Watches a process that is in no table.
    pub fn watch_helper(&self, process: &ProcessRef, node: NodeId) -> io::Result<()> {
        self.watch(process, node, HELPER, epoll::EventFlags::IN)
    }

    /// Ends that.
    pub fn unwatch_helper(&self, process: &ProcessRef) {
        self.unwatch(process);
    }

    /// Watches the pidfd of a leader that is about to be taken in.
    pub fn watch_leader(&self, node: NodeId, process: &ProcessRef) -> io::Result<()> {
        self.watch(process, node, LEADER, epoll::EventFlags::IN)
    }

    /// Takes a child in whose leader is watched.
    pub fn insert(&mut self, child: Child) {
        self.by_worker.insert(child.id, child.node);
        self.by_pid.insert(child.process.id().pid, child.node);
        *self.by_kind.entry(child.kind).or_default() += 1;
        self.adopted += usize::from(child.adopted.is_some());
        self.by_node.insert(child.node, child);
    }

    /// Takes a child out. Its descriptors leave the epoll set before they are closed: a closed
    /// one stays in it as long as a just-forked child holds a copy.
    pub fn remove(&mut self, node: NodeId) -> Option<Child> {
        let child = self.by_node.remove(&node)?;
        self.by_worker.remove(&child.id);
        self.adopted -= usize::from(child.adopted.is_some());
        self.by_pid.remove(&child.process.id().pid);
        if let Some(count) = self.by_kind.get_mut(&child.kind) {
            *count = count.saturating_sub(1);
        }
        self.unwatch(&child.process);
        if let Some(events) = &child.events {
            self.unwatch(events);
        }
        for tracked in &child.tracked {
            self.unwatch(&tracked.process);
        }
        if let Some(notify) = &child.notify {
            self.unwatch(&notify.socket);
        }
        for (key, fd) in &child.attendances {
            self.attendances.remove(key);
            self.unwatch(fd);
        }
        if let Some(channel) = &child.channel {
            self.unwatch_channel(node, channel);
        }
        Some(child)
    }

    /// The leader's end has been seen: its pidfd would be ready for ever.
    pub fn leader_seen(&self, node: NodeId) {
        if let Some(child) = self.by_node.get(&node) {
            self.unwatch(&child.process);
        }
    }

    /// Watches `cgroup.events` of a child's leaf.
    pub fn watch_leaf(&mut self, node: NodeId) -> io::Result<()> {
        let Some(child) = self.by_node.get(&node) else {
            return Ok(());
        };
        let (None, Some(leaf)) = (&child.events, &child.leaf) else {
            return Ok(());
        };
        let events = leaf.events()?;
        self.watch(&events, node, LEAF, epoll::EventFlags::PRI)?;
        if let Some(child) = self.by_node.get_mut(&node) {
            child.events = Some(events);
        }
        Ok(())
    }

    /// Watches the channel of a child: for reading, and for writing while it is behind.
    pub fn watch_channel(&mut self, node: NodeId) {
        let Some(channel) = self.by_node.get(&node).and_then(|c| c.channel.as_deref()) else {
            return;
        };
        let behind = channel.is_behind();
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, behind);
        let data = epoll::EventData::new_u64(node.0);
        let poll = self.channels.get_ref();
        let watched = match self.watched.get(&node) {
            Some(before) if *before == behind => return,
            Some(_) => epoll::modify(poll, channel, data, flags),
            None => epoll::add(poll, channel, data, flags),
        };
        match watched {
            Ok(()) => {
                self.watched.insert(node, behind);
            }
            Err(error) => tracing::error!(%error, %node, "cannot watch a control channel"),
        }
    }

    /// Closes the channel of a child.
    pub fn close_channel(&mut self, node: NodeId) {
        let channel = self
            .by_node
            .get_mut(&node)
            .and_then(|child| child.channel.take());
        if let Some(channel) = channel {
            self.unwatch_channel(node, &channel);
        }
    }

    fn unwatch_channel(&mut self, node: NodeId, channel: &Socket) {
        self.watched.remove(&node);
        let _ = epoll::delete(self.channels.get_ref(), channel);
    }

    /// Is any channel watched?
    pub fn has_channels(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Waits until a channel is ready.
    pub async fn channel_ready(&self) -> io::Result<()> {
        loop {
            let mut guard = self.channels.readable().await?;
            // The set is readable while one of its channels is (epoll(7)).
            if is_readable(self.channels.get_ref())? {
                return Ok(());
            }
            guard.clear_ready();
        }
    }

    /// The channels whose turn it is; who had one goes to the end of the queue.
    pub fn ready_channels(&self) -> io::Result<Vec<NodeId>> {
        let mut events = Vec::with_capacity(CHANNELS);
        poll_now(self.channels.get_ref(), &mut events)?;
        Ok(events
            .iter()
            .map(|event: &epoll::Event| NodeId(event.data.u64()))
            .collect())
    }

    /// Follows another process of a child, unless it is followed already.
    pub fn track(&mut self, node: NodeId, tracked: Tracked) -> io::Result<()> {
        let Some(child) = self.by_node.get(&node) else {
            return Ok(());
        };
        let id = tracked.process.id();
        if child.tracked.iter().any(|t| t.process.id() == id) {
            return Ok(());
        }
        self.watch(&tracked.process, node, TRACKED, epoll::EventFlags::IN)?;
        if let Some(child) = self.by_node.get_mut(&node) {
            child.tracked.push(tracked);
        }
        Ok(())
    }

    /// Drops the followed processes of a child that have ended; answers how many are left.
    pub fn drop_ended(&mut self, node: NodeId) -> usize {
        let Some(child) = self.by_node.get_mut(&node) else {
            return 0;
        };
        let (ended, alive): (Vec<_>, Vec<_>) = std::mem::take(&mut child.tracked)
            .into_iter()
            .partition(|t| t.process.has_exited());
        child.tracked = alive;
        let left = child.tracked.len();
        for tracked in &ended {
            self.unwatch(&tracked.process);
        }
        left
    }

    /// Watches a child's notify socket.
    pub fn watch_notify(&self, node: NodeId) -> io::Result<()> {
        match self.by_node.get(&node).and_then(|c| c.notify.as_ref()) {
            Some(notify) => self.watch(&notify.socket, node, NOTIFY, epoll::EventFlags::IN),
            None => Ok(()),
        }
    }

    /// Lets a child's notify socket be, or listens to it again.
    pub fn listen(&self, node: NodeId, on: bool) {
        let flags = if on {
            epoll::EventFlags::IN
        } else {
            epoll::EventFlags::empty()
        };
        if let Some(notify) = self.by_node.get(&node).and_then(|c| c.notify.as_ref()) {
            let data = epoll::EventData::new_u64(node.0 << KIND_BITS | NOTIFY);
            // ENOENT: it is not watched, which has been said.
            let _ = epoll::modify(self.poll.get_ref(), &notify.socket, data, flags);
        }
    }

    /// Somebody attends a child for as long as the other end of `ours` is open. Without flags
    /// only that is reported.
    pub fn add_attendance(&mut self, node: NodeId, ours: OwnedFd) -> io::Result<()> {
        let key = self.next_node();
        self.watch(&ours, key, ATTENDANCE, epoll::EventFlags::empty())?;
        if let Some(child) = self.by_node.get_mut(&node) {
            child.attendances.push((key, ours));
            child.attended = child.attended.saturating_add(1);
            self.attendances.insert(key, node);
        }
        Ok(())
    }

    /// Takes one out again, and names the child.
    pub fn end_attendance(&mut self, key: NodeId) -> Option<NodeId> {
        let node = self.attendances.remove(&key)?;
        let child = self.by_node.get_mut(&node)?;
        let at = child.attendances.iter().position(|(k, _)| *k == key)?;
        let (_, fd) = child.attendances.swap_remove(at);
        child.attended = child.attended.saturating_sub(1);
        self.unwatch(&fd);
        Some(node)
    }

    fn watch(
        &self,
        what: &impl AsFd,
        node: NodeId,
        kind: u64,
        flags: epoll::EventFlags,
    ) -> io::Result<()> {
        let data = epoll::EventData::new_u64(node.0 << KIND_BITS | kind);
        epoll::add(self.poll.get_ref(), what, data, flags)?;
        Ok(())
    }

    fn unwatch(&self, what: &impl AsFd) {
        // ENOENT: it was taken out when its end was seen.
        let _ = epoll::delete(self.poll.get_ref(), what);
    }

    /// Waits until something is ready and adds all that is to `ready`.
    pub async fn ready(&self, ready: &mut Vec<Ready>) -> io::Result<()> {
        loop {
            let mut guard = self.poll.readable().await?;
            if self.look(ready)? {
                return Ok(());
            }
            guard.clear_ready();
        }
    }

    /// Is anything ready now?
    fn look(&self, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let mut events = Vec::with_capacity(AT_ONCE);
        poll_now(self.poll.get_ref(), &mut events)?;
        ready.extend(events.iter().map(|event: &epoll::Event| {
            let data = event.data.u64();
            let node = NodeId(data >> KIND_BITS);
            match data & ((1 << KIND_BITS) - 1) {
                LEADER => Ready::Leader(node),
                LEAF => Ready::Leaf(node),
                TRACKED => Ready::Tracked(node),
                NOTIFY => Ready::Notify(node),
                ATTENDANCE => Ready::Attendance(node),
                _ => Ready::Helper(node),
            }
        }));
        Ok(!events.is_empty())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_node.len()
    }

    /// How many a drain ends: all but the adopted.
    pub fn len_of_own(&self) -> usize {
        self.by_node.len().saturating_sub(self.adopted)
    }

    /// How many were adopted.
    pub fn adopted(&self) -> usize {
        self.adopted
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    /// One by its node.
    pub fn get(&self, node: NodeId) -> Option<&Child> {
        self.by_node.get(&node)
    }

    /// One by its node.
    pub fn get_mut(&mut self, node: NodeId) -> Option<&mut Child> {
        self.by_node.get_mut(&node)
    }

    /// The node of a worker.
    pub fn node_of(&self, id: WorkerId) -> Option<NodeId> {
        self.by_worker.get(&id).copied()
    }

    /// One by its worker.
    pub fn of_worker(&self, id: WorkerId) -> Option<&Child> {
        self.get(self.node_of(id)?)
    }

    /// Is this pid one of ours, and whose?
    pub fn node_of_pid(&self, pid: Pid) -> Option<NodeId> {
        self.by_pid.get(&pid).copied()
    }

    /// Every child, by node.
    pub fn iter(&self) -> impl Iterator<Item = &Child> {
        self.by_node.values()
    }

    /// Every node.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.by_node.keys().copied().collect()
    }

    /// How many of a kind.
    pub fn count_of(&self, kind: KindType) -> u32 {
        self.by_kind.get(&kind).copied().unwrap_or(0)
    }
}

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// As many events as there is room for.
fn poll_now(set: &OwnedFd, events: &mut Vec<epoll::Event>) -> io::Result<()> {
    match epoll::wait(set, rustix::buffer::spare_capacity(events), Some(&NOW)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_readable(set: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(set, PollFlags::IN)];
    match poll(&mut fds, Some(&NOW)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
