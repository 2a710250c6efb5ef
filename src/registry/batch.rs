//! What the store thread still has to do, and how it does it: group commit.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use tokio::sync::oneshot;

use super::disk::{Before, Disk};
use super::spares::Spares;
use super::store::{ClockMark, Store, file_name};
use super::writer::Job;
use crate::worker::WorkerId;

/// Where the answer to a job goes.
pub(super) type Waiter = oneshot::Sender<io::Result<()>>;

/// A failed system call, with what it was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    errno: Option<i32>,
    what: String,
}

impl Fault {
    fn new(what: String, error: &io::Error) -> Self {
        Self {
            errno: error.raw_os_error(),
            what: format!("{what}: {error}"),
        }
    }

    /// With errno where there is one, so that the caller can tell a full disk.
    pub(super) fn error(&self) -> io::Error {
        match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::other(self.what.clone()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Files of one batch: each is an open descriptor until it is synced.
const AT_ONCE: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    Reap,
    Restore,
}

#[derive(Debug)]
enum Step {
    Write(String, Vec<Waiter>),
    Move(Move, Waiter),
}

/// Syncs of one batch that run at the same time.
const SYNCS: usize = 8;

/// Each sync waits for a commit of the file system's journal and for a flush of the disk's
/// cache. Those of several threads are merged by the kernel, those of one are not.
fn sync_all(files: &[BorrowedFd<'_>], disk: &dyn Disk) -> Vec<io::Result<()>> {
    let sync = |part: &[BorrowedFd<'_>]| part.iter().map(|f| disk.sync(*f)).collect::<Vec<_>>();
    if files.len() < 4 {
        return sync(files);
    }
    let (own, others) = files.split_at(files.len().div_ceil(SYNCS));
    std::thread::scope(|scope| {
        let threads: Vec<_> = others
            .chunks(own.len())
            .map(|part| {
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || sync(part));
                (part, thread)
            })
            .collect();
        let mut results = sync(own);
        for (part, thread) in threads {
            // Without a thread, or with one that ended early, this one does the part.
            let done = thread.ok().and_then(|thread| thread.join().ok());
            results.extend(done.unwrap_or_else(|| sync(part)));
        }
        results
    })
}

/// Waiting steps, in order for each id.
#[derive(Debug, Default)]
pub(super) struct Batch {
    rows: BTreeMap<WorkerId, VecDeque<Step>>,
    clock: Option<(ClockMark, Vec<Waiter>)>,
    spares: Spares,
}

fn answer(waiters: impl IntoIterator<Item = Waiter>, result: Result<(), &Fault>) {
    for waiter in waiters {
        let _ = waiter.send(result.map_err(Fault::error));
    }
}

impl Batch {
    /// Queues a job. A write right behind another of the same id replaces its text and takes its
    /// waiters over: the newer text is as good an answer to them.
    pub(super) fn add(&mut self, job: Job, waiter: Waiter) {
        match job {
            Job::Write { id, text } => {
                let steps = self.rows.entry(id).or_default();
                if let Some(Step::Write(old, waiters)) = steps.back_mut() {
                    *old = text;
                    waiters.push(waiter);
                } else {
                    steps.push_back(Step::Write(text, vec![waiter]));
                }
            }
            Job::Reap(id) => self.add_move(id, Move::Reap, waiter),
            Job::Restore(id) => self.add_move(id, Move::Restore, waiter),
            Job::Clock(mark) => {
                let mut waiters = self.clock.take().map(|(_, w)| w).unwrap_or_default();
                waiters.push(waiter);
                self.clock = Some((mark, waiters));
            }
        }
    }

    fn add_move(&mut self, id: WorkerId, what: Move, waiter: Waiter) {
        self.rows
            .entry(id)
            .or_default()
            .push_back(Step::Move(what, waiter));
    }

    /// Carries out all steps. What is still to be written after a fault stays; the first fault
    /// is answered. `told` hears of a fault before the waiters do, so that whoever is refused
    /// sees the reason.
    pub(super) fn carry_out(
        &mut self,
        store: &Store,
        disk: &dyn Disk,
        told: &dyn Fn(&Fault),
    ) -> Result<(), Fault> {
        let mut worst = None;
        while !self.rows.is_empty() {
            let wrote = self.write_fronts(store, disk, told);
            let failed = wrote.is_err();
            worst = worst.or(wrote.err());
            self.fail_behind_writes(worst.as_ref());
            self.move_fronts(store, disk);
            self.rows.retain(|_, steps| !steps.is_empty());
            if failed {
                break;
            }
        }
        if let Some((mark, waiters)) = self.clock.take() {
            match store.put_clock(disk, mark) {
                Ok(()) => answer(waiters, Ok(())),
                Err(error) => {
                    let path = store.path().join("clock.toml");
                    let fault = Fault::new(format!("cannot write {}", path.display()), &error);
                    told(&fault);
                    answer(waiters, Err(&fault));
                    self.clock = Some((mark, Vec::new()));
                    worst = worst.or(Some(fault));
                }
            }
        }
        worst.map_or(Ok(()), Err)
    }

    /// Writes every id whose next step is a write, some at a time.
    fn write_fronts(
        &mut self,
        store: &Store,
        disk: &dyn Disk,
        told: &dyn Fn(&Fault),
    ) -> Result<(), Fault> {
        let ids: Vec<WorkerId> = self
            .rows
            .iter()
            .filter(|(_, steps)| matches!(steps.front(), Some(Step::Write(..))))
            .map(|(id, _)| *id)
            .collect();
        let mut first = Ok(());
        for ids in ids.chunks(AT_ONCE) {
            // One that fails keeps nobody else's row from the disk.
            let results = self.write_some(ids, store, disk);
            if let Some(fault) = results.values().find_map(|r| r.as_ref().err()) {
                told(fault);
            }
            first = first.and(self.settle_writes(results));
        }
        first
    }

    /// All files, then all syncs, all renames, and one sync of the directory.
    fn write_some(
        &mut self,
        ids: &[WorkerId],
        store: &Store,
        disk: &dyn Disk,
    ) -> BTreeMap<WorkerId, Result<(), Fault>> {
        let rows = store.rows.as_fd();
        let fault = |id: WorkerId, error: &io::Error| {
            let path = store.path().join("rows").join(file_name(id));
            Fault::new(format!("cannot write {}", path.display()), error)
        };
        let mut results: BTreeMap<WorkerId, Result<(), Fault>> = BTreeMap::new();
        let mut files = Vec::new();
        for id in ids {
            let Some(Step::Write(text, _)) = self.rows.get(id).and_then(VecDeque::front) else {
                continue;
            };
            let name = file_name(*id);
            match self.spares.file(disk, rows, &name, text.as_bytes()) {
                Ok((temporary, file)) => files.push((*id, name, temporary, file)),
                Err(error) => {
                    results.insert(*id, Err(fault(*id, &error)));
                }
            }
        }
        let (mut renamed, mut before) = (Vec::new(), Vec::new());
        let fds: Vec<_> = files.iter().map(|(_, _, _, file)| file.as_fd()).collect();
        let synced = sync_all(&fds, disk);
        for ((id, name, temporary, _), synced) in files.into_iter().zip(synced) {
            match synced.and_then(|()| disk.replace(rows, &temporary, &name)) {
                Ok(Before::Kept) => before.push(temporary),
                Ok(Before::Gone) => {}
                Err(error) => {
                    disk.unlink(rows, &temporary);
                    results.insert(id, Err(fault(id, &error)));
                    continue;
                }
            }
            renamed.push(id);
        }
        if !renamed.is_empty() {
            let synced = disk.sync(rows);
            for name in before {
                match &synced {
                    Ok(()) => self.spares.keep(disk, rows, name),
                    // A crash may make it the row again.
                    Err(_) => disk.unlink(rows, &name),
                }
            }
            for id in renamed {
                let result = synced.as_ref().map(|_| ()).map_err(|e| fault(id, e));
                results.insert(id, result);
            }
        }
        results
    }

    /// Are there files of older versions in `rows/`?
    pub(super) fn keeps_spares(&self) -> bool {
        !self.spares.is_empty()
    }

    /// Removes them.
    pub(super) fn drop_spares(&mut self, store: &Store, disk: &dyn Disk) {
        self.spares.clear(disk, store.rows.as_fd());
    }

    /// Answers the waiters. Writes that failed stay at the front, without waiters.
    fn settle_writes(
        &mut self,
        results: BTreeMap<WorkerId, Result<(), Fault>>,
    ) -> Result<(), Fault> {
        let mut first = Ok(());
        for (id, result) in results {
            let Some(steps) = self.rows.get_mut(&id) else {
                continue;
            };
            let Some(Step::Write(text, waiters)) = steps.pop_front() else {
                continue;
            };
            answer(waiters, result.as_ref().map(|_| ()));
            if result.is_err() {
                steps.push_front(Step::Write(text, Vec::new()));
                first = first.and(result);
            }
        }
        first
    }

    /// A move waits for no retry: behind a failed write it fails too, and the writes around it
    /// become one.
    fn fail_behind_writes(&mut self, fault: Option<&Fault>) {
        let Some(fault) = fault else { return };
        for steps in self.rows.values_mut() {
            if !matches!(steps.front(), Some(Step::Write(..))) || steps.len() == 1 {
                continue;
            }
            let mut newest = None;
            for step in steps.drain(..) {
                match step {
                    Step::Write(text, waiters) => {
                        answer(waiters, Err(fault));
                        newest = Some(text);
                    }
                    Step::Move(_, waiter) => answer([waiter], Err(fault)),
                }
            }
            steps.extend(newest.map(|text| Step::Write(text, Vec::new())));
        }
    }

    /// Renames every id whose next step is a move, then syncs both directories once.
    fn move_fronts(&mut self, store: &Store, disk: &dyn Disk) {
        let (rows, reaped) = (store.rows.as_fd(), store.reaped.as_fd());
        let fault = |id: WorkerId, error: &io::Error| {
            let what = format!(
                "cannot move {} below {}",
                file_name(id),
                store.path().display()
            );
            Fault::new(what, error)
        };
        let mut moved = Vec::new();
        for (id, steps) in &mut self.rows {
            if !matches!(steps.front(), Some(Step::Move(..))) {
                continue;
            }
            let Some(Step::Move(what, waiter)) = steps.pop_front() else {
                continue;
            };
            let name = file_name(*id);
            let done = match what {
                Move::Reap => disk.reap(rows, reaped, &name),
                Move::Restore => disk.restore(reaped, rows, &name),
            };
            match done {
                Ok(()) => moved.push((*id, waiter)),
                Err(error) => answer([waiter], Err(&fault(*id, &error))),
            }
        }
        if moved.is_empty() {
            return;
        }
        let synced = disk.sync(reaped).and_then(|()| disk.sync(rows));
        for (id, waiter) in moved {
            let result = synced.as_ref().map(|_| ()).map_err(|e| fault(id, e));
            answer([waiter], result.as_ref().map(|_| ()));
        }
    }
}
