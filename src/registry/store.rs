//! The state directory: rows, reaped rows, quarantine. Directory I/O only; no policy.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::record::{Loaded, RecordError};
use crate::worker::{BootId, Timestamp, WorkerId};

/// The state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A system call failed.
    #[error("cannot {verb} {path}: {source}", path = .path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Somebody else could change it.
    #[error("{path} is not safe: {why}", path = .path.display())]
    Unsafe {
        /// Which directory.
        path: PathBuf,
        /// What is wrong, and what is right.
        why: String,
    },
    /// A reaped file is not a row.
    #[error("{path}: {source}", path = .path.display())]
    Record {
        /// Which.
        path: PathBuf,
        /// Why.
        source: RecordError,
    },
}

/// A file that was moved aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name in `quarantine/`.
    pub name: String,
    /// Why it is there.
    pub why: String,
}

/// Everything `rows/` held.
#[derive(Debug, Default)]
pub struct Load {
    /// Sorted by id.
    pub rows: Vec<Loaded>,
    /// Files moved aside by this load.
    pub quarantined: Vec<Quarantined>,
    /// What was left alone or could not be done, each a sentence.
    pub warnings: Vec<String>,
}

/// The wall clock against the boot-time clock when it was last written down: a difference at the
/// next start of the same boot is a jump of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockMark {
    /// The boot it belongs to.
    pub boot_id: BootId,
    /// Wall clock minus boot-time clock, microseconds.
    pub wall_minus_boot_usec: i64,
}

/// The open state directory.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
}

impl Store {
    /// Opens it, making what is missing. The caller holds the directory's lock.
    pub fn open(state_dir: &Path) -> Result<Store, StoreError> {
        let _ = state_dir;
        todo!()
    }

    /// The state directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every row. Unparsable files are moved to `quarantine/`; strangers are left alone.
    pub fn load(&self) -> Result<Load, StoreError> {
        todo!()
    }

    /// Names of the files in `quarantine/`, sorted.
    pub fn quarantined(&self) -> Result<Vec<String>, StoreError> {
        todo!()
    }

    /// Ids of reaped rows, sorted.
    pub fn list_reaped(&self) -> Result<Vec<WorkerId>, StoreError> {
        todo!()
    }

    /// One reaped row, `None` if there is none.
    pub fn load_reaped(&self, id: WorkerId) -> Result<Option<Loaded>, StoreError> {
        let _ = id;
        todo!()
    }

    /// Deletes reaped rows that were reaped more than `retention` ago; answers their ids.
    pub fn purge_reaped(
        &self,
        retention: Duration,
        now: Timestamp,
    ) -> Result<Vec<WorkerId>, StoreError> {
        let _ = (retention, now);
        todo!()
    }

    /// The last mark, `None` if there is none or it cannot be understood.
    pub fn read_clock(&self) -> Option<ClockMark> {
        todo!()
    }

    /// Writes a mark, durably.
    pub fn write_clock(&self, mark: ClockMark) -> Result<(), StoreError> {
        let _ = mark;
        todo!()
    }
}
