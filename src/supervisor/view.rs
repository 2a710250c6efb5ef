//! A row and what the table knows of it, as callers see it.

use std::ffi::OsStr;
use std::time::Duration;

use super::Supervisor;
use super::children::Child;
use super::handle::{ListView, Liveness, ServiceView, WorkerView};
use super::life::Life;
use super::settle;
use crate::registry::writer::Health as DiskHealth;
use crate::sys::clock;
use crate::worker::{Boot, KindType, Mono, Now, Row, Rung, Status, Timestamp};

impl Supervisor {
    pub(super) fn view(&self, row: &Row) -> WorkerView {
        let now = clock::now();
        let child = self.children.of_worker(row.id);
        let alive = self.alive(child);
        let rung = rung(child, row);
        let next = child.and_then(|child| child.machine.due());
        WorkerView {
            id: row.id,
            name: row.name.clone(),
            kind: row.kind.label(),
            kind_fields: row.kind.clone(),
            node: child.map(|c| c.node),
            status: row.status,
            health: alive.map(|c| self.health(c, row, now)),
            liveness: alive.map(|c| liveness(&c.life, now)),
            status_text: child.map_or(String::new(), |c| c.says.to_string()),
            owner: row.owner,
            pid: leader_pid(child, row),
            parent: row.parent,
            depth: row.depth,
            msg_depth: row.msg_depth,
            trace_id: row.trace_id.clone(),
            argv: row.argv.iter().map(|a| text(a)).collect(),
            cwd: text(row.cwd.as_os_str()),
            worktree: row.worktree.as_ref().map(|w| text(w.as_os_str())),
            control_group: row.leaf.clone().filter(|_| child.is_some()),
            created: row.created,
            started: row.started,
            exited: row.exited,
            age_ms: age_ms(row, child.map(|c| c.started), now),
            deadline: child
                .and_then(|c| c.deadline)
                .map(|at| wall_of_boot(at, now)),
            outcome: row.outcome,
            how_known: row.how_known,
            exit: row.exit,
            oom_killed: row.oom_killed,
            rung,
            next_rung: next.map(|at| wall_of_mono(at, now)),
            unkillable: rung == Some(Rung::Unkillable) && child.is_some(),
            took_usec: row
                .took
                .map(|t| u64::try_from(t.as_micros()).unwrap_or(u64::MAX)),
            processes: child.map_or(row.processes, |c| c.processes),
            note: self.note(child, row),
            cancelled: row.cancelled.clone(),
            settled: row.settled,
            channel: child.and_then(|c| match (&c.channel, &c.lost) {
                (Some(_), _) => Some("open".to_owned()),
                (None, Some(why)) => Some(format!("lost: {why}")),
                (None, None) => None,
            }),
            frames_skipped: child.map_or(u64::from(row.frames_skipped), |c| c.skipped),
            held: row.held,
            attended: child.is_some_and(|c| c.attended > 0),
            frozen: child.is_some_and(|c| c.frozen),
            stop_by: child
                .and_then(|c| c.notify.as_ref()?.stop_by)
                .map(|at| wall_of_mono(at, now)),
            adopted: row.adopted,
            tokens: row.tokens,
            restarts: row.restarts,
            restart_at: self.again.due(row.id).map(|at| wall_of_mono(at, now)),
            reservation: row.kind.reservation(),
            leftovers: row.leftovers.clone(),
            limits: *row.limits,
            unenforced: child.map(|c| c.unenforced.clone()).unwrap_or_default(),
            usage: None,
            output: row.output.clone(),
            journal: row.journal,
            output_dropped: row.output_dropped,
            read_only: self.read_only(row),
            generation: row.generation,
        }
    }

    /// A row of a list. Who may not see `all` of it is told what it is and how it stands.
    pub(super) fn listed(&self, row: &Row, all: bool, now: Now) -> ListView {
        let child = self.children.of_worker(row.id);
        let alive = self.alive(child);
        let pid = leader_pid(child, row);
        let mut view = ListView {
            id: row.id,
            name: String::new(),
            kind: String::new(),
            status: row.status,
            health: alive.map(|c| self.health(c, row, now)),
            uid: row.owner.uid,
            pid: pid.and_then(|p| u32::try_from(p).ok()).unwrap_or(0),
            created: row.created,
            tokens: row.tokens.input.saturating_add(row.tokens.output),
            argv: Vec::new(),
            cwd: String::new(),
            worktree: None,
            started: row.started,
            exited: row.exited,
            outcome: row.outcome,
            exit: row.exit,
            rung: rung(child, row),
            held: row.held,
            parent: row.parent,
            read_only: self.read_only(row),
            note: None,
            frozen: child.is_some_and(|c| c.frozen),
            leftovers: Vec::new(),
        };
        if all {
            view.name.clone_from(&row.name);
            view.kind = row.kind.label();
            view.argv = row.argv.iter().map(|a| text(a)).collect();
            view.cwd = text(row.cwd.as_os_str());
            view.worktree = row.worktree.as_ref().map(|w| text(w.as_os_str()));
            view.note = self.note(child, row);
            view.leftovers.clone_from(&row.leftovers.names);
        } else {
            view.kind = row.kind.kind_type().to_string();
        }
        view
    }

    /// One of which something is left: no sign of life is looked for while its stop hook runs.
    fn alive<'a>(&self, child: Option<&'a Child>) -> Option<&'a Child> {
        child.filter(|child| !self.hooks.contains_key(&child.node))
    }

    fn note(&self, child: Option<&Child>, row: &Row) -> Option<String> {
        let note = settle::note(row);
        match child {
            Some(child) if self.hooks.contains_key(&child.node) => {
                let seen = note.map_or(String::new(), |note| format!("{note}; "));
                Some(format!("{seen}it has ended, its stop hook runs"))
            }
            _ => note,
        }
    }

    fn read_only(&self, row: &Row) -> Option<String> {
        let schema = self.registry.entry(row.id)?.newer_schema()?;
        Some(format!("written by a newer musterd (schema {schema})"))
    }

    pub(super) fn service_view(&self) -> ServiceView {
        let mut degraded = self.degraded.clone();
        if let DiskHealth::Degraded(why) = &*self.writer.health().borrow() {
            degraded.push(format!(
                "state directory: {why}; no new workers until it is written"
            ));
        }
        if let Some(busy) = self
            .writer
            .busy_for()
            .filter(|busy| *busy >= super::step::SAVE_WAIT)
        {
            let seconds = busy.as_secs();
            degraded.push(format!(
                "state directory: a write has been taking {seconds} s"
            ));
        }
        match self.unknown_strangers() {
            0 => {}
            n => degraded.push(format!(
                "{n} orphaned processes that no worker can be named for"
            )),
        }
        ServiceView {
            version: crate::RELEASE.to_owned(),
            pid: std::process::id(),
            generation: self.set.generation,
            state: if self.drain.is_some() {
                "draining"
            } else {
                "running"
            }
            .to_owned(),
            closed: self.drain.as_ref().map(|drain| drain.closed.clone()),
            containment: match &self.tree {
                Ok(_) => "cgroup".to_owned(),
                Err(why) => format!("weak: {why}"),
            },
            degraded,
            n_workers: u32::try_from(self.children.len()).unwrap_or(u32::MAX),
            n_adopted: u32::try_from(self.children.adopted()).unwrap_or(u32::MAX),
            n_rows: u32::try_from(self.registry.len()).unwrap_or(u32::MAX),
            n_quarantined: self.quarantined,
            by_status: self
                .registry
                .counts()
                .map(|(s, n)| (s.to_string(), n))
                .collect(),
            by_kind: KindType::ALL
                .iter()
                .map(|kind| (kind.to_string(), u64::from(self.children.count_of(*kind))))
                .collect(),
            grace_usec: u64::try_from(self.set.config.gc.grace.as_micros()).unwrap_or(u64::MAX),
            started: self.started,
            last_reap: self.last_reap,
            state_dir: self.set.state_dir.clone(),
            spawned: self.counters.spawned,
            refused: self.counters.refused.clone(),
            counted: self.counters.clone(),
            exits: crate::worker::Outcome::ALL
                .iter()
                .map(|o| {
                    (
                        o.to_string(),
                        self.counters.exits.get(o).copied().unwrap_or(0),
                    )
                })
                .collect(),
        }
    }
}

fn liveness(life: &Life, now: Now) -> Liveness {
    let usec = |length: Duration| u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    Liveness {
        last_progress: wall_of_mono(life.progress, now),
        last_pong: life.promise.pong.map(|_| wall_of_mono(life.pong, now)),
        progress_timeout_usec: usec(life.promise.progress),
        pong_timeout_usec: life.promise.pong.map(usec),
        idle_timeout_usec: life.promise.idle.map(usec),
    }
}

/// While the leader runs: what it left may outlive it.
fn leader_pid(child: Option<&Child>, row: &Row) -> Option<i32> {
    let runs = child.is_some_and(|child| child.machine.leader_runs());
    row.process
        .filter(|_| runs)
        .map(|process| process.pid.get())
}

/// The rung it is at, or the one that worked.
fn rung(child: Option<&Child>, row: &Row) -> Option<Rung> {
    match child {
        Some(child) if child.machine.is_stopping() => Some(child.machine.rung()),
        Some(_) => None,
        None => row.rung,
    }
}

/// Bytes that are no UTF-8 as U+FFFD.
fn text(bytes: &OsStr) -> String {
    match bytes.to_str() {
        Some(text) => text.to_owned(),
        None => bytes.to_string_lossy().into_owned(),
    }
}

/// Live workers by the monotonic clock; ended ones by what the row says.
fn age_ms(row: &Row, started: Option<Mono>, now: Now) -> u64 {
    if let Some(started) = started {
        return u64::try_from(now.mono.since(started).as_millis()).unwrap_or(u64::MAX);
    }
    let Some(start) = row.started else { return 0 };
    let end = if row.status == Status::Live {
        now.wall
    } else {
        row.exited.unwrap_or(now.wall)
    };
    u64::try_from(end.since(start) / 1000).unwrap_or(0)
}

fn wall_of_mono(at: Mono, now: Now) -> Timestamp {
    wall(at.since(now.mono), now.mono.since(at), now)
}

fn wall_of_boot(at: Boot, now: Now) -> Timestamp {
    wall(at.since(now.boot), now.boot.since(at), now)
}

fn wall(ahead: Duration, behind: Duration, now: Now) -> Timestamp {
    let micros = |d: Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    now.wall
        .plus(micros(ahead))
        .plus(micros(behind).saturating_neg())
}
