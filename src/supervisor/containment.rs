//! Whose process is that, where no leaf can tell? PURE over one scan of `/proc` (section 8).
//!
//! A process belongs to a worker if the chain of its parents reaches the worker's leader or a
//! process already attributed, or if it was orphaned to us and its group, its session or the
//! mark in its environment names the worker.

use std::collections::{HashMap, HashSet};

use crate::sys::process::Stat;
use crate::worker::{NodeId, Pid};

/// A leader that processes may belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// Its node.
    pub node: NodeId,
    /// Its pid, alive or unreaped.
    pub pid: Pid,
    /// Start ticks of the leader; nothing of it can be older.
    pub start_ticks: u64,
}

/// Everything attributed, and what could not be.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Attributed {
    /// Living processes besides the leader, by node.
    pub members: HashMap<NodeId, Vec<Stat>>,
    /// Living processes orphaned to us that nothing names.
    pub unknown: Vec<Stat>,
}

/// Attributes every process of a scan. `own` is our pid; `known` are processes attributed by an
/// earlier scan (their sessions count too); `mark` answers the node named in a process's
/// environment and is only asked for orphans that nothing else names.
pub fn attribute(
    scan: &[Stat],
    own: i32,
    roots: &[Root],
    known: &HashMap<Pid, NodeId>,
    mark: impl Fn(&Stat) -> Option<NodeId>,
) -> Attributed {
    let by_pid: HashMap<i32, &Stat> = scan.iter().map(|s| (s.pid.get(), s)).collect();
    let leaders: HashMap<i32, Root> = roots.iter().map(|r| (r.pid.get(), *r)).collect();
    let mut sessions: HashMap<i32, NodeId> = HashMap::new();
    for (pid, node) in known {
        if let Some(stat) = by_pid.get(&pid.get()) {
            sessions.insert(stat.session, *node);
        }
    }
    let orphan = |stat: &Stat| -> Option<NodeId> {
        if let Some(node) = known.get(&stat.pid) {
            return Some(*node);
        }
        if let Some(root) = leaders
            .get(&stat.pgrp)
            .or_else(|| leaders.get(&stat.session))
            && stat.start_ticks >= root.start_ticks
        {
            return Some(root.node);
        }
        sessions.get(&stat.session).copied().or_else(|| mark(stat))
    };
    let mut found = Attributed::default();
    let mut memo: HashMap<i32, Option<NodeId>> = HashMap::new();
    for stat in scan {
        if stat.has_ended() || leaders.contains_key(&stat.pid.get()) {
            continue;
        }
        match owner(stat, own, &by_pid, &leaders, &orphan, &mut memo) {
            Some(node) => found.members.entry(node).or_default().push(stat.clone()),
            None if stat.ppid == own => found.unknown.push(stat.clone()),
            None => {}
        }
    }
    found
}

/// Climbs from a process to the first ancestor that names a worker.
fn owner(
    stat: &Stat,
    own: i32,
    by_pid: &HashMap<i32, &Stat>,
    leaders: &HashMap<i32, Root>,
    orphan: &impl Fn(&Stat) -> Option<NodeId>,
    memo: &mut HashMap<i32, Option<NodeId>>,
) -> Option<NodeId> {
    let mut path = HashSet::new();
    let mut at = stat;
    let answer = loop {
        if let Some(known) = memo.get(&at.pid.get()) {
            break *known;
        }
        if let Some(root) = leaders.get(&at.pid.get()) {
            break Some(root.node);
        }
        // A scan is no instant: a chain may seem to close on itself.
        if !path.insert(at.pid.get()) {
            break None;
        }
        if at.ppid == own {
            break orphan(at);
        }
        match by_pid.get(&at.ppid) {
            Some(parent) => at = parent,
            None => break None,
        }
    };
    for pid in path {
        memo.insert(pid, answer);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i64, ppid: i32, pgrp: i32, session: i32) -> Stat {
        Stat {
            pid: Pid::new(pid).unwrap(),
            comm: format!("p{pid}"),
            state: 'S',
            ppid,
            pgrp,
            session,
            cpu_ticks: 0,
            nice: 0,
            threads: 1,
            start_ticks: 100,
        }
    }

    const OWN: i32 = 900_001;

    fn roots() -> Vec<Root> {
        vec![
            Root {
                node: NodeId(1),
                pid: Pid::new(900_010).unwrap(),
                start_ticks: 50,
            },
            Root {
                node: NodeId(2),
                pid: Pid::new(900_020).unwrap(),
                start_ticks: 50,
            },
        ]
    }

    fn members(scan: &[Stat], node: u64, mark: impl Fn(&Stat) -> Option<NodeId>) -> Vec<i32> {
        let known = HashMap::new();
        let found = attribute(scan, OWN, &roots(), &known, mark);
        let mut pids: Vec<i32> = found
            .members
            .get(&NodeId(node))
            .map(|m| m.iter().map(|s| s.pid.get()).collect())
            .unwrap_or_default();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn descendants_are_found_through_any_depth() {
        let scan = [
            stat(900_010, OWN, 900_010, 1),
            stat(900_011, 900_010, 900_010, 1),
            stat(900_012, 900_011, 900_012, 900_012),
            stat(900_013, 900_012, 900_012, 900_012),
            stat(900_050, 1, 900_050, 900_050),
        ];
        assert_eq!(members(&scan, 1, |_| None), [900_011, 900_012, 900_013]);
    }

    #[test]
    fn an_orphan_is_known_by_its_group_and_then_by_its_mark() {
        let scan = [
            stat(900_011, OWN, 900_010, 1),
            stat(900_031, OWN, 900_031, 900_031),
            stat(900_032, 900_031, 900_031, 900_031),
        ];
        assert_eq!(members(&scan, 1, |_| None), [900_011]);
        let marked = |s: &Stat| (s.pid.get() == 900_031).then_some(NodeId(2));
        assert_eq!(members(&scan, 2, marked), [900_031, 900_032]);
        let found = attribute(&scan, OWN, &roots(), &HashMap::new(), |_| None);
        assert_eq!(found.unknown.len(), 1);
    }

    #[test]
    fn an_orphan_is_known_by_the_session_of_one_known_before() {
        let scan = [
            stat(900_031, OWN, 900_031, 900_030),
            stat(900_033, OWN, 900_033, 900_030),
        ];
        let known = HashMap::from([(Pid::new(900_031).unwrap(), NodeId(1))]);
        let found = attribute(&scan, OWN, &roots(), &known, |_| None);
        assert_eq!(found.members[&NodeId(1)].len(), 2);
    }

    #[test]
    fn what_is_older_than_the_leader_is_not_its_own() {
        let mut old = stat(900_011, OWN, 900_010, 1);
        old.start_ticks = 10;
        assert_eq!(members(&[old], 1, |_| None), [0; 0]);
    }

    #[test]
    fn a_zombie_whose_threads_run_is_alive() {
        let leader = stat(900_010, OWN, 900_010, 1);
        let mut threads_only = stat(900_011, 900_010, 900_010, 1);
        (threads_only.state, threads_only.threads) = ('Z', 2);
        assert_eq!(members(&[leader, threads_only], 1, |_| None), [900_011]);
    }

    #[test]
    fn the_dead_and_loops_are_passed_over() {
        let mut dead = stat(900_011, 900_010, 900_010, 1);
        dead.state = 'Z';
        let scan = [
            dead,
            stat(900_041, 900_042, 1, 1),
            stat(900_042, 900_041, 1, 1),
        ];
        assert_eq!(members(&scan, 1, |_| None), [0; 0]);
    }
}
