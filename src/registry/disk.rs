//! The few file operations of the state directory, all relative to open directories so that no
//! symlink on the way is followed. Tests put a failing disk in their place.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW, fstat, fstatfs,
    mkdirat, openat, renameat, renameat_with, statat, unlinkat, utimensat,
};

use crate::sys::lease::is_sole_opener;

/// No row is larger: argv and environment are limited to 1 MiB, escaping takes at most four
/// times that.
pub(super) const FILE_MAX: u64 = 8 * 1024 * 1024;

/// What a batch does to the disk.
pub(super) trait Disk: Send + Sync {
    /// A new file with this text, replacing a left-over one.
    fn create(&self, dir: BorrowedFd<'_>, name: &str, text: &[u8]) -> io::Result<OwnedFd>;
    /// The file's data is on disk.
    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()>;
    /// Writes this text over a file of ours that no row is in. Refused (`EBUSY`) where somebody
    /// would see it change: one that is open elsewhere, or has a second name.
    fn reuse(&self, dir: BorrowedFd<'_>, name: &str, text: &[u8]) -> io::Result<OwnedFd>;
    /// Is there a file of this name?
    fn has(&self, dir: BorrowedFd<'_>, name: &str) -> bool;
    /// Gives `from` the name `to`, in one step; says what the file that had it is called now.
    fn replace(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<Before>;
    /// Replaces `to`.
    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()>;
    /// To the directory of reaped rows, with the time of the move as the file's mtime; an older
    /// file of the same row is replaced.
    fn reap(&self, rows: BorrowedFd<'_>, reaped: BorrowedFd<'_>, name: &str) -> io::Result<()>;
    /// Back; fails with `EEXIST` where the name is taken.
    fn restore(&self, reaped: BorrowedFd<'_>, rows: BorrowedFd<'_>, name: &str) -> io::Result<()>;
    /// Best effort.
    fn unlink(&self, dir: BorrowedFd<'_>, name: &str);
}

/// What became of the file that had the name before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// It has the other name now.
    Kept,
    /// There was none, or it is gone.
    Gone,
}

/// The disk itself.
pub(super) struct RealDisk;

/// Only its owner may read or write it.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

fn put(mut file: File, text: &[u8]) -> io::Result<OwnedFd> {
    file.write_all(text)?;
    // Starts writeback. All files of a batch then get their blocks in one transaction of the
    // file system's journal, and the first sync commits it for all; without this each sync
    // of a freshly written file is a commit of its own.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(file.into())
}

impl Disk for RealDisk {
    fn create(&self, dir: BorrowedFd<'_>, name: &str, text: &[u8]) -> io::Result<OwnedFd> {
        // EXCL: never through a link, never into a file that somebody else has open.
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(dir, name, flags, MODE) {
            Err(rustix::io::Errno::EXIST) => {
                unlinkat(dir, name, AtFlags::empty())?;
                openat(dir, name, flags, MODE)?
            }
            opened => opened?,
        };
        put(File::from(fd), text)
    }

    fn reuse(&self, dir: BorrowedFd<'_>, name: &str, text: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(dir, name, flags, Mode::empty())?);
        let stat = fstat(&file)?;
        let ours = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && Mode::from_raw_mode(stat.st_mode) == MODE
            && stat.st_uid == rustix::process::geteuid().as_raw()
            && stat.st_nlink == 1;
        if !ours || !is_sole_opener(&file)? {
            return Err(rustix::io::Errno::BUSY.into());
        }
        let fd = put(file, text)?;
        if u64::try_from(stat.st_size).is_ok_and(|size| size > text.len() as u64) {
            rustix::fs::ftruncate(&fd, text.len() as u64)?;
        }
        Ok(fd)
    }

    fn has(&self, dir: BorrowedFd<'_>, name: &str) -> bool {
        statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn replace(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<Before> {
        // In memory a new file costs nothing, and room is dear.
        if fstatfs(dir).is_ok_and(|fs| fs.f_type == libc::TMPFS_MAGIC) {
            self.rename(dir, from, to)?;
            return Ok(Before::Gone);
        }
        exchange(dir, from, to)
    }

    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        Ok(rustix::fs::fsync(file)?)
    }

    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(dir, from, dir, to)?)
    }

    fn reap(&self, rows: BorrowedFd<'_>, reaped: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        // A rename by itself is recorded in the ctime only, and not on every file system.
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        utimensat(rows, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(renameat(rows, name, reaped, name)?)
    }

    fn restore(&self, reaped: BorrowedFd<'_>, rows: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        rename_no_replace(reaped, name, rows, name)
    }

    fn unlink(&self, dir: BorrowedFd<'_>, name: &str) {
        let _ = unlinkat(dir, name, AtFlags::empty());
    }
}

/// Exchanges the names; plainly renames where there is no file to exchange with, or a file system
/// cannot.
pub(super) fn exchange(dir: BorrowedFd<'_>, from: &str, to: &str) -> io::Result<Before> {
    use rustix::io::Errno;
    let plain =
        |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    // A directory that somebody put there would be hidden under the temporary name.
    if !statat(dir, to, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(plain) {
        renameat(dir, from, dir, to)?;
        return Ok(Before::Gone);
    }
    match renameat_with(dir, from, dir, to, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(Before::Kept),
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            renameat(dir, from, dir, to)?;
            Ok(Before::Gone)
        }
        Err(error) => Err(error.into()),
    }
}

/// renameat2(2) with `RENAME_NOREPLACE`; file systems without it (`EINVAL`) get a look first,
/// which is enough under the state directory's lock.
pub(super) fn rename_no_replace(
    from_dir: BorrowedFd<'_>,
    from: &str,
    to_dir: BorrowedFd<'_>,
    to: &str,
) -> io::Result<()> {
    match renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            match statat(to_dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(rustix::io::Errno::EXIST.into()),
                Err(rustix::io::Errno::NOENT) => Ok(renameat(from_dir, from, to_dir, to)?),
                Err(error) => Err(error.into()),
            }
        }
        done => Ok(done?),
    }
}

/// Opens a directory below `dir`, making it (0700) if it is missing. Never through a symlink.
pub(super) fn subdirectory(dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    match mkdirat(dir, name, Mode::RWXU) {
        Ok(()) => rustix::fs::fsync(dir)?,
        Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

/// What [`read`] found.
pub(super) enum Content {
    /// Of a regular file.
    Text(Vec<u8>),
    /// A directory, symlink, FIFO or device, in words.
    NotAFile(&'static str),
    /// A regular file above [`FILE_MAX`].
    TooLarge,
}

/// Reads a file; never through a symlink, never waiting on a FIFO.
pub(super) fn read(dir: BorrowedFd<'_>, name: &str) -> io::Result<Content> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = match openat(dir, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP) => return Ok(Content::NotAFile("a symlink")),
        // A socket, or a device without a driver.
        Err(rustix::io::Errno::NXIO) => return Ok(Content::NotAFile("a special file")),
        opened => opened?,
    };
    let stat = fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Ok(Content::NotAFile("a directory")),
        _ => return Ok(Content::NotAFile("a special file")),
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > FILE_MAX {
        return Ok(Content::TooLarge);
    }
    let mut text = Vec::with_capacity(size as usize + 1);
    File::from(fd).take(FILE_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Ok(Content::TooLarge);
    }
    Ok(Content::Text(text))
}

/// Names in a directory, sorted; those that are not UTF-8 with U+FFFD.
pub(super) fn names(dir: BorrowedFd<'_>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}
