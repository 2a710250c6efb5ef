//! One daemon a state directory: flock(2) on `<dir>/lock`, held for life. The kernel drops it
//! with the last descriptor, so a dead daemon never blocks the next; the file stays.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Proof that this process alone works in the directory. Close-on-exec, so no worker keeps it.
#[derive(Debug)]
pub struct StateLock {
    file: File,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon has it.
    #[error(
        "{} is in use by another daemon ({}): stop it, or choose another state directory",
        dir.display(),
        pid.map_or_else(|| "pid not known".to_owned(), |pid| format!("pid {pid}"))
    )]
    Held {
        /// The state directory.
        dir: PathBuf,
        /// The holder, as it wrote itself into the file.
        pid: Option<i32>,
    },
    /// The file could not be used.
    #[error("cannot lock {}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl StateLock {
    /// The lock of the image before, which stays taken over an execution.
    pub fn handed_over(fd: OwnedFd) -> Self {
        Self {
            file: File::from(fd),
        }
    }

    /// A second descriptor of the same lock: it is held until both are closed.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }
}

/// Takes the lock or fails at once.
pub fn acquire(dir: &Path) -> Result<StateLock, LockError> {
    let path = dir.join("lock");
    let failed = |source| LockError::Io {
        path: path.clone(),
        source,
    };
    loop {
        let mut file = open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LockError::Held {
                    dir: dir.to_owned(),
                    pid: holder(&mut file),
                });
            }
            Err(e) => return Err(failed(e.into())),
        }
        // Somebody may have removed or replaced the file between open and lock; then what we
        // hold excludes nobody.
        if is_at(&file, &path).map_err(failed)? {
            write_pid(&mut file).map_err(failed)?;
            return Ok(StateLock { file });
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match path.symlink_metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn holder(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Informative only, so not fsynced: the lock itself does not outlive the boot either.
fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

impl AsFd for StateLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is_and_a_released_lock_can_be_taken() {
        let dir = tempfile::tempdir().unwrap();
        let first = acquire(dir.path()).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        match acquire(dir.path()) {
            Err(LockError::Held { pid, .. }) => assert_eq!(pid, Some(own)),
            other => panic!("{other:?}"),
        }
        drop(first);
        acquire(dir.path()).unwrap();
    }

    #[test]
    fn a_lock_file_that_was_replaced_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let first = acquire(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join("lock")).unwrap();
        assert!(!is_at(&first.file, &dir.path().join("lock")).unwrap());
        // A new file: the two exclude each other no more, but the new one is the one at the path.
        let second = acquire(dir.path()).unwrap();
        assert!(is_at(&second.file, &dir.path().join("lock")).unwrap());
    }

    #[test]
    fn a_symlink_or_a_missing_directory_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join("lock")).unwrap();
        let error = acquire(dir.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&dir.path().join("lock").display().to_string())
        );
        assert!(acquire(&dir.path().join("none")).is_err());
    }
}
