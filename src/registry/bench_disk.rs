//! The store thread on a disk that fails, stalls and counts, for tests.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::disk::{Before, Disk, RealDisk, exchange};
use super::store::Store;
use super::writer::{Job, Retry, Writer};
use crate::worker::WorkerId;

/// A disk that fails, stalls and counts as the test wants.
#[derive(Default)]
pub(super) struct Switches {
    pub(super) full: AtomicBool,
    pub(super) broken_sync: AtomicBool,
    pub(super) broken_directory: AtomicBool,
    pub(super) read_only: AtomicBool,
    pub(super) creates: AtomicU64,
    pub(super) reuses: AtomicU64,
    pub(super) syncs: AtomicU64,
    held: Mutex<bool>,
    released: Condvar,
}

struct SickDisk(Arc<Switches>);

fn errno(flag: &AtomicBool, errno: i32) -> io::Result<()> {
    match flag.load(Ordering::SeqCst) {
        true => Err(io::Error::from_raw_os_error(errno)),
        false => Ok(()),
    }
}

impl SickDisk {
    /// A file is about to be written.
    fn written(&self) -> io::Result<()> {
        let mut held = self.0.held.lock().unwrap();
        while *held {
            held = self.0.released.wait(held).unwrap();
        }
        self.0.creates.fetch_add(1, Ordering::SeqCst);
        errno(&self.0.read_only, libc::EROFS)
    }
}

impl Disk for SickDisk {
    fn create(&self, dir: BorrowedFd<'_>, name: &str, text: &[u8]) -> io::Result<OwnedFd> {
        self.written()?;
        let file = RealDisk.create(dir, name, text)?;
        // As a full disk does it: the file is there, and short.
        errno(&self.0.full, libc::ENOSPC)?;
        Ok(file)
    }

    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.0.syncs.fetch_add(1, Ordering::SeqCst);
        errno(&self.0.broken_sync, libc::EIO)?;
        if rustix::fs::fstat(file)?.st_mode & libc::S_IFMT == libc::S_IFDIR {
            errno(&self.0.broken_directory, libc::EIO)?;
        }
        RealDisk.sync(file)
    }

    fn reuse(&self, dir: BorrowedFd<'_>, name: &str, text: &[u8]) -> io::Result<OwnedFd> {
        self.written()?;
        let file = RealDisk.reuse(dir, name, text)?;
        self.0.reuses.fetch_add(1, Ordering::SeqCst);
        errno(&self.0.full, libc::ENOSPC)?;
        Ok(file)
    }

    fn replace(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<Before> {
        // Whatever the file system of the tests is.
        exchange(dir, from, to)
    }

    fn has(&self, dir: BorrowedFd<'_>, name: &str) -> bool {
        RealDisk.has(dir, name)
    }

    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
        RealDisk.rename(dir, from, to)
    }

    fn reap(&self, rows: BorrowedFd<'_>, reaped: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        errno(&self.0.read_only, libc::EROFS)?;
        RealDisk.reap(rows, reaped, name)
    }

    fn restore(&self, reaped: BorrowedFd<'_>, rows: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        RealDisk.restore(reaped, rows, name)
    }

    fn unlink(&self, dir: BorrowedFd<'_>, name: &str) {
        RealDisk.unlink(dir, name);
    }
}

pub(super) struct Bench {
    pub(super) dir: tempfile::TempDir,
    pub(super) switches: Arc<Switches>,
    pub(super) writer: Writer,
}

impl Bench {
    pub(super) fn new(first: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path()).unwrap());
        let switches = Arc::new(Switches::default());
        let disk = Box::new(SickDisk(Arc::clone(&switches)));
        let retry = Retry {
            first,
            most: first * 4,
        };
        let writer = Writer::start_on(store, disk, retry).unwrap();
        Self {
            dir,
            switches,
            writer,
        }
    }

    /// Keeps the thread in its next write, so that jobs gather behind it.
    pub(super) fn hold(&self, held: bool) {
        *self.switches.held.lock().unwrap() = held;
        self.switches.released.notify_all();
    }

    pub(super) fn write(
        &self,
        n: u64,
        text: &str,
    ) -> tokio::sync::oneshot::Receiver<io::Result<()>> {
        let text = text.to_owned();
        self.writer.submit(Job::Write { id: id(n), text })
    }

    pub(super) fn path(&self, sub: &str, n: u64) -> PathBuf {
        self.dir.path().join(sub).join(format!("{}.toml", id(n)))
    }

    pub(super) fn text(&self, sub: &str, n: u64) -> Option<String> {
        fs::read_to_string(self.path(sub, n)).ok()
    }
}

pub(super) fn id(n: u64) -> WorkerId {
    WorkerId::from_bits(n)
}

pub(super) fn errno_of(result: io::Result<()>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

pub(super) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) const SOON: Duration = Duration::from_millis(5);
pub(super) const NEVER: Duration = Duration::from_secs(3600);
