//! The processes of a worker: who they are, and how a signal reaches them and nobody else.

use std::io;

use super::children::Child;
use crate::sys::process::{Delivery, ProcessRef, group_of, signal_group, standing, stat};
use crate::worker::{Leftovers, Pid, WorkerId};

/// Command names kept of what a leader left.
const NAMES_MAX: usize = 32;

/// Living processes of a worker besides its ended leader, with their command names.
pub(super) fn members(child: &Child) -> Vec<(Pid, String)> {
    let leader = child.process.id().pid;
    let runs = child.machine.leader_runs();
    match &child.leaf {
        Some(leaf) => leaf
            .pids()
            .unwrap_or_default()
            .into_iter()
            .filter(|pid| runs || *pid != leader)
            .filter_map(|pid| Some((pid, stat(pid).ok()?)))
            .filter(|(_, stat)| !stat.has_ended())
            .map(|(pid, stat)| (pid, stat.comm))
            .collect(),
        None => {
            let mut all: Vec<_> = child
                .tracked
                .iter()
                .map(|t| (t.process.id().pid, t.comm.clone()))
                .collect();
            if runs {
                all.push((leader, String::new()));
            }
            all
        }
    }
}

/// Names once each, and the count of all.
pub(super) fn leftovers<'a>(comms: impl Iterator<Item = &'a str>) -> Leftovers {
    let mut left = Leftovers::default();
    for comm in comms {
        left.count = left.count.saturating_add(1);
        if left.names.len() < NAMES_MAX && !left.names.iter().any(|name| name == comm) {
            left.names.push(comm.to_owned());
        }
    }
    left
}

pub(super) fn thaw(child: &mut Child) {
    if let Some(leaf) = &child.leaf
        && (child.frozen || leaf.is_frozen().unwrap_or(false))
    {
        child.frozen = false;
        if let Err(error) = leaf.freeze(false) {
            tracing::warn!(%error, MUSTER_WORKER = %child.id, "cannot thaw");
        }
    }
}

/// To the leader's group. An adopted process gets it with the group that it leads, if it leads
/// one, and only while it still is its owner's: by now it may run as somebody else.
pub(super) fn signal_group_of(child: &Child, signal: i32) -> io::Result<Delivery> {
    match child.adopted {
        None => signal_group(child.pgid, signal),
        Some(owner) => as_owners(child, owner, || child.process.signal_with_group(signal)),
    }
}

/// The same for the leader alone.
pub(super) fn signal_leader_of(child: &Child, signal: i32) -> io::Result<Delivery> {
    match child.adopted {
        None => child.process.signal(signal),
        Some(owner) => as_owners(child, owner, || child.process.signal(signal)),
    }
}

fn as_owners(
    child: &Child,
    owner: u32,
    send: impl FnOnce() -> io::Result<Delivery>,
) -> io::Result<Delivery> {
    match standing(child.process.id().pid) {
        Ok(found) if owner == 0 || found.uids.iter().all(|uid| *uid == owner) => send(),
        Ok(_) => Ok(Delivery::Denied),
        Err(_) if child.process.has_exited() => Ok(Delivery::Gone),
        Err(error) => Err(error),
    }
}

/// To every process outside the leader's group. A pid counts only if it is still in the leaf
/// after its pidfd was opened: then the descriptor is that process and no stranger.
pub(super) fn signal_rest(child: &Child, signal: i32) {
    let Some(leaf) = &child.leaf else {
        for tracked in child.tracked.iter().filter(|t| !t.in_group) {
            report(child.id, "process", tracked.process.signal(signal));
        }
        return;
    };
    let opened: Vec<ProcessRef> = leaf
        .pids()
        .unwrap_or_default()
        .into_iter()
        .filter(|pid| !in_group(*pid, child.pgid))
        .filter_map(|pid| ProcessRef::of_pid(pid).ok())
        .collect();
    let still = leaf.pids().unwrap_or_default();
    for process in opened.iter().filter(|p| still.contains(&p.id().pid)) {
        report(child.id, "process", process.signal(signal));
    }
}

fn in_group(pid: Pid, group: Pid) -> bool {
    matches!(group_of(pid), Ok(Some(its)) if its == group)
}

pub(super) fn kill_all(child: &Child) {
    report(child.id, "group", signal_group_of(child, libc::SIGKILL));
    match &child.leaf {
        Some(leaf) => {
            if let Err(error) = leaf.kill() {
                tracing::warn!(%error, MUSTER_WORKER = %child.id, "cgroup.kill failed");
            }
        }
        None => {
            for tracked in &child.tracked {
                report(child.id, "process", tracked.process.signal(libc::SIGKILL));
            }
        }
    }
}

pub(super) fn report(id: WorkerId, what: &str, result: io::Result<Delivery>) {
    match result {
        Ok(Delivery::Sent | Delivery::Gone) => {}
        Ok(Delivery::Denied) => {
            tracing::warn!(MUSTER_WORKER = %id, "a {what} of the worker may not be signalled by us");
        }
        Err(error) => tracing::warn!(%error, MUSTER_WORKER = %id, "cannot signal a {what}"),
    }
}
