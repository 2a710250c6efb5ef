//! The cgroup2 hierarchy (Documentation/admin-guide/cgroup-v2.rst): where it is mounted, which
//! part of it is ours ([`Tree`]) and one worker's own group ([`Leaf`]). No path is assumed: a
//! host may mount cgroup2 anywhere, more than once, or only a part of it.

mod leaf;
mod mount;
#[cfg(test)]
mod tests;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

#[cfg(test)]
pub(super) use tests::place as test_place;

pub use leaf::{Leaf, Removed, read_populated};
pub(super) use tree::workers_of;
pub use tree::{Choice, Tree, Weaker};

use crate::worker::Pid;

/// The cgroup of a process as the kernel names it (the `0::` line of `/proc/PID/cgroup`), to be
/// compared with [`Leaf::rel`]. `NotFound` if the process is gone or no cgroup2 is in use.
pub fn of_process(pid: Pid) -> io::Result<PathBuf> {
    mount::parse_own(&std::fs::read(format!("/proc/{pid}/cgroup"))?)
}

/// The directory of a cgroup that [`Leaf::rel`] named. `NotFound` where no mount shows it.
pub fn absolute(cgroup: &Path) -> io::Result<PathBuf> {
    mount::directory_of(cgroup)
}

/// Has a cgroup that [`Leaf::rel`] named processes in it? `None` if there is no such cgroup.
pub fn populated(cgroup: &Path) -> io::Result<Option<bool>> {
    match absolute(cgroup)
        .and_then(Leaf::open)
        .and_then(|leaf| leaf.populated())
    {
        Ok(populated) => Ok(Some(populated)),
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Trees of earlier runs under `parent` (the directory that [`Tree::parent`] tells), by their
/// prefix of the run name. Empty ones can be removed with [`remove`]; what still runs in others
/// ends with [`kill`].
pub fn leftovers_of_old_runs(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let wanted = tree::embedded_name(prefix);
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&wanted))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// Ends every process in a directory of the hierarchy and below it.
pub fn kill(directory: &Path) -> io::Result<()> {
    leaf::kill(directory)
}

/// Removes a directory of the hierarchy with all below it, if no process is left in it.
pub fn remove(directory: &Path) -> io::Result<Removed> {
    leaf::remove(directory)
}

/// One write(2), as cgroup files want it.
fn write(directory: &Path, file: &str, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::File::options()
        .write(true)
        .open(directory.join(file))?;
    file.write_all(text.as_bytes())
}

fn read(directory: &Path, file: &str) -> io::Result<String> {
    std::fs::read_to_string(directory.join(file))
}

/// A value of a file of `key value` lines.
fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

/// The directory is gone, or is just being removed.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}
