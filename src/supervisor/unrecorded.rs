//! Workers that a killed daemon had started before their row reached the disk: no row claims
//! them, but what they left carries their mark and lives. Blocking; runs before the service
//! serves.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::sys::process::{ProcessRef, Stat, boot_id, environ_value, scan};
use crate::worker::{ProcessId, WorkerId};

/// SIGKILL for every process that carries the mark of a worker which is not `known` and was
/// started with a directory below ours, which no other instance hands out. Answers what was
/// ended, each a sentence.
pub fn end_unrecorded(
    known: impl Fn(WorkerId) -> bool,
    runtime_dir: &Path,
) -> std::io::Result<Vec<String>> {
    let boot_id = boot_id()?;
    let mut ended = Vec::new();
    for stat in scan()?.iter().filter(|stat| !stat.has_ended()) {
        let Some(id) = mark(stat, runtime_dir).filter(|id| !known(*id)) else {
            continue;
        };
        let process = ProcessRef::open(&ProcessId {
            pid: stat.pid,
            start_ticks: stat.start_ticks,
            boot_id,
        });
        if let Ok(process) = process {
            process.signal(libc::SIGKILL)?;
            ended.push(format!(
                "ended process {} ({}) of worker {id}, which was lost before its row was written",
                stat.pid, stat.comm
            ));
        }
    }
    Ok(ended)
}

fn mark(stat: &Stat, runtime_dir: &Path) -> Option<WorkerId> {
    let id = environ_value(stat.pid, "MUSTER_WORKER")?;
    let id: WorkerId = std::str::from_utf8(&id).ok()?.parse().ok()?;
    let dir = environ_value(stat.pid, "MUSTER_RUNTIME_DIR")?;
    let ours = runtime_dir.join("w").join(id.as_str());
    (dir == ours.as_os_str().as_bytes()).then_some(id)
}
