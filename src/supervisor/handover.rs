//! What one image of the daemon hands to the next at a re-exec: everything in memory that no
//! file holds, with the numbers of the descriptors that stay open. Versioned, because the two
//! images need not be of one release (section 12).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::drain::Closed;
use super::step::Machine;
use crate::worker::{Boot, KindType, Mono, NodeId, Pid, ProcessId, Timestamp, WorkerId};

/// The newest version this program reads.
pub const VERSION: u32 = 2;

/// The version to write: an image that does not know of closed admission would open it.
pub fn version(closed: Option<&Closed>) -> u32 {
    match closed {
        Some(_) => VERSION,
        None => 1,
    }
}

/// A process that is followed one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackedState {
    /// Who.
    pub process: ProcessId,
    /// Its pidfd.
    pub pidfd: i32,
    /// Its command name when it was found.
    pub comm: String,
    /// It is in the leader's group.
    pub in_group: bool,
}

/// One live child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its number.
    pub node: NodeId,
    /// Its row.
    pub worker: WorkerId,
    /// Its kind.
    pub kind: KindType,
    /// The leader.
    pub process: ProcessId,
    /// The leader's pidfd.
    pub pidfd: i32,
    /// The leader's process group.
    pub pgid: Pid,
    /// Its leaf's directory.
    pub leaf: Option<PathBuf>,
    /// Its machine, with a ladder under way and all.
    pub machine: Machine,
    /// Hard deadline.
    pub deadline: Option<Boot>,
    /// When its program was executed.
    pub started: Mono,
    /// How fast it may ask for other workers.
    #[serde(default)]
    pub bucket: super::admission::Bucket,
    /// Signs of its life; none from a release that did not keep them.
    #[serde(default)]
    pub life: Option<super::life::Life>,
    /// Why its channel was lost.
    #[serde(default)]
    pub lost: Option<Box<str>>,
    /// Put on the roll by Adopt.
    pub adopted: bool,
    /// Frozen by us.
    pub frozen: bool,
    /// Processes seen when the ladder began.
    pub processes: u32,
    /// Its processes were looked at before a first signal, or need not be.
    pub looked: bool,
    /// Limits this host cannot enforce.
    pub unenforced: Vec<String>,
    /// Followed one by one.
    pub tracked: Vec<TrackedState>,
    /// The control channel's descriptor, if it has one.
    #[serde(default)]
    pub channel: Option<i32>,
    /// Bytes of a frame that was read by half, base 16.
    #[serde(default)]
    pub half_frame: String,
    /// The notify socket's descriptor, if it has one.
    #[serde(default)]
    pub notify: Option<i32>,
    /// It said that it stops, and is to have ended by then.
    #[serde(default)]
    pub stop_by: Option<Mono>,
    /// It was given a terminal of its own.
    #[serde(default)]
    pub tty: bool,
    /// Our ends of the descriptors of those who attend it.
    #[serde(default)]
    pub attendances: Vec<i32>,
    /// Bytes of a frame that are still to be skipped.
    #[serde(default)]
    pub skip: u32,
    /// Bytes for the channel that could not be sent yet, base 16.
    #[serde(default)]
    pub unsent: String,
    /// Frames and fields skipped so far.
    #[serde(default)]
    pub skipped: u64,
    /// This generation said how its turn came out; unset by an image whose rows alone tell it.
    #[serde(default)]
    pub said: Option<bool>,
    /// What it says it is doing.
    #[serde(default)]
    pub says: String,
}

/// One connected peer of the socket. It is between two messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerState {
    /// Its socket.
    pub fd: i32,
    /// Descriptors may be sent to it.
    pub fds: bool,
    /// It has had an answer, so it hears signals.
    #[serde(default = "yes")]
    pub answered: bool,
}

fn yes() -> bool {
    true
}

/// The connection to the message bus on which we own our name. It is between two messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusState {
    /// Its socket.
    pub fd: i32,
    /// Descriptors may be sent.
    pub fds: bool,
    /// The bus's guid.
    pub guid: String,
    /// Our unique name there.
    pub name: String,
    /// Where the bus is.
    pub address: String,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// Of this shape.
    pub version: u32,
    /// Release that wrote it, for the log.
    pub release: String,
    /// Counts re-executions; the next image is this one plus 1.
    pub generation: u64,
    /// The next node's number.
    pub next_node: NodeId,
    /// Live children.
    pub nodes: Vec<NodeState>,
    /// Workers with a restart policy: what a next generation is made from.
    #[serde(default)]
    pub again: Vec<(WorkerId, super::again::Again)>,
    /// The state directory's lock.
    pub lock: i32,
    /// The listening socket.
    pub socket: i32,
    /// The service manager made it and keeps it.
    #[serde(default)]
    pub socket_passed: bool,
    /// Where it lies.
    #[serde(default)]
    pub socket_path: Option<PathBuf>,
    /// The image that hands over, to come back to.
    pub image: i32,
    /// Connected peers.
    #[serde(default)]
    pub peers: Vec<PeerState>,
    /// The message bus, if its connection can be kept.
    #[serde(default)]
    pub bus: Option<BusState>,
    /// Where leaves are made, or why there are none.
    pub tree: Result<PathBuf, String>,
    /// Descriptor limit that workers get back, soft and hard.
    pub nofile: Option<(u64, u64)>,
    /// What was counted so far.
    #[serde(flatten)]
    pub counters: Counters,
    /// Admission is closed until Resume.
    #[serde(default)]
    pub closed: Option<Closed>,
    /// Start of the first image.
    pub started: Timestamp,
    /// Last sweep that was no dry run.
    pub last_reap: Option<Timestamp>,
    /// Wall clock minus boot-time clock, microseconds.
    pub clock: Option<i64>,
}

impl Default for Handover {
    fn default() -> Self {
        Self {
            version: version(None),
            release: String::new(),
            generation: 1,
            next_node: NodeId(1),
            nodes: Vec::new(),
            again: Vec::new(),
            lock: -1,
            socket: -1,
            socket_passed: false,
            socket_path: None,
            image: -1,
            peers: Vec::new(),
            bus: None,
            tree: Err(String::new()),
            nofile: None,
            counters: Counters::default(),
            closed: None,
            started: Timestamp(0),
            last_reap: None,
            clock: None,
        }
    }
}

/// A hand-over that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// From a newer release.
    #[error("the hand-over has version {0}; this program reads up to {VERSION}")]
    Newer(u32),
    /// Not what it should be.
    #[error("the hand-over cannot be understood: {0}")]
    Broken(String),
}

impl Handover {
    /// Every descriptor that must stay open over the execution.
    pub fn numbers(&self) -> Vec<i32> {
        let nodes = self.nodes.iter().flat_map(|node| {
            std::iter::once(node.pidfd)
                .chain(node.channel)
                .chain(node.notify)
                .chain(node.attendances.iter().copied())
                .chain(node.tracked.iter().map(|tracked| tracked.pidfd))
        });
        let peers = self.peers.iter().map(|peer| peer.fd);
        [self.lock, self.socket, self.image]
            .into_iter()
            .chain(peers)
            .chain(self.bus.as_ref().map(|bus| bus.fd))
            .chain(nodes)
            .collect()
    }

    /// As bytes: JSON, which names its fields, so that the next release can add some.
    pub fn encode(&self) -> Result<Vec<u8>, HandoverError> {
        serde_json::to_vec(self).map_err(|e| HandoverError::Broken(e.to_string()))
    }

    /// The version is looked at first: what a newer one means by a field is not guessed.
    pub fn decode(bytes: &[u8]) -> Result<Self, HandoverError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let broken = |e: serde_json::Error| HandoverError::Broken(e.to_string());
        let Versioned { version } = serde_json::from_slice(bytes).map_err(broken)?;
        if version > VERSION {
            return Err(HandoverError::Newer(version));
        }
        serde_json::from_slice(bytes).map_err(broken)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::collections::BTreeMap;

    use super::*;
    use crate::supervisor::ladder::Plan;
    use crate::supervisor::step::Event;
    use crate::worker::LeftoversPolicy;

    fn machine() -> Machine {
        let plan = Plan {
            channel: true,
            grace: Duration::from_millis(5_250),
            kill_grace: Duration::MAX,
            stop_signal: 15,
            unkillable_after: Duration::from_secs(5),
        };
        Machine::new(plan, LeftoversPolicy::Wait)
    }

    fn handover(machine: Machine) -> Handover {
        let process = ProcessId {
            pid: Pid::new(4_000_001).unwrap(),
            start_ticks: u64::MAX,
            boot_id: "0b6bd4c2-5b4c-4f2e-9d3f-1c1f6a1c2f3a".parse().unwrap(),
        };
        let tracked = TrackedState {
            process,
            pidfd: 41,
            comm: "a \"b\"\n".into(),
            in_group: true,
        };
        Handover {
            version: VERSION,
            closed: Some(Closed {
                since: Timestamp(8),
                reason: "disk".into(),
            }),
            release: "0.1.0".into(),
            generation: 3,
            next_node: NodeId(77),
            nodes: vec![NodeState {
                node: NodeId(5),
                worker: WorkerId::from_bits(9),
                kind: KindType::Think,
                process,
                pidfd: 40,
                pgid: process.pid,
                leaf: Some("/sys/fs/cgroup/w-1".into()),
                machine,
                deadline: Some(Boot(u64::MAX)),
                started: Mono(1),
                bucket: super::super::admission::Bucket::full(),
                life: None,
                lost: Some("a frame of 65 MiB".into()),
                adopted: false,
                frozen: true,
                processes: 4,
                looked: false,
                unenforced: vec!["memory-max".into()],
                tracked: vec![tracked],
                channel: Some(42),
                half_frame: "0000ff".into(),
                notify: Some(43),
                stop_by: Some(Mono(9)),
                tty: true,
                attendances: vec![44, 45],
                skip: 70_000,
                unsent: "00".into(),
                skipped: 3,
                said: Some(true),
                says: "thinking".into(),
            }],
            again: Vec::new(),
            lock: 20,
            socket: 21,
            socket_passed: true,
            socket_path: Some("/run/musterd.sock".into()),
            image: 22,
            peers: vec![PeerState {
                fd: 23,
                fds: true,
                answered: false,
            }],
            bus: Some(BusState {
                fd: 24,
                fds: true,
                guid: "0123456789abcdef0123456789abcdef".into(),
                name: ":1.7".into(),
                address: "unix:path=/run/dbus/system_bus_socket".into(),
            }),
            tree: Ok("/sys/fs/cgroup".into()),
            nofile: Some((1024, u64::MAX)),
            counters: Counters {
                spawned: 500,
                exits: BTreeMap::from([(crate::worker::Outcome::Crashed, 3)]),
                refused: BTreeMap::from([("depth".into(), 2)]),
                ..Counters::default()
            },
            started: Timestamp(-5),
            last_reap: Some(Timestamp(7)),
            clock: Some(-1),
        }
    }

    #[test]
    fn what_is_handed_over_comes_out_as_it_went_in_at_every_rung() {
        let mut m = machine();
        let mut all = vec![handover(m.clone())];
        for (event, at) in [
            (Event::Cancel { force: false }, 1),
            (Event::Saved, 2),
            (Event::Tick, 10),
            (Event::Signalled(10), 11),
            (
                Event::Extended {
                    until: Mono(60_000_000_000),
                },
                11,
            ),
            (Event::LeaderGone, 12),
            (Event::LeaderExited(crate::worker::Exit::Signal(6)), 12),
            (Event::Left, 13),
            (Event::Emptied, 14),
        ] {
            m.step(event, Mono(at * 1_000_000_000));
            all.push(handover(m.clone()));
        }
        for handover in all {
            let bytes = handover.encode().unwrap();
            assert_eq!(Handover::decode(&bytes), Ok(handover));
        }
    }

    #[test]
    fn an_earlier_image_does_not_say_whose_turn_is_over() {
        let mut json: serde_json::Value =
            serde_json::from_slice(&handover(machine()).encode().unwrap()).unwrap();
        let node = json["nodes"][0].as_object_mut().unwrap();
        assert!(node.remove("said").is_some());
        let read = Handover::decode(json.to_string().as_bytes()).unwrap();
        assert_eq!(read.nodes[0].said, None);
    }

    #[test]
    fn a_newer_version_is_refused_before_its_fields_are_read() {
        assert_eq!(
            Handover::decode(br#"{"version":3,"nodes":7}"#),
            Err(HandoverError::Newer(3))
        );
        assert!(matches!(
            Handover::decode(b"{}"),
            Err(HandoverError::Broken(_))
        ));
        assert!(matches!(
            Handover::decode(b"\x00\x01"),
            Err(HandoverError::Broken(_))
        ));
    }
}
