//! One worker's cgroup: its processes whatever they do to escape, their end, their cost.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::{is_gone, mount, of_process, read, value, write};
use crate::sys::process::{ProcessRef, stat};
use crate::worker::{Limits, Pid};

/// Directories that one removal looks at, at most.
const REMOVE_MAX: usize = 10_000;
/// How deep it goes.
const DEPTH_MAX: usize = 64;
/// Rounds of killing one by one where the kernel has no `cgroup.kill`.
const KILL_ROUNDS: usize = 100;

/// A cgroup by its directory. Holds nothing open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    path: PathBuf,
}

/// What a removal came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It is away.
    Done,
    /// Something is still in it. Also for an instant after the last process was waited for:
    /// ask again.
    Busy,
    /// It was away already.
    Gone,
}

impl Leaf {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// An existing leaf, by its absolute path.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        if !path.is_absolute() || !mount::is_cgroup2(&path) {
            let what = format!("{} is not in a cgroup2 hierarchy", path.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        Ok(Self { path })
    }

    /// Makes a leaf at this path. One that is there already is an error.
    pub fn create(path: &Path) -> io::Result<Self> {
        std::fs::create_dir(path)?;
        Ok(Self::at(path.to_owned()))
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name to the kernel, as [`of_process`] gives it.
    pub fn rel(&self) -> PathBuf {
        mount::cgroup_of(&self.path).unwrap_or_else(|| self.path.clone())
    }

    /// Is a process in it or below? A zombie does not count. A leaf that is gone has none.
    pub fn populated(&self) -> io::Result<bool> {
        match read(&self.path, "cgroup.events") {
            Ok(text) => Ok(value(&text, "populated") == Some(1)),
            Err(e) if is_gone(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// `cgroup.events`, to be polled for `POLLPRI`. Read it with [`read_populated`] after each
    /// event, or it stays ready; it is ready at once after being opened.
    pub fn events(&self) -> io::Result<OwnedFd> {
        Ok(File::open(self.path.join("cgroup.events"))?.into())
    }

    /// SIGKILL to all in it and below, forks under way included. Frozen ones die too.
    pub fn kill(&self) -> io::Result<()> {
        kill(&self.path)
    }

    /// Freezes or thaws it. It is frozen when [`Leaf::is_frozen`] says so, not before.
    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        write(&self.path, "cgroup.freeze", if frozen { "1" } else { "0" })
    }

    /// Are all in it frozen now?
    pub fn is_frozen(&self) -> io::Result<bool> {
        Ok(value(&read(&self.path, "cgroup.events")?, "frozen") == Some(1))
    }

    /// Who is in it and below. Those of other pid namespaces are not seen.
    pub fn pids(&self) -> io::Result<Vec<Pid>> {
        let mut pids = Vec::new();
        let mut budget = REMOVE_MAX;
        collect_pids(&self.path, DEPTH_MAX, &mut budget, &mut pids)?;
        Ok(pids)
    }

    /// OOM kills in it and below since it was made; 0 without the memory controller.
    pub fn oom_kills(&self) -> u64 {
        self.number_in("memory.events", "oom_kill").unwrap_or(0)
    }

    /// CPU time used, microseconds.
    pub fn cpu_usec(&self) -> Option<u64> {
        self.number_in("cpu.stat", "usage_usec")
    }

    /// Memory in use, bytes.
    pub fn memory_current(&self) -> Option<u64> {
        self.number("memory.current")
    }

    /// Most memory ever in use, bytes.
    pub fn memory_peak(&self) -> Option<u64> {
        self.number("memory.peak")
    }

    /// Processes and threads in it; without the pids controller, processes.
    pub fn tasks(&self) -> Option<u64> {
        self.number("pids.current")
            .or_else(|| u64::try_from(self.pids().ok()?.len()).ok())
    }

    /// Sets the limits that are cgroup limits. Returns the names of those that could not be set,
    /// for lack of the controller or because the kernel refused the value.
    pub fn set_limits(&self, limits: &Limits) -> Vec<String> {
        let cpu_max = |percent: u32| format!("{} 100000", u64::from(percent) * 1000);
        let wanted = [
            (
                "memory-max",
                "memory.max",
                limits.memory_max.map(|bytes| bytes.to_string()),
            ),
            (
                "tasks-max",
                "pids.max",
                limits.tasks_max.map(|count| count.to_string()),
            ),
            (
                "cpu-weight",
                "cpu.weight",
                limits.cpu_weight.map(|weight| weight.to_string()),
            ),
            (
                "cpu-max-percent",
                "cpu.max",
                limits.cpu_max_percent.map(cpu_max),
            ),
        ];
        let refused = wanted.into_iter().filter_map(|(name, file, text)| {
            let text = text?;
            write(&self.path, file, &text)
                .err()
                .map(|_| name.to_owned())
        });
        let refused = refused.collect();
        if limits.memory_max.is_some() {
            // One worker, one fate: half of an agent is worth nothing. An older kernel kills one.
            let _ = write(&self.path, "memory.oom.group", "1");
        }
        refused
    }

    /// Removes it, and the empty groups that the worker made in it.
    pub fn remove(&self) -> io::Result<Removed> {
        remove(&self.path)
    }

    fn number(&self, file: &str) -> Option<u64> {
        read(&self.path, file).ok()?.trim().parse().ok()
    }

    fn number_in(&self, file: &str, key: &str) -> Option<u64> {
        value(&read(&self.path, file).ok()?, key)
    }
}

/// Is a process in the leaf whose `cgroup.events` this is? Clears the event. A removed leaf has
/// none.
pub fn read_populated(events: BorrowedFd<'_>) -> io::Result<bool> {
    let mut text = [0_u8; 128];
    match rustix::io::pread(events, &mut text, 0) {
        Ok(length) => {
            let text = std::str::from_utf8(text.get(..length).unwrap_or_default());
            Ok(text.is_ok_and(|text| value(text, "populated") == Some(1)))
        }
        Err(rustix::io::Errno::NODEV) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

pub(super) fn kill(directory: &Path) -> io::Result<()> {
    match write(directory, "cgroup.kill", "1") {
        Ok(()) => kill_headless(directory),
        // Linux 5.14 brought the file; before it, one by one.
        Err(e) if e.kind() == io::ErrorKind::NotFound => match kill_one_by_one(directory) {
            Err(e) if is_gone(&e) => Ok(()),
            other => other,
        },
        Err(e) if is_gone(&e) => Ok(()),
        other => other,
    }
}

/// `cgroup.kill` sends its signal to main threads, and one that has ended takes none for the
/// rest of its process. Those processes get theirs by pidfd.
fn kill_headless(directory: &Path) -> io::Result<()> {
    let leaf = Leaf::at(directory.to_owned());
    let name = leaf.rel();
    for pid in leaf.pids()? {
        if stat(pid).is_ok_and(|stat| stat.is_headless()) {
            kill_member(pid, &name)?;
        }
    }
    Ok(())
}

/// SIGKILL to a process if it is in this cgroup or below; answers whether it was.
fn kill_member(pid: Pid, name: &Path) -> io::Result<bool> {
    let Ok(process) = ProcessRef::of_pid(pid) else {
        return Ok(false);
    };
    // Looked up after the pidfd was opened, so the pid is still that of a member.
    let member = of_process(pid).is_ok_and(|group| group.starts_with(name));
    if member {
        process.signal(libc::SIGKILL)?;
    }
    Ok(member)
}

/// Frozen first, so that it cannot fork away; then what is killed dies although it is frozen.
fn kill_one_by_one(directory: &Path) -> io::Result<()> {
    let leaf = Leaf::at(directory.to_owned());
    // Not there before Linux 5.2: then the rounds must do.
    let _ = leaf.freeze(true);
    let name = leaf.rel();
    for _ in 0..KILL_ROUNDS {
        let mut left = false;
        for pid in leaf.pids()? {
            left |= kill_member(pid, &name)?;
        }
        if !left {
            break;
        }
    }
    let _ = leaf.freeze(false);
    Ok(())
}

fn collect_pids(
    directory: &Path,
    depth: usize,
    budget: &mut usize,
    pids: &mut Vec<Pid>,
) -> io::Result<()> {
    let text = match read(directory, "cgroup.procs") {
        Ok(text) => text,
        Err(e) if is_gone(&e) => return Ok(()),
        // A threaded group: its processes are listed by its domain.
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => String::new(),
        Err(e) => return Err(e),
    };
    pids.extend(
        text.lines()
            .filter_map(|pid| Pid::new(pid.parse().ok()?).ok()),
    );
    if depth > 0 {
        for child in children(directory, budget)? {
            collect_pids(&child, depth - 1, budget, pids)?;
        }
    }
    Ok(())
}

/// Groups below a directory; symlinks are not followed. Stops at the budget.
fn children(directory: &Path, budget: &mut usize) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if is_gone(&e) => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        if *budget == 0 {
            break;
        }
        *budget -= 1;
        found.push(entry.path());
    }
    Ok(found)
}

pub(super) fn remove(directory: &Path) -> io::Result<Removed> {
    let mut budget = REMOVE_MAX;
    remove_below(directory, DEPTH_MAX, &mut budget)
}

fn remove_below(directory: &Path, depth: usize, budget: &mut usize) -> io::Result<Removed> {
    match rmdir(directory)? {
        Removed::Busy if depth > 0 => {}
        other => return Ok(other),
    }
    // EBUSY is said for groups below as well as for processes.
    let groups = children(directory, budget)?;
    if groups.is_empty() {
        return Ok(Removed::Busy);
    }
    for group in groups {
        remove_below(&group, depth - 1, budget)?;
    }
    rmdir(directory)
}

fn rmdir(directory: &Path) -> io::Result<Removed> {
    match std::fs::remove_dir(directory) {
        Ok(()) => Ok(Removed::Done),
        Err(e) if is_gone(&e) => Ok(Removed::Gone),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::ENOTEMPTY)) => {
            Ok(Removed::Busy)
        }
        Err(e) => Err(e),
    }
}
