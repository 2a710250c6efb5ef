//! An index that flags may be cleared in. Runs in the helper.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A private copy of an index, removed when dropped.
pub(super) struct IndexCopy(PathBuf);

impl IndexCopy {
    pub(super) fn of(index: &Path) -> std::io::Result<Self> {
        let copy = Self(private_dir()?);
        let from = File::open(index)?;
        let modified = from.metadata()?.modified()?;
        let mut from = from;
        let mut to = File::create_new(copy.path())?;
        std::io::copy(&mut from, &mut to)?;
        // git compares this time with those of the files to tell which entries may be stale.
        to.set_modified(modified)?;
        Ok(copy)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.join("index")
    }

    /// An open file with the paths, each ended by NUL.
    pub(super) fn list(&self, paths: &[PathBuf]) -> std::io::Result<File> {
        let path = self.0.join("paths");
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        let mut text = Vec::new();
        for path in paths {
            text.extend_from_slice(path.as_os_str().as_bytes());
            text.push(0);
        }
        file.write_all(&text)?;
        file.rewind()?;
        Ok(file)
    }
}

impl Drop for IndexCopy {
    fn drop(&mut self) {
        // Nothing can be done about a failure; it is a directory in /tmp.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A new directory that only the owner may enter.
fn private_dir() -> std::io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let mut random = [0_u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let name = format!("musterd-probe-{:016x}", u64::from_ne_bytes(random));
    let path = Path::new("/tmp").join(OsString::from_vec(name.into_bytes()));
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}
