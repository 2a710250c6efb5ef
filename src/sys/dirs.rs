//! Removing directories that others have filled, and made unreadable perhaps.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, chmod, openat};

/// How deep rights are given back; each level holds a descriptor.
const DEPTH_MAX: u32 = 100;

/// Removes a directory with all that is in it, also directories in it that nobody may read or
/// write, as caches are left by some tools. Follows no link. One that is gone is no error.
/// Blocking.
pub fn remove_all(root: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(root) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            let name = std::ffi::CString::new(root.as_os_str().as_encoded_bytes())?;
            open_up(CWD, &name, DEPTH_MAX)?;
            std::fs::remove_dir_all(root)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// All rights for the owner on a directory and on those in it.
fn open_up(parent: BorrowedFd<'_>, name: &CStr, depth: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(parent, name, flags, Mode::empty())?;
    // By the descriptor: the name could be a link by now.
    chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = Dir::new(openat(&dir, c".", flags, Mode::empty())?)?;
    for entry in entries.filter(|_| depth > 0) {
        let entry = entry?;
        let inside = !matches!(entry.file_name().to_bytes(), b"." | b"..");
        if inside && matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
            // What cannot be opened up shows in the removal.
            let _ = open_up(dir.as_fd(), entry.file_name(), depth - 1);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_nobody_may_read_is_removed_and_links_are_not_followed() {
        let tmp = tempfile::tempdir().unwrap();
        let (root, apart) = (tmp.path().join("root"), tmp.path().join("apart"));
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir_all(&apart).unwrap();
        fs::write(root.join("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink(&apart, root.join("a/b/link")).unwrap();
        for (dir, mode) in [(apart.clone(), 0o500), (root.join("a/b"), 0o500)] {
            fs::set_permissions(dir, Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(root.join("a"), Permissions::from_mode(0o000)).unwrap();
        // As root the first try does it all, so this is asked for.
        let name = std::ffi::CString::new(root.as_os_str().as_encoded_bytes()).unwrap();
        open_up(CWD, &name, DEPTH_MAX).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&root.join("a/b")), 0o700);
        assert_eq!(mode(&apart), 0o500);
        fs::set_permissions(root.join("a"), Permissions::from_mode(0o000)).unwrap();
        remove_all(&root).unwrap();
        assert!(!root.exists() && apart.exists());
        remove_all(&root).unwrap();
    }
}
