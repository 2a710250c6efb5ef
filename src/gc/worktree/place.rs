//! Where a directory is: opened once without following a link at its end, known by device and
//! inode, and on which mount it lies. Runs in the helper, under the owner's ids.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, statx};
use rustix::io::Errno;

use super::Inode;
use super::wire::Place;

/// An open directory and the path it was found at.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    inode: Inode,
}

/// Why a directory was not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum DirError {
    /// Nothing of this name, but its parent is there.
    #[error("is gone")]
    Gone,
    /// A link, a file, no permission, a parent that is gone, and so on.
    #[error("{0}")]
    Other(String),
}

impl Dir {
    /// Opens the directory. A link as the last component is refused, for what it points to may
    /// change between two looks; links before it are followed.
    pub(super) fn open(path: &Path) -> Result<Self, DirError> {
        let other = |what: &str| DirError::Other(what.to_owned());
        let plain = |c: Component| matches!(c, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(plain) {
            return Err(other("is no plain absolute path"));
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match open(path, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Err(gone(path)),
            Err(error) => return Err(DirError::Other(format!("cannot be opened: {error}"))),
        };
        let meta = fd
            .metadata()
            .map_err(|e| DirError::Other(format!("cannot be looked at: {e}")))?;
        if meta.is_symlink() {
            return Err(other("is a symbolic link; give the directory it points to"));
        }
        if !meta.is_dir() {
            return Err(other("is not a directory"));
        }
        Ok(Self {
            fd: fd.into(),
            path: path.to_owned(),
            inode: inode(&meta),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn inode(&self) -> Inode {
        self.inode
    }

    /// A name for this very directory, whatever its path names by now; for this process and
    /// for a child of it before its exec.
    pub(super) fn by_fd(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd()).into()
    }

    /// Something in it.
    pub(super) fn join(&self, name: &Path) -> PathBuf {
        self.by_fd().join(name)
    }

    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        std::fs::metadata(self.by_fd())
    }

    /// Does its path still lead here?
    pub(super) fn is_still_there(&self) -> bool {
        Dir::open(&self.path).is_ok_and(|now| now.inode == self.inode)
    }
}

/// ENOENT: of the last component, or of one before it?
fn gone(path: &Path) -> DirError {
    match path.parent().map(std::fs::metadata) {
        Some(Ok(meta)) if meta.is_dir() => DirError::Gone,
        Some(Ok(_)) => DirError::Other("is gone, and its parent is no directory".to_owned()),
        Some(Err(error)) => DirError::Other(format!("is gone, and so is its parent: {error}")),
        None => DirError::Other("has no parent".to_owned()),
    }
}

/// Device and inode.
pub(super) fn inode(meta: &Metadata) -> Inode {
    (meta.dev(), meta.ino())
}

/// What directory it is, without links, and where its file system is mounted.
pub(super) fn identify(path: &Path) -> Result<Place, String> {
    let real = std::fs::canonicalize(path).map_err(|e| format!("cannot be resolved: {e}"))?;
    if !real.is_dir() {
        return Err("is not a directory".to_owned());
    }
    let mut inodes = Vec::new();
    for dir in real.ancestors() {
        let meta = std::fs::metadata(dir).map_err(|e| format!("cannot be looked at: {e}"))?;
        inodes.push(inode(&meta));
    }
    let mount = mount_of(&real)?;
    Ok(Place {
        inodes,
        path: real,
        mount,
    })
}

/// The mount point of the file system that a path lies on (proc_pid_mountinfo(5)).
pub(super) fn mount_of(path: &Path) -> Result<PathBuf, String> {
    let cannot = |e: &dyn std::fmt::Display| format!("its mount cannot be told: {e}");
    let meta = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).map_err(|e| cannot(&e))?;
    let id = meta.stx_mnt_id.to_string();
    mounts()?
        .into_iter()
        .find(|(mount, _)| *mount == id)
        .map(|(_, point)| point)
        .ok_or_else(|| cannot(&"it is not in /proc/self/mountinfo"))
}

/// Mount ids and mount points.
fn mounts() -> Result<Vec<(String, PathBuf)>, String> {
    let text = std::fs::read("/proc/self/mountinfo")
        .map_err(|e| format!("cannot read /proc/self/mountinfo: {e}"))?;
    let mount = |line: &[u8]| {
        let mut fields = line.split(|b| *b == b' ');
        let id = String::from_utf8(fields.next()?.to_vec()).ok()?;
        Some((id, unescape(fields.nth(3)?)))
    };
    Ok(text.split(|b| *b == b'\n').filter_map(mount).collect())
}

/// The kernel and fstab(5) write blanks and the backslash as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = (*first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        out.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    std::ffi::OsString::from_vec(out).into()
}

/// Is the file system that `path` belongs to mounted? `existing` is the path itself, or its
/// parent if it is gone. Where no mount point was recorded, fstab(5) is asked for one above the
/// path that is not mounted now. The error says what is missing.
pub(super) fn mounted(path: &Path, existing: &Path, recorded: Option<&Path>) -> Result<(), String> {
    if let Some(recorded) = recorded {
        // A tree that was a mount point itself has nothing to do with its parent's mount.
        let now = mount_of(existing)?;
        return match now == recorded {
            true => Ok(()),
            false => Err(format!(
                "was on the file system at {recorded:?}, which is not mounted"
            )),
        };
    }
    let fstab = match std::fs::read("/etc/fstab") {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("cannot read /etc/fstab: {error}")),
    };
    let points: Vec<PathBuf> = fstab_points(&fstab)
        .into_iter()
        .filter(|point| path.starts_with(point))
        .collect();
    if points.is_empty() {
        return Ok(());
    }
    let mounts = mounts()?;
    match points
        .iter()
        .find(|p| !mounts.iter().any(|(_, at)| at == *p))
    {
        Some(point) => Err(format!(
            "belongs on the file system at {point:?}, which is not mounted"
        )),
        None => Ok(()),
    }
}

fn fstab_points(text: &[u8]) -> Vec<PathBuf> {
    text.split(|b| *b == b'\n')
        .filter(|line| !line.trim_ascii_start().starts_with(b"#"))
        .filter_map(|line| {
            let blank = |b: &u8| b.is_ascii_whitespace();
            line.split(blank)
                .filter(|f| !f.is_empty())
                .nth(1)
                .map(unescape)
        })
        .filter(|point| point.is_absolute() && point.as_os_str().as_bytes() != b"/")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_a_file_and_a_relative_path_are_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let real = tmp.path().join("real");
        std::fs::create_dir(&real).unwrap();
        std::fs::write(tmp.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink(&real, tmp.path().join("link")).unwrap();
        for bad in ["link", "file", "real/../real", "gone/gone", "file/gone"] {
            let opened = Dir::open(&tmp.path().join(bad));
            assert!(
                matches!(opened, Err(DirError::Other(_))),
                "{bad}: {opened:?}"
            );
        }
        assert!(matches!(
            Dir::open(Path::new("tmp")),
            Err(DirError::Other(_))
        ));
        assert!(matches!(
            Dir::open(&tmp.path().join("gone")),
            Err(DirError::Gone)
        ));
        assert!(Dir::open(&real).unwrap().is_still_there());
    }

    #[test]
    fn a_directory_put_in_place_of_another_is_noticed() {
        let tmp = tempfile::tempdir().unwrap();
        let (a, b) = (tmp.path().join("a"), tmp.path().join("b"));
        std::fs::create_dir(&a).unwrap();
        std::fs::create_dir(&b).unwrap();
        let dir = Dir::open(&a).unwrap();
        std::fs::rename(&a, tmp.path().join("c")).unwrap();
        std::os::unix::fs::symlink(&b, &a).unwrap();
        assert!(!dir.is_still_there());
    }

    #[test]
    fn a_directory_has_one_identity_under_all_its_names() {
        let tmp = tempfile::tempdir().unwrap();
        let inner = tmp.path().join("real/inner");
        std::fs::create_dir_all(&inner).unwrap();
        std::os::unix::fs::symlink(tmp.path().join("real"), tmp.path().join("link")).unwrap();
        let by_link = identify(&tmp.path().join("link/inner")).unwrap();
        assert_eq!(by_link, identify(&inner).unwrap());
        let outer = identify(&tmp.path().join("real")).unwrap();
        assert_eq!(by_link.inodes[1], outer.inodes[0]);
    }

    #[test]
    fn a_file_system_that_is_not_mounted_is_noticed() {
        let tmp = tempfile::tempdir().unwrap();
        let mount = mount_of(tmp.path()).unwrap();
        assert_eq!(mounted(tmp.path(), tmp.path(), Some(&mount)), Ok(()));
        assert!(mounted(tmp.path(), tmp.path(), Some(Path::new("/elsewhere"))).is_err());
        assert_eq!(
            fstab_points(b"# /dev/x /no ext4\n\nUUID=1 / ext4\n /dev/y\t/mnt/a\\040b  xfs 0 0\nz none swap\n"),
            [PathBuf::from("/mnt/a b")]
        );
    }
}
