//! Output files kept to their cap: the oldest part is punched out while the worker writes on.
//! The daemon is never in the data path; a file may overshoot by what is written in one pause.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ftruncate, open};

use super::timers::Key;
use super::{Inner, Supervisor};
use crate::config::OutputTarget;
use crate::sys::clock;
use crate::worker::{NodeId, Now, WorkerId};

/// Between two looks while a worker writes to a file: the overshoot is what it writes in this.
const PAUSE: Duration = Duration::from_secs(1);

/// Hole punching works on whole blocks; 64 KiB is a multiple of every file system's.
const BLOCK: u64 = 64 * 1024;

/// Where workers' output goes: `Some` is journald's socket. By itself only where the daemon's
/// own log goes there too, so that a person finds both in one place.
pub fn journal_for(target: OutputTarget, own_log_is_there: bool) -> Option<PathBuf> {
    let wanted = match target {
        OutputTarget::Journal => true,
        OutputTarget::Auto => own_log_is_there,
        OutputTarget::File => false,
    };
    wanted.then(|| crate::places::journal_stdout(&crate::places::Real))
}

impl Supervisor {
    /// May one more worker write to the journal? journald breaks streams past its limit.
    pub(super) fn journal_has_room(&mut self) -> bool {
        let max = self.set.config.workers.journal_streams as usize;
        if self.children.len() + self.starting.len() < max {
            return true;
        }
        let (children, registry) = (&self.children, &self.registry);
        // Counted once, since a reload hands over children and no streams; then kept.
        let streams = self.journal_streams.get_or_insert_with(|| {
            let journal = |id| registry.get(id).is_some_and(|row| row.journal);
            let those = children.iter().filter(|child| journal(child.id));
            those.map(|child| child.node).collect()
        });
        streams.len() + self.starting.len() < max
    }

    /// A worker has ended, and its stream with it.
    pub(super) fn journal_stream_ended(&mut self, node: NodeId) {
        if let Some(streams) = &mut self.journal_streams {
            streams.remove(&node);
        }
    }

    /// Sets the next look; it is the last one if no living worker writes to a file then.
    pub(super) fn schedule_output(&mut self, now: Now) {
        self.timers.at_latest(Key::Output, now.mono.plus(PAUSE));
    }

    fn output_of(&self, id: WorkerId) -> Option<PathBuf> {
        self.registry.get(id)?.output.clone()
    }

    pub(super) fn cut_output(&mut self) {
        let files: Vec<(WorkerId, PathBuf)> = self
            .children
            .iter()
            .filter_map(|child| Some((child.id, self.output_of(child.id)?)))
            .collect();
        if files.is_empty() {
            return;
        }
        let max = self.set.config.workers.output_max.0;
        self.spawn_inner(async move {
            let cut = tokio::task::spawn_blocking(move || {
                files
                    .into_iter()
                    .filter_map(|(id, path)| match cut(&path, max) {
                        Ok(0) => None,
                        Ok(dropped) => Some((id, dropped)),
                        Err(error) => {
                            tracing::warn!(%error, path = %path.display(), "cannot cut output");
                            None
                        }
                    })
                    .collect()
            });
            Inner::OutputCut(cut.await.unwrap_or_default())
        });
    }

    pub(super) fn output_cut(&mut self, cut: Vec<(WorkerId, u64)>) {
        let now = clock::now();
        for (id, dropped) in cut {
            let _ = self.registry.update(id, |row| row.output_dropped = dropped);
            self.save_lazily(id, now);
        }
        self.schedule_output(now);
    }
}

/// Punches out what is older than the newest `max` bytes; answers how many bytes are gone from
/// the file's beginning, 0 if nothing was cut now.
fn cut(path: &Path, max: u64) -> std::io::Result<u64> {
    let meta = std::fs::symlink_metadata(path)?;
    let (size, used) = (meta.len(), meta.blocks() * 512);
    if used <= max || size <= max {
        return Ok(0);
    }
    let file = open(
        path,
        OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )?;
    let end = (size - max) / BLOCK * BLOCK;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(&file, flags, 0, end) {
        Ok(()) => Ok(end),
        // No holes on this file system: the writers append, so they go on at the new end.
        Err(rustix::io::Errno::OPNOTSUPP) => {
            ftruncate(&file, 0)?;
            Ok(size)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_newest_part_stays_and_the_rest_no_longer_takes_space() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.log");
        let mut file = std::fs::File::create(&path).unwrap();
        let line = [b'x'; 1023];
        for n in 0..4096_u32 {
            file.write_all(&line).unwrap();
            file.write_all(&[u8::try_from(n % 251).unwrap()]).unwrap();
        }
        file.sync_all().unwrap();
        let dropped = cut(&path, 1024 * 1024).unwrap();
        assert_eq!(dropped, 3 * 1024 * 1024);
        file.sync_all().unwrap();
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!(
            meta.len(),
            4 * 1024 * 1024,
            "the writer's place does not move"
        );
        assert!(meta.blocks() * 512 <= 1024 * 1024 + BLOCK);
        assert_eq!(cut(&path, 1024 * 1024).unwrap(), 0, "nothing is cut twice");
    }
}
