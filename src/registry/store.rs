//! The state directory: rows, reaped rows, quarantine. Directory I/O only; no policy.
//!
//! ```text
//! rows/ID.toml        the roll          reaped/ID.toml   can be restored; mtime: when reaped
//! rows/.N.toml.new    see spares.rs     quarantine/      files that are no rows, for a person
//! clock.toml          wall clock against boot-time clock, to notice a jump over a restart
//! ```

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, fstat, statat, unlinkat};

use super::disk::{self, Content, Disk, RealDisk};
use super::record::{Loaded, RecordError, decode};
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
        /// What is wrong, and what to do.
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

/// The open state directory. Its lock is held by the caller for as long.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    pub(super) root: OwnedFd,
    pub(super) rows: OwnedFd,
    pub(super) reaped: OwnedFd,
    quarantine: OwnedFd,
}

/// Fewer files than this are read by one thread; starting another costs more.
const TWO_THREADS: usize = 256;
const CLOCK: &str = "clock.toml";

pub(super) fn file_name(id: WorkerId) -> String {
    format!("{id}.toml")
}

/// Ignored by the loader, and removed when the store is opened.
pub(super) fn temporary_name(file: &str) -> String {
    format!(".{file}.new")
}

fn id_of(name: &str) -> Option<WorkerId> {
    name.strip_suffix(".toml")?.parse().ok()
}

impl Store {
    /// Opens it, making what is missing (0700). Refused if anybody but its owner could write in
    /// it. The state directory itself may be a symlink (systemd's `DynamicUser=` makes one).
    pub fn open(state_dir: &Path) -> Result<Store, StoreError> {
        let io = |verb, path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Io { verb, path, source }
        };
        make(state_dir).map_err(io("create", state_dir))?;
        let root: OwnedFd = File::open(state_dir).map_err(io("open", state_dir))?.into();
        check_owner(state_dir, root.as_fd())?;
        let open = |name: &str| {
            let path = state_dir.join(name);
            let fd = disk::subdirectory(root.as_fd(), name).map_err(io("open", &path))?;
            check_owner(&path, fd.as_fd())?;
            Ok(fd)
        };
        let store = Store {
            path: state_dir.to_owned(),
            rows: open("rows")?,
            reaped: open("reaped")?,
            quarantine: open("quarantine")?,
            root,
        };
        store.remove_temporaries()?;
        Ok(store)
    }

    /// Reads every row without changing anything, for an image that is tried; answers how
    /// many there are. A row it does not understand is an error.
    pub fn check(state_dir: &Path) -> Result<usize, StoreError> {
        let rows = state_dir.join("rows");
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Io {
                verb: "read",
                path,
                source,
            }
        };
        let mut known = 0;
        for entry in std::fs::read_dir(&rows).map_err(io(&rows))? {
            let path = entry.map_err(io(&rows))?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let Some(id) = stem.and_then(|stem| stem.parse::<WorkerId>().ok()) else {
                continue;
            };
            let row = || match std::fs::read(&path) {
                // Collected meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(io(&path)(error)),
                Ok(text) => decode(id, &text).map(Some).map_err(|source| {
                    let path = path.clone();
                    StoreError::Record { path, source }
                }),
            };
            // Twice: the daemon that serves may have replaced the file while it was opened, and
            // be writing another row into the old one.
            known += usize::from(row().or_else(|_| row())?.is_some());
        }
        Ok(known)
    }

    /// The state directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn io<'a>(
        &'a self,
        verb: &'static str,
        name: &'a str,
    ) -> impl Fn(io::Error) -> StoreError + 'a {
        move |source| StoreError::Io {
            verb,
            path: self.path.join(name),
            source,
        }
    }

    /// A crash while writing leaves a temporary file; the row's own file is whole beside it.
    fn remove_temporaries(&self) -> Result<(), StoreError> {
        for name in self.names(self.rows.as_fd(), "rows")? {
            let id = name.strip_prefix('.').and_then(|n| n.strip_suffix(".new"));
            if id.and_then(id_of).is_some() {
                let _ = unlinkat(&self.rows, name.as_str(), AtFlags::empty());
            }
        }
        Ok(())
    }

    fn names(&self, dir: BorrowedFd<'_>, name: &str) -> Result<Vec<String>, StoreError> {
        disk::names(dir).map_err(self.io("list", name))
    }

    /// Every row. Unparsable files are moved to `quarantine/`; strangers are left alone.
    pub fn load(&self) -> Result<Load, StoreError> {
        let names = self.names(self.rows.as_fd(), "rows")?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        if names.len() < TWO_THREADS || threads < 2 {
            return Ok(self.load_some(&names));
        }
        let (left, right) = names.split_at(names.len() / 2);
        let (mut all, rest) = std::thread::scope(|scope| {
            let other = std::thread::Builder::new()
                .name("load".to_owned())
                .spawn_scoped(scope, || self.load_some(right));
            let all = self.load_some(left);
            // No second thread, or one that ended early: this one does its half.
            let rest = other.ok().and_then(|thread| thread.join().ok());
            (all, rest.unwrap_or_else(|| self.load_some(right)))
        });
        all.rows.extend(rest.rows);
        all.quarantined.extend(rest.quarantined);
        all.warnings.extend(rest.warnings);
        Ok(all)
    }

    fn load_some(&self, names: &[String]) -> Load {
        let mut load = Load {
            rows: Vec::with_capacity(names.len()),
            ..Load::default()
        };
        for name in names {
            let path = || self.path.join("rows").join(name);
            let Some(id) = id_of(name) else {
                let path = path().display().to_string();
                load.warnings
                    .push(format!("{path} is no row (a row is ID.toml); left alone"));
                continue;
            };
            let why = match disk::read(self.rows.as_fd(), name) {
                Ok(Content::Text(text)) => match decode(id, &text) {
                    Ok(row) => {
                        load.rows.push(row);
                        continue;
                    }
                    Err(why) => why,
                },
                Ok(Content::TooLarge) => RecordError::TooLarge(disk::FILE_MAX),
                Ok(Content::NotAFile(what)) => {
                    let path = path().display().to_string();
                    load.warnings
                        .push(format!("{path} is {what}, not a file; left alone"));
                    continue;
                }
                Err(error) => {
                    let path = path().display().to_string();
                    load.warnings
                        .push(format!("cannot read {path}: {error}; left where it is"));
                    continue;
                }
            };
            self.put_aside(name, &why, &mut load);
        }
        load
    }

    fn put_aside(&self, name: &str, why: &RecordError, load: &mut Load) {
        match self.quarantine(name) {
            Ok(name) => load.quarantined.push(Quarantined {
                name,
                why: why.to_string(),
            }),
            Err(error) => load.warnings.push(format!(
                "{} is no row: {why}; it could not be moved to quarantine: {error}",
                self.path.join("rows").join(name).display()
            )),
        }
    }

    /// Moves a file of `rows/` aside without replacing one that is there.
    fn quarantine(&self, name: &str) -> io::Result<String> {
        let (rows, quarantine) = (self.rows.as_fd(), self.quarantine.as_fd());
        let mut aside = name.to_owned();
        for n in 1.. {
            match disk::rename_no_replace(rows, name, quarantine, &aside) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    aside = format!("{name}.{n}");
                }
                moved => {
                    moved?;
                    break;
                }
            }
        }
        rustix::fs::fsync(quarantine)?;
        rustix::fs::fsync(rows)?;
        Ok(aside)
    }

    /// Names of the files in `quarantine/`, sorted.
    pub fn quarantined(&self) -> Result<Vec<String>, StoreError> {
        self.names(self.quarantine.as_fd(), "quarantine")
    }

    /// Ids of reaped rows, sorted.
    pub fn list_reaped(&self) -> Result<Vec<WorkerId>, StoreError> {
        let names = self.names(self.reaped.as_fd(), "reaped")?;
        Ok(names.iter().filter_map(|name| id_of(name)).collect())
    }

    /// One reaped row, `None` if there is none.
    pub fn load_reaped(&self, id: WorkerId) -> Result<Option<Loaded>, StoreError> {
        let name = file_name(id);
        let record = |source| StoreError::Record {
            path: self.path.join("reaped").join(&name),
            source,
        };
        match disk::read(self.reaped.as_fd(), &name) {
            Ok(Content::Text(text)) => decode(id, &text).map(Some).map_err(record),
            Ok(Content::TooLarge) => Err(record(RecordError::TooLarge(disk::FILE_MAX))),
            Ok(Content::NotAFile(_)) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.io("read", &format!("reaped/{name}"))(error)),
        }
    }

    /// Deletes reaped rows that were reaped more than `retention` ago; answers their ids. The
    /// time of a reap is the later of the file's mtime and ctime.
    pub fn purge_reaped(
        &self,
        retention: Duration,
        now: Timestamp,
    ) -> Result<Vec<WorkerId>, StoreError> {
        let retention = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        let mut gone = Vec::new();
        for id in self.list_reaped()? {
            let name = file_name(id);
            let Ok(stat) = statat(&self.reaped, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                continue;
            }
            let seconds = stat.st_mtime.max(stat.st_ctime);
            let reaped = Timestamp(seconds.saturating_add(1).saturating_mul(1_000_000));
            if now.since(reaped) > retention {
                unlinkat(&self.reaped, name.as_str(), AtFlags::empty())
                    .map_err(|e| self.io("remove", &format!("reaped/{name}"))(e.into()))?;
                gone.push(id);
            }
        }
        if !gone.is_empty() {
            rustix::fs::fsync(&self.reaped).map_err(|e| self.io("sync", "reaped")(e.into()))?;
        }
        Ok(gone)
    }

    /// The last mark, `None` if there is none or it cannot be understood.
    pub fn read_clock(&self) -> Option<ClockMark> {
        let Ok(Content::Text(text)) = disk::read(self.root.as_fd(), CLOCK) else {
            return None;
        };
        let table: toml::Table = toml::from_str(std::str::from_utf8(&text).ok()?).ok()?;
        Some(ClockMark {
            boot_id: table.get("boot_id")?.as_str()?.parse().ok()?,
            wall_minus_boot_usec: table.get("wall_minus_boot_usec")?.as_integer()?,
        })
    }

    /// Writes a mark, durably.
    pub fn write_clock(&self, mark: ClockMark) -> Result<(), StoreError> {
        self.put_clock(&RealDisk, mark)
            .map_err(self.io("write", CLOCK))
    }

    pub(super) fn put_clock(&self, disk: &dyn Disk, mark: ClockMark) -> io::Result<()> {
        let text = format!(
            "boot_id = \"{}\"\nwall_minus_boot_usec = {}\n",
            mark.boot_id, mark.wall_minus_boot_usec
        );
        let root = self.root.as_fd();
        let temporary = temporary_name(CLOCK);
        let file = disk.create(root, &temporary, text.as_bytes())?;
        disk.sync(file.as_fd())?;
        disk.rename(root, &temporary, CLOCK)?;
        disk.sync(root)
    }
}

fn make(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// Whoever else may write there could plant rows and links.
fn check_owner(path: &Path, dir: BorrowedFd<'_>) -> Result<(), StoreError> {
    let stat = fstat(dir).map_err(|e| StoreError::Io {
        verb: "look at",
        path: path.to_owned(),
        source: e.into(),
    })?;
    let me = rustix::process::geteuid().as_raw();
    let why = if stat.st_uid != me {
        format!(
            "it belongs to uid {}, and musterd runs as {me}",
            stat.st_uid
        )
    } else if stat.st_mode & 0o022 != 0 {
        "its group or everybody may write there; chmod it to 0700".to_owned()
    } else {
        return Ok(());
    };
    Err(StoreError::Unsafe {
        path: path.to_owned(),
        why,
    })
}
