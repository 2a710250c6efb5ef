//! Processes that somebody else started, put on the roll by Adopt (section 9). The row lives and
//! dies with the process: it is known by its pidfd, it is no child of ours, and it is signalled
//! only when its owner cancels it by hand.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Supervisor;
use super::children::Child;
use super::handle::{Caller, Change, Command, Handle, Reply, Right, Spawned};
use super::life::{Life, Promise};
use super::looking::Looker;
use super::refused::Refused;
use super::step::{Event, Machine, SAVE_WAIT};
use super::{Inner, journal};
use crate::gc::worktree::{Owned, owned_worktree};
use crate::sys::clock;
use crate::sys::process::{OpenError, ProcessRef, Standing, Stat, command_line, standing, stat};
use crate::worker::{
    Kind, LeftoversPolicy, Mono, NodeId, Now, Owner, Pid, Row, Spec, Status, WorkerId,
    WorktreeChoice,
};

/// Most of a command line that is kept.
const ARGV_MAX: u64 = 64 * 1024;
/// Clock ticks in a second as `/proc` counts them: part of the kernel's interface.
const TICKS: u64 = 100;

/// What an adopted process is to be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adoption {
    /// As for a worker that is started.
    pub name: String,
    /// As for a worker that is started.
    pub kind: Kind,
    /// As for a worker that is started; `Auto` goes by the process's working directory.
    pub worktree: WorktreeChoice,
}

/// What was found of the process that is to be adopted.
#[derive(Debug)]
pub(super) struct LookedAt {
    by: Caller,
    how: Adoption,
    found: Result<(Found, Option<Owned>), Refused>,
    reply: Reply<Spawned>,
}

#[derive(Debug)]
struct Found {
    process: ProcessRef,
    stat: Stat,
    standing: Standing,
    argv: Vec<OsString>,
    /// `None`: it may not be read.
    cwd: Option<PathBuf>,
}

impl Handle {
    /// Puts the process of a pidfd on the roll. Answers when its row is on disk.
    pub async fn adopt(
        &self,
        by: Caller,
        pidfd: OwnedFd,
        how: Adoption,
    ) -> Result<Spawned, Refused> {
        self.ask(|r| Command::Adopt(by, pidfd, how, r)).await
    }
}

impl Supervisor {
    pub(super) fn adopt(
        &mut self,
        by: Caller,
        pidfd: OwnedFd,
        how: Adoption,
        reply: Reply<Spawned>,
    ) {
        if let Err(refused) = self.allow(&by, Right::Spawn) {
            let _ = reply.send(Err(refused));
            return;
        }
        let me = self.set.me.uid;
        let looker = self.new_looker(by.groups.clone());
        self.spawn_inner(async move {
            let uid = by.uid;
            let looked = tokio::task::spawn_blocking(move || look(pidfd, uid)).await;
            let found = match looked.unwrap_or_else(|e| Err(Refused::Io(e.to_string()))) {
                Ok(found) => worktree_of(&found, &how.worktree, me, &looker)
                    .await
                    .map(|owned| (found, owned)),
                Err(refused) => Err(refused),
            };
            Inner::LookedAt(Box::new(LookedAt {
                by,
                how,
                found,
                reply,
            }))
        });
    }

    pub(super) fn adopted(&mut self, looked: LookedAt) {
        let LookedAt {
            by,
            how,
            found,
            reply,
        } = looked;
        let now = clock::now();
        let row = found.and_then(|(found, owned)| self.take_on(&by, how, found, owned, now));
        let id = match row {
            Ok(id) => id,
            Err(refused) => {
                let _ = reply.send(Err(refused));
                return;
            }
        };
        let saved = self.save(id);
        tokio::spawn(async move {
            let durable = matches!(tokio::time::timeout(SAVE_WAIT, saved).await, Ok(Ok(Ok(()))));
            let _ = reply.send(Ok(Spawned {
                id,
                unenforced: Vec::new(),
                durable,
            }));
        });
    }

    /// Admission, the row and the table.
    fn take_on(
        &mut self,
        by: &Caller,
        how: Adoption,
        found: Found,
        owned: Option<Owned>,
        now: Now,
    ) -> Result<WorkerId, Refused> {
        let pid = found.process.id().pid;
        self.may_be_adopted(pid, &found.stat)?;
        let owner = Owner {
            uid: found.standing.uids[0],
            gid: found.standing.gid,
        };
        let spec = Spec {
            argv: found.argv,
            cwd: found.cwd.unwrap_or_else(|| PathBuf::from("/")),
            name: how.name,
            kind: how.kind,
            uid: (owner.uid != by.uid).then_some(owner.uid),
            leftovers: Some(LeftoversPolicy::Wait),
            ..Spec::default()
        };
        let parent = by.pid.and_then(|pid| self.worker_of_process(pid));
        if parent.is_none() && by.pid.is_some_and(|pid| self.is_ours(pid)) {
            return Err(Refused::NotAuthorised(super::belonging::NAMELESS));
        }
        let mut row = self.take(by, parent, &spec, now)?;
        row.owner = owner;
        row.adopted = true;
        row.status = Status::Live;
        row.process = Some(found.process.id());
        row.started = Some(now.wall.plus(age_micros(&found.stat, now).saturating_neg()));
        if let Some(owned) = owned {
            row.worktree = Some(owned.path);
            row.worktree_mount = Some(owned.mount);
        }
        let id = row.id;
        let child = self.adopted_child(&row, found.process, now);
        let node = child.node;
        let watched = self.children.watch_leader(node, &child.process);
        watched.map_err(|e| Refused::Io(format!("cannot watch process {pid}: {e}")))?;
        if self.registry.insert(row, None).is_err() {
            return Err(Refused::Io(format!("the id {id} is taken; ask again")));
        }
        self.children.insert(child);
        self.timers.set(super::timers::Key::Idle, None);
        let _ = self.changes.send(Change::New(id));
        if let Some(row) = self.registry.get(id) {
            journal::worker_adopted(row);
        }
        Ok(id)
    }

    /// Nobody twice, nobody of a worker, not ourselves, nobody whom we started.
    fn may_be_adopted(&self, pid: Pid, stat: &Stat) -> Result<(), Refused> {
        if let Some(id) = self.worker_of_process(pid) {
            let itself = self.children.node_of_pid(pid).is_some();
            let below_adopted = self.registry.get(id).is_some_and(|row| row.adopted);
            if itself || !below_adopted {
                let why = format!("process {pid} is on the roll already, as one of worker {id}");
                return Err(Refused::InvalidArgs(why));
            }
        }
        let own = std::process::id();
        let ours = [own, std::os::unix::process::parent_id()].map(|pid| i32::try_from(pid).ok());
        if ours.contains(&Some(pid.get())) || i32::try_from(own).is_ok_and(|p| p == stat.ppid) {
            let why = format!("process {pid} is musterd's own; it cannot be adopted");
            return Err(Refused::InvalidArgs(why));
        }
        Ok(())
    }

    fn adopted_child(&mut self, row: &Row, process: ProcessRef, now: Now) -> Child {
        let age = row.started.map_or(0, |started| now.wall.since(started));
        let age = Duration::from_micros(u64::try_from(age).unwrap_or(0));
        let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        Child {
            node: self.children.next_node(),
            id: row.id,
            kind: row.kind.kind_type(),
            pgid: process.id().pid,
            process,
            leaf: None,
            events: None,
            tracked: Vec::new(),
            machine: Machine::new(self.plan(row), LeftoversPolicy::Wait),
            deadline: None,
            started: Mono(now.mono.0.saturating_sub(age)),
            frozen: false,
            // Nothing of it is looked for but itself.
            waiting: None,
            processes: 0,
            unenforced: Vec::new(),
            waiters: Vec::new(),
            cancels: Vec::new(),
            durable: false,
            adopted: Some(row.owner.uid),
            notify: None,
            channel: None,
            skipped: 0,
            said: false,
            says: Box::default(),
            tty: false,
            attended: 0,
            // It promised nothing: it is never stuck, and not retired for being idle.
            bucket: super::admission::Bucket::full(),
            life: Life::new(
                Promise {
                    progress: self.set.config.liveness.progress,
                    ..Promise::default()
                },
                now.mono,
            ),
            lost: None,
            attendances: Vec::new(),
        }
    }

    /// Rows of an earlier daemon whose process was found alive by its identity.
    pub(super) fn take_back(&mut self, adopted: Vec<(WorkerId, ProcessRef)>) {
        let now = clock::now();
        for (id, process) in adopted {
            let Some(row) = self.registry.get(id).cloned() else {
                continue;
            };
            let child = self.adopted_child(&row, process, now);
            let node = child.node;
            if let Err(error) = self.children.watch_leader(node, &child.process) {
                tracing::error!(%error, MUSTER_WORKER = id.as_str(), "cannot watch an adopted process");
                continue;
            }
            self.children.insert(child);
            if row.status == Status::Stopping {
                // Its owner had asked for that before.
                self.on_event(node, Event::Cancel { force: false });
            }
        }
    }

    /// Is it somebody else's process?
    pub(super) fn is_adopted(&self, node: NodeId) -> bool {
        let child = self.children.get(node);
        child.is_some_and(|child| child.adopted.is_some())
    }

    /// Takes a living adopted process off the roll; nothing is sent to it.
    pub(super) fn let_go(
        &mut self,
        id: WorkerId,
        node: NodeId,
        force: bool,
    ) -> Result<(), Refused> {
        let row = self.registry.get(id);
        let row = row.ok_or_else(|| Refused::NoSuchWorker(id.to_string()))?;
        let why = if row.status == Status::Stopping {
            "its end was asked for"
        } else if row.kind.reservation().is_some() {
            "its end releases a reservation; cancel it, or wait for its end"
        } else if !force {
            "it was adopted and runs; with --force its row goes and it is left alone"
        } else {
            ""
        };
        if !why.is_empty() {
            return Err(Refused::WrongState {
                id,
                status: row.status,
                why: why.to_owned(),
            });
        }
        for waiter in self.forget_child(node) {
            let _ = waiter.send(Err(Refused::NoSuchWorker(id.to_string())));
        }
        drop(self.take_off(id, "forgotten"));
        self.look_for_idleness(clock::now());
        Ok(())
    }

    /// The pidfd of an adopted process is readable.
    pub(super) fn adopted_ready(&mut self, node: NodeId) {
        if self
            .children
            .get(node)
            .is_some_and(|child| child.process.has_exited())
        {
            self.children.leader_seen(node);
            self.on_event(node, Event::LeaderGone);
        }
    }
}

/// Blocking: the command line of a process in trouble can take its time.
fn look(pidfd: OwnedFd, by: u32) -> Result<Found, Refused> {
    let process = ProcessRef::adopt(pidfd).map_err(|error| match error {
        OpenError::Gone(_) => Refused::InvalidArgs("the process has ended".to_owned()),
        OpenError::Unknown(why) => Refused::InvalidArgs(why),
    })?;
    let pid = process.id().pid;
    let unread = |e: std::io::Error| Refused::Io(format!("cannot read /proc/{pid}: {e}"));
    let standing = standing(pid).map_err(unread)?;
    let stat = stat(pid).map_err(unread)?;
    let mut argv = command_line(pid, ARGV_MAX).unwrap_or_default();
    let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
    // All of it was read of this process only if it still runs.
    if process.has_exited() || stat.start_ticks != process.id().start_ticks {
        return Err(Refused::InvalidArgs("the process has ended".to_owned()));
    }
    if standing.kernel {
        let why = format!("process {pid} is a thread of the kernel; it cannot be adopted");
        return Err(Refused::InvalidArgs(why));
    }
    if standing.leader != pid.get() {
        let why = format!(
            "{pid} is a thread, not a process; adopt {}",
            standing.leader
        );
        return Err(Refused::InvalidArgs(why));
    }
    if by != 0 && standing.uids.iter().any(|uid| *uid != by) {
        return Err(Refused::NotAuthorised(
            "only one's own processes can be adopted; root can adopt any",
        ));
    }
    if argv.first().is_none_or(|program| program.is_empty()) {
        argv = vec![OsString::from_vec(stat.comm.clone().into_bytes())];
    }
    Ok(Found {
        process,
        stat,
        standing,
        argv,
        cwd,
    })
}

/// Which worktree the row owns; looked for with the rights of whom it belongs to.
async fn worktree_of(
    found: &Found,
    choice: &WorktreeChoice,
    me: u32,
    looker: &Looker,
) -> Result<Option<Owned>, Refused> {
    if *choice == WorktreeChoice::None {
        return Ok(None);
    }
    let pid = found.process.id().pid;
    let cwd = PathBuf::from(format!("/proc/{pid}/cwd"));
    let owner = Owner {
        uid: found.standing.uids[0],
        gid: found.standing.gid,
    };
    let looked = if owner.uid == me {
        let choice = choice.clone();
        let look = move || owned_worktree(&choice, &cwd);
        let looked = tokio::task::spawn_blocking(look).await;
        looked.unwrap_or_else(|e| Err(e.to_string()))
    } else {
        looker.owned_worktree(owner, choice, &cwd).await
    };
    looked.map_err(|why| {
        let which = match choice {
            WorktreeChoice::Path(path) => path.as_path(),
            _ => Path::new("its working directory"),
        };
        let which = which.display();
        Refused::InvalidArgs(format!(
            "cannot tell which worktree process {pid} works in ({which}: {why}); name one or none"
        ))
    })
}

/// How long ago the process began.
fn age_micros(stat: &Stat, now: Now) -> i64 {
    let began = stat.start_ticks.saturating_mul(1_000_000 / TICKS);
    let age = (now.boot.0 / 1000).saturating_sub(began);
    i64::try_from(age).unwrap_or(0)
}
