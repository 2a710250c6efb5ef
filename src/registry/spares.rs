//! Files that held older versions of rows, kept for a moment to be written over.
//!
//! A row is replaced by an exchange of names (renameat2(2), `RENAME_EXCHANGE`): its old version
//! then stands under the temporary name, and the next row is written into it. No inode and no
//! block is made or freed for it, which is most of what a durable write costs on ext4.
//!
//! What makes it safe: a file comes here only when the exchange is on disk, so that no crash can
//! bring it back as a row; [`Disk::reuse`] refuses one that has a second name or that anybody has
//! open; the files go when nothing was written for [`KEPT_FOR`], and with the temporaries of a
//! crash when the directory is opened.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use super::disk::Disk;
use super::store::{file_name, temporary_name};
use crate::worker::WorkerId;

/// So long after the last write they are removed: they hold text of rows that may be gone.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(5);

/// No more are kept. A row that changes gives back what it takes.
const MOST: usize = 128;

/// Temporary names in `rows/` that files stand under which may be written over.
#[derive(Debug, Default)]
pub(super) struct Spares {
    names: Vec<String>,
    /// Counts up. Named after its row, a file that another row is being written into would have the
    /// name that a new file of this row is to get.
    made: u64,
}

impl Spares {
    /// A file for this text of a row and the name that it stands under: a spare one, else a new
    /// one. Nothing is left behind where it fails.
    pub(super) fn file(
        &mut self,
        disk: &dyn Disk,
        rows: BorrowedFd<'_>,
        row: &str,
        text: &[u8],
    ) -> io::Result<(String, OwnedFd)> {
        // A row that is new takes none: a full disk is to show when a worker is asked for.
        if disk.has(rows, row)
            && let Some(name) = self.names.pop()
        {
            match disk.reuse(rows, &name, text) {
                Ok(file) => return Ok((name, file)),
                // Somebody else has it open, it is a second name of a backup, the disk is full.
                Err(_) => disk.unlink(rows, &name),
            }
        }
        // In the form of a row's, which every version removes when it opens the directory.
        let name = temporary_name(&file_name(WorkerId::from_bits(self.made)));
        self.made += 1;
        match disk.create(rows, &name, text) {
            Ok(file) => Ok((name, file)),
            Err(error) => {
                disk.unlink(rows, &name);
                Err(error)
            }
        }
    }

    /// Keeps a file whose exchange is on disk.
    pub(super) fn keep(&mut self, disk: &dyn Disk, rows: BorrowedFd<'_>, name: String) {
        if self.names.len() < MOST {
            self.names.push(name);
        } else {
            disk.unlink(rows, &name);
        }
    }

    /// Removes them all.
    pub(super) fn clear(&mut self, disk: &dyn Disk, rows: BorrowedFd<'_>) {
        for name in self.names.drain(..) {
            disk.unlink(rows, &name);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}
