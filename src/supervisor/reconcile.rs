//! The roll against the living, at a start: rows that claim life were children of a daemon that
//! is gone. What still lives of them is ended, each row says what was found, and nothing is
//! started. Blocking; runs before the service serves.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::again::FORGOTTEN;
use super::members::leftovers;
use crate::registry::Registry;
use crate::sys::cgroup::{self, Leaf};
use crate::sys::process::{Delivery, OpenError, ProcessRef, Stat, boot_id, environ_value, scan};
use crate::worker::{HowKnown, Outcome, ProcessId, RestartPolicy, Row, Status, WorkerId};

/// How long what is killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// What was found.
#[derive(Debug, Default)]
pub struct Reconciled {
    /// Rows that were settled; they are to be written.
    pub settled: Vec<WorkerId>,
    /// Adopted rows whose process still runs.
    pub adopted: Vec<(WorkerId, ProcessRef)>,
    /// What could not be told or ended, each a sentence.
    pub errors: Vec<String>,
}

/// One row that claims life.
struct Claim {
    id: WorkerId,
    leader: Leader,
    leaf: Option<Leaf>,
    marked: Vec<(ProcessRef, String)>,
    left: Vec<String>,
}

enum Leader {
    None,
    Alive(ProcessRef),
    Gone(HowKnown),
    Unknown(String),
}

/// Settles every row that claims life and belongs to no daemon any more.
pub fn reconcile(registry: &mut Registry) -> Reconciled {
    let mut found = Reconciled::default();
    look_at_adopted(registry, &mut found);
    let mut claims: Vec<Claim> = registry
        .iter()
        .filter(|row| !row.status.is_terminal() && !row.adopted)
        .filter(|row| !registry.is_read_only(row.id))
        .map(claim)
        .collect();
    if claims.is_empty() {
        return found;
    }
    match scan() {
        Ok(stats) => mark(&mut claims, &stats, registry),
        Err(error) => found.errors.push(format!("cannot read /proc: {error}")),
    }
    for claim in &claims {
        end(claim, &mut found.errors);
    }
    let bound = Instant::now() + GONE_WITHIN;
    for claim in claims {
        while lives(&claim) && Instant::now() < bound {
            // What was killed a moment ago is all that is waited for here.
            std::thread::sleep(LOOK);
        }
        settle(registry, claim, &mut found);
    }
    found
}

/// Adopted processes were nobody's children, so they go on without a daemon. Each is looked for by
/// its identity; nothing is sent to it.
fn look_at_adopted(registry: &mut Registry, found: &mut Reconciled) {
    let adopted: Vec<_> = registry
        .iter()
        .filter(|row| row.adopted && !row.status.is_terminal())
        .filter(|row| !registry.is_read_only(row.id))
        .map(|row| (row.id, row.process))
        .collect();
    for (id, process) in adopted {
        let opened = match process {
            Some(process) => ProcessRef::open(&process),
            None => Err(OpenError::Unknown("its row names no process".to_owned())),
        };
        let finished = match opened {
            Ok(process) => {
                found.adopted.push((id, process));
                continue;
            }
            Err(OpenError::Gone(how)) => registry.finish(id, |row| {
                row.status = Status::Exited;
                row.outcome = Some(match row.cancelled {
                    Some(_) => Outcome::Cancelled,
                    None => Outcome::Unknown,
                });
                row.how_known = Some(how);
                row.note = Some("it ended while no daemon looked".to_owned());
            }),
            Err(OpenError::Unknown(why)) => registry.finish(id, |row| {
                row.status = Status::Orphaned;
                row.note = Some(format!("it cannot be told whether it lives: {why}"));
            }),
        };
        if finished.is_ok() {
            found.settled.push(id);
        }
    }
}

fn claim(row: &Row) -> Claim {
    let leader = match &row.process {
        None => Leader::None,
        Some(id) => match ProcessRef::open(id) {
            Ok(process) => Leader::Alive(process),
            Err(OpenError::Gone(how)) => Leader::Gone(how),
            Err(OpenError::Unknown(why)) => Leader::Unknown(why),
        },
    };
    let rebooted = matches!(leader, Leader::Gone(HowKnown::Rebooted));
    let leaf = row
        .leaf
        .as_deref()
        .filter(|_| !rebooted)
        .and_then(open_leaf);
    Claim {
        id: row.id,
        leader,
        leaf,
        marked: Vec::new(),
        left: Vec::new(),
    }
}

fn open_leaf(rel: &Path) -> Option<Leaf> {
    let path = cgroup::absolute(rel).ok()?;
    Leaf::open(&path).ok()
}

/// Finds what carries a row's mark in its environment and is not older than the row's leader:
/// the mark is a random id, so it is no accident, and a recycled pid does not carry it.
fn mark(claims: &mut [Claim], stats: &[Stat], registry: &Registry) {
    let Ok(boot) = boot_id() else { return };
    let mut by_id: HashMap<WorkerId, &mut Claim> = HashMap::new();
    for claim in claims {
        if !matches!(claim.leader, Leader::Gone(HowKnown::Rebooted)) {
            by_id.insert(claim.id, claim);
        }
    }
    for stat in stats.iter().filter(|s| !s.has_ended()) {
        let Some(value) = environ_value(stat.pid, "MUSTER_WORKER") else {
            continue;
        };
        let id = std::str::from_utf8(&value)
            .ok()
            .and_then(|text| text.parse().ok());
        let Some(claim) = id.and_then(|id: WorkerId| by_id.get_mut(&id)) else {
            continue;
        };
        let leader = registry.get(claim.id).and_then(|row| row.process);
        if leader.is_some_and(|l| l.pid == stat.pid || l.start_ticks > stat.start_ticks) {
            continue;
        }
        let id = ProcessId {
            pid: stat.pid,
            start_ticks: stat.start_ticks,
            boot_id: boot,
        };
        if let Ok(process) = ProcessRef::open(&id) {
            claim.marked.push((process, stat.comm.clone()));
        }
    }
    for claim in by_id.into_values() {
        claim.left = claim.marked.iter().map(|(_, comm)| comm.clone()).collect();
        if let Some(leaf) = &claim.leaf {
            let known: Vec<i32> = claim.marked.iter().map(|(p, _)| p.id().pid.get()).collect();
            let pids = leaf.pids().unwrap_or_default();
            let unknown = pids.into_iter().filter(|pid| !known.contains(&pid.get()));
            let leader = match &claim.leader {
                Leader::Alive(process) => Some(process.id().pid),
                _ => None,
            };
            for pid in unknown.filter(|pid| Some(*pid) != leader) {
                if let Some(stat) = stats.iter().find(|s| s.pid == pid) {
                    claim.left.push(stat.comm.clone());
                }
            }
        }
    }
}

fn end(claim: &Claim, errors: &mut Vec<String>) {
    let mut kill = |process: &ProcessRef| match process.signal(libc::SIGKILL) {
        Ok(Delivery::Sent | Delivery::Gone) => {}
        Ok(Delivery::Denied) => errors.push(format!(
            "process {} of worker {} may not be signalled by us",
            process.id().pid,
            claim.id
        )),
        Err(error) => errors.push(format!("process {}: {error}", process.id().pid)),
    };
    if let Leader::Alive(process) = &claim.leader {
        kill(process);
    }
    for (process, _) in &claim.marked {
        kill(process);
    }
    if let Some(leaf) = &claim.leaf
        && let Err(error) = leaf.kill()
        && error.kind() != std::io::ErrorKind::NotFound
    {
        errors.push(format!(
            "cannot end the leaf of worker {}: {error}",
            claim.id
        ));
    }
}

fn lives(claim: &Claim) -> bool {
    matches!(&claim.leader, Leader::Alive(process) if !process.has_exited())
        || claim
            .marked
            .iter()
            .any(|(process, _)| !process.has_exited())
        || claim
            .leaf
            .as_ref()
            .is_some_and(|leaf| leaf.populated().unwrap_or(false))
}

fn settle(registry: &mut Registry, claim: Claim, found: &mut Reconciled) {
    if lives(&claim) {
        found.errors.push(format!(
            "worker {} outlives SIGKILL; its row is kept",
            claim.id
        ));
        return;
    }
    let how = match &claim.leader {
        // Unknown is not dead: the next sweep asks again.
        Leader::Unknown(why) => {
            found.errors.push(format!(
                "worker {}: cannot tell whether it lives: {why}",
                claim.id
            ));
            return;
        }
        Leader::Gone(how @ (HowKnown::PidRecycled | HowKnown::Rebooted)) => *how,
        Leader::Gone(_) | Leader::Alive(_) | Leader::None => HowKnown::DaemonLost,
    };
    let left = leftovers(claim.left.iter().map(String::as_str));
    let finished = registry.finish(claim.id, |row| {
        let waited = row.status == Status::Restarting;
        row.status = Status::Exited;
        if waited && row.outcome.is_some() {
            // The end of its last generation was witnessed.
            row.note = Some(format!(
                "the daemon was lost while it waited to be started again; {FORGOTTEN}"
            ));
            row.runtime_dir = None;
            return;
        }
        row.outcome = Some(if row.cancelled.is_some() {
            Outcome::Cancelled
        } else {
            Outcome::Unknown
        });
        row.how_known = Some(how);
        if left.count > 0 {
            row.leftovers = left;
        }
        row.note = Some(note(how, row.cancelled.is_some()));
        if row.restart != RestartPolicy::No && row.cancelled.is_none() {
            let why = row.note.take().unwrap_or_default();
            row.note = Some(format!("{why}; not started again: {FORGOTTEN}"));
        }
        row.runtime_dir = None;
    });
    if finished.is_ok() {
        found.settled.push(claim.id);
    }
    if let Some(leaf) = claim.leaf {
        let _ = leaf.remove();
    }
}

fn note(how: HowKnown, cancelled: bool) -> String {
    let what = match how {
        HowKnown::Rebooted => "the machine was booted since",
        HowKnown::PidRecycled => "the daemon was lost; its pid belongs to another process now",
        _ => "the daemon was lost and its workers with it",
    };
    if cancelled {
        format!("{what}; it was being cancelled")
    } else {
        what.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::{Owner, Pid, ProcessId, Timestamp};

    fn adopted(number: u64, process: Option<ProcessId>) -> Row {
        let owner = Owner { uid: 1, gid: 1 };
        let mut row = Row::new(WorkerId::from_bits(number), owner, Timestamp(1));
        row.adopted = true;
        row.status = Status::Live;
        row.process = process;
        row
    }

    #[test]
    fn an_adopted_row_is_taken_back_ended_or_orphaned_and_its_process_left_alone() {
        let mut sleep = std::process::Command::new("sleep");
        let mut child = sleep.arg("1000").spawn().unwrap();
        let alive = ProcessRef::of_pid(Pid::new(child.id().into()).unwrap()).unwrap();
        let other = ProcessId {
            start_ticks: alive.id().start_ticks + 1,
            ..alive.id()
        };
        let mut registry = Registry::default();
        let mut cancelled = adopted(4, Some(other));
        cancelled.cancelled = Some(crate::worker::Cancellation::new(1, "why", Timestamp(2)));
        for row in [
            adopted(1, Some(alive.id())),
            adopted(2, Some(other)),
            adopted(3, None),
            cancelled,
        ] {
            registry.insert(row, None).unwrap();
        }
        let found = reconcile(&mut registry);
        let kept: Vec<_> = found.adopted.iter().map(|(id, p)| (*id, p.id())).collect();
        assert_eq!(kept, [(WorkerId::from_bits(1), alive.id())]);
        assert_eq!(found.settled.len(), 3);
        assert!(!alive.has_exited());
        let row = |n| registry.get(WorkerId::from_bits(n)).unwrap();
        assert_eq!(row(1).status, Status::Live);
        assert_eq!(
            (row(2).status, row(2).outcome, row(2).how_known),
            (
                Status::Exited,
                Some(Outcome::Unknown),
                Some(HowKnown::PidRecycled)
            )
        );
        assert_eq!((row(3).status, row(3).outcome), (Status::Orphaned, None));
        assert_eq!(row(4).outcome, Some(Outcome::Cancelled));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
