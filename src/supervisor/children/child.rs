//! One live child, with all that is known of it in memory.

use std::os::fd::OwnedFd;

use crate::supervisor::handle::{CancelReply, Ended, Reply};
use crate::supervisor::notified::Notify;
use crate::supervisor::socket::Socket;
use crate::supervisor::step::Machine;
use crate::supervisor::{admission, ladder, life};
use crate::sys::cgroup::Leaf;
use crate::sys::process::ProcessRef;
use crate::worker::{Boot, KindType, Mono, NodeId, Pid, WorkerId};

/// A process of a worker that is followed one by one, where there is no leaf to ask.
#[derive(Debug)]
pub struct Tracked {
    /// The process.
    pub process: ProcessRef,
    /// Its command name when it was found.
    pub comm: String,
    /// It is in the leader's group.
    pub in_group: bool,
}

/// One live child.
#[derive(Debug)]
pub struct Child {
    /// Its number.
    pub node: NodeId,
    /// Its row.
    pub id: WorkerId,
    /// Why it exists.
    pub kind: KindType,
    /// The leader.
    pub process: ProcessRef,
    /// The leader's process group.
    pub pgid: Pid,
    /// Its leaf; `None` where containment is weak.
    pub leaf: Option<Leaf>,
    /// `cgroup.events`, once it is watched.
    pub events: Option<OwnedFd>,
    /// Processes followed one by one.
    pub tracked: Vec<Tracked>,
    /// From start to end.
    pub machine: Machine,
    /// Hard deadline.
    pub deadline: Option<Boot>,
    /// When its program was executed.
    pub started: Mono,
    /// How fast it may ask for other workers.
    pub bucket: admission::Bucket,
    /// Signs of its life.
    pub life: life::Life,
    /// Why its channel was lost.
    pub lost: Option<Box<str>>,
    /// Terminals of people that are on it.
    pub attended: u32,
    /// Frozen by us.
    pub frozen: bool,
    /// Where there is no leaf: rungs that wait for the first look at its processes, which must
    /// come before the first signal. `None` once that look was taken.
    pub waiting: Option<Vec<ladder::Act>>,
    /// Processes seen when the ladder began.
    pub processes: u32,
    /// Limits this host cannot enforce.
    pub unenforced: Vec<String>,
    /// Who waits for its end.
    pub waiters: Vec<Reply<Ended>>,
    /// Cancels to be answered once `stopping` is on disk.
    pub cancels: Vec<(Reply<CancelReply>, CancelReply)>,
    /// `stopping` was on disk before the first signal.
    pub durable: bool,
    /// Started by somebody else and adopted; the owner's uid. Such a process is no child of
    /// ours, is waited for by its pidfd alone and is signalled only where its owner asked.
    pub adopted: Option<u32>,
    /// Its notify socket, where it asked for one.
    pub notify: Option<Notify>,
    /// It was given a terminal of its own.
    pub tty: bool,
    /// Our ends of their descriptors, each under a number of its own.
    pub attendances: Vec<(NodeId, OwnedFd)>,
    /// Its control channel, while there is one.
    pub channel: Option<Box<Socket>>,
    /// Frames and fields of the channel that were skipped.
    pub skipped: u64,
    /// This generation said how its turn came out.
    pub said: bool,
    /// What it says it is doing.
    pub says: Box<str>,
}
