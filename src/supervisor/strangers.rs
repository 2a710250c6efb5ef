//! Processes that are ours but in no table: orphans the subreaper inherits, and, where there is
//! no leaf to ask, everything a worker has started. Found by a coalesced look at `/proc` off the
//! loop, opened by pidfd, waited for one by one.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::time::Duration;

use super::children::Tracked;
use super::containment::{Root, attribute};
use super::step::Event;
use super::timers::Key;
use super::{Inner, Supervisor};
use crate::sys::process::{ProcessRef, Stat, environ_value, own_children, scan, standing};
use crate::sys::{clock, process, wait};
use crate::worker::{NodeId, Now, Pid, ProcessId, WorkerId};

/// SIGCHLD gathers company for so long.
const COALESCE: Duration = Duration::from_millis(50);
/// Another look after this, where one saw something that had to be left for later.
const AGAIN: Duration = Duration::from_millis(100);

/// What is known between two looks.
#[derive(Debug, Default)]
pub(super) struct State {
    wanted: HashSet<NodeId>,
    asked: HashSet<NodeId>,
    running: bool,
    /// Something happened during the look under way that it may not have seen.
    again: bool,
    suspects: HashMap<Pid, NodeId>,
    unknown: Vec<ProcessRef>,
}

impl State {
    pub(super) fn is_quiet(&self) -> bool {
        !self.running
    }
}

/// One look.
#[derive(Debug)]
pub(super) struct Scan {
    children: Vec<Pid>,
    stats: Vec<Stat>,
    marks: HashMap<Pid, WorkerId>,
}

impl Supervisor {
    /// A child of ours has changed state: perhaps a stranger's end.
    pub(super) fn child_signal(&mut self, now: Now) {
        self.timers
            .at_latest(Key::Strangers, now.mono.plus(COALESCE));
    }

    /// A worker without a leaf has to be looked for, at once.
    pub(super) fn want_scan(&mut self, node: NodeId) {
        if self
            .children
            .get(node)
            .is_some_and(|child| child.leaf.is_none() && child.adopted.is_none())
        {
            self.strangers.wanted.insert(node);
            self.scan();
        }
    }

    pub(super) fn scan(&mut self) {
        if std::mem::replace(&mut self.strangers.running, true) {
            self.strangers.again = true;
            return;
        }
        self.strangers.again = false;
        self.strangers.asked = std::mem::take(&mut self.strangers.wanted);
        self.timers.set(Key::Strangers, None);
        let whole = self.tree.is_err();
        self.spawn_inner(async move {
            let looked = tokio::task::spawn_blocking(move || look(whole)).await;
            Inner::Scanned(looked.unwrap_or_else(|e| Err(std::io::Error::other(e))))
        });
    }

    pub(super) fn scanned(&mut self, looked: std::io::Result<Scan>) {
        self.strangers.running = false;
        let asked = std::mem::take(&mut self.strangers.asked);
        let now = clock::now();
        let mut looked = match looked {
            Ok(looked) => looked,
            Err(error) => {
                // Nobody is called dead for a /proc that cannot be read; it is tried again.
                tracing::warn!(%error, "cannot look for processes");
                for node in &asked {
                    self.act_on_waiting(*node, now);
                }
                self.strangers.wanted.extend(asked);
                self.timers
                    .at_latest(Key::Strangers, now.mono.plus(Duration::from_secs(1)));
                return;
            }
        };
        self.reap_strangers(&looked, now);
        if self.tree.is_err() {
            looked.stats.retain(|stat| !self.is_helper(stat.pid));
            self.attribute_all(&looked, &asked);
        }
        if self.strangers.again {
            self.scan();
        }
    }

    /// Ended children that are in no table. A child just forked is in none either, so one is
    /// only reaped when every start that was under way when it was first seen has come back.
    fn reap_strangers(&mut self, looked: &Scan, now: Now) {
        let first_starting = self
            .starting
            .values()
            .map(|s| s.node)
            .chain(self.helpers_starting.iter().copied())
            .min();
        let unsettled = self.children.next_unused();
        let mut suspects = HashMap::new();
        for pid in &looked.children {
            if self.children.node_of_pid(*pid).is_some() || self.is_helper(*pid) {
                continue;
            }
            let seen = self
                .strangers
                .suspects
                .get(pid)
                .copied()
                .unwrap_or(unsettled);
            if first_starting.is_some_and(|first| first < seen) {
                suspects.insert(*pid, seen);
                continue;
            }
            // If it is alive, its end brings the next SIGCHLD.
            if let Ok(process) = ProcessRef::of_pid(*pid) {
                let _ = wait::reap(process.as_fd());
            }
        }
        if !suspects.is_empty() {
            self.timers.at_latest(Key::Strangers, now.mono.plus(AGAIN));
        }
        self.strangers.suspects = suspects;
    }

    /// The worker of one process that was orphaned to us.
    pub(super) fn worker_of_orphan(&self, stat: &Stat) -> Option<WorkerId> {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        if self.is_helper(stat.pid) {
            return None;
        }
        // A mark is what anybody may write: it counts for the owner's own processes.
        let marked = |stat: &Stat| {
            let id = mark(stat.pid)?;
            let owner = self.registry.get(id)?.owner.uid;
            let uids = standing(stat.pid).ok()?.uids;
            (uids[0] == owner).then(|| self.children.node_of(id))?
        };
        let one = std::slice::from_ref(stat);
        let found = attribute(one, own, &self.roots(), &self.tracked(), marked);
        let node = found.members.into_keys().next()?;
        self.children.get(node).map(|child| child.id)
    }

    fn roots(&self) -> Vec<Root> {
        self.children
            .iter()
            .filter(|child| child.adopted.is_none())
            .map(|child| {
                let id = child.process.id();
                Root {
                    node: child.node,
                    pid: id.pid,
                    start_ticks: id.start_ticks,
                }
            })
            .collect()
    }

    fn tracked(&self) -> HashMap<Pid, NodeId> {
        self.children
            .iter()
            .flat_map(|child| {
                child
                    .tracked
                    .iter()
                    .map(|t| (t.process.id().pid, child.node))
            })
            .collect()
    }

    fn attribute_all(&mut self, looked: &Scan, asked: &HashSet<NodeId>) {
        let (roots, known) = (self.roots(), self.tracked());
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let found = attribute(&looked.stats, own, &roots, &known, |stat| {
            let id = looked.marks.get(&stat.pid)?;
            self.children.node_of(*id)
        });
        self.strangers.unknown = found.unknown.iter().filter_map(open).collect();
        for root in &roots {
            let node = root.node;
            let members = found.members.get(&node).map_or(&[][..], Vec::as_slice);
            self.found_members(node, members, asked.contains(&node));
        }
    }

    fn found_members(&mut self, node: NodeId, members: &[Stat], asked: bool) {
        let Some(child) = self.children.get(node) else {
            return;
        };
        if !asked && child.tracked.is_empty() && child.machine.leader_runs() {
            return;
        }
        let pgid = child.pgid.get();
        for stat in members {
            let Some(process) = open(stat) else { continue };
            let tracked = Tracked {
                process,
                comm: stat.comm.clone(),
                in_group: stat.pgrp == pgid,
            };
            if let Err(error) = self.children.track(node, tracked) {
                tracing::error!(%error, "cannot watch a process");
            }
        }
        let left = self.children.drop_ended(node);
        if asked {
            self.act_on_waiting(node, clock::now());
        }
        if let Some(child) = self.children.get_mut(node)
            && child.machine.is_stopping()
        {
            let seen = left + usize::from(child.machine.leader_runs());
            child.processes = child.processes.max(u32::try_from(seen).unwrap_or(u32::MAX));
        }
        let Some(child) = self.children.get(node) else {
            return;
        };
        if child.machine.leader_runs() || !asked {
            return;
        }
        if left == 0 {
            self.on_event(node, Event::Emptied);
        } else {
            let left: Vec<_> = child
                .tracked
                .iter()
                .map(|t| (t.process.id().pid, t.comm.clone()))
                .collect();
            self.left(node, &left);
        }
    }

    /// Orphans of workers that nothing names: shown, and ended at the drain.
    pub(super) fn unknown_strangers(&self) -> usize {
        self.unknown().count()
    }

    /// A worker that was just being started when it was seen has come into the table since.
    fn unknown(&self) -> impl Iterator<Item = &ProcessRef> {
        self.strangers.unknown.iter().filter(|process| {
            let pid = process.id().pid;
            self.children.node_of_pid(pid).is_none()
                && !self.is_helper(pid)
                && !process.has_exited()
        })
    }

    pub(super) fn kill_unknown_strangers(&self) {
        for process in self.unknown() {
            let _ = process.signal(libc::SIGKILL);
        }
    }
}

fn open(stat: &Stat) -> Option<ProcessRef> {
    let boot_id = process::boot_id().ok()?;
    let id = ProcessId {
        pid: stat.pid,
        start_ticks: stat.start_ticks,
        boot_id,
    };
    ProcessRef::open(&id).ok()
}

/// Blocking. `whole`: every process and the marks of our orphans, for hosts without leaves.
fn look(whole: bool) -> std::io::Result<Scan> {
    let children = own_children()?;
    let stats = if whole { scan()? } else { Vec::new() };
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let marks = stats
        .iter()
        .filter(|stat| stat.ppid == own)
        .filter_map(|stat| Some((stat.pid, mark(stat.pid)?)))
        .collect();
    Ok(Scan {
        children,
        stats,
        marks,
    })
}

fn mark(pid: Pid) -> Option<WorkerId> {
    let value = environ_value(pid, "MUSTER_WORKER")?;
    std::str::from_utf8(&value).ok()?.parse().ok()
}
