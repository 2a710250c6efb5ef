//! What kind of checkout a directory is, and where its repository keeps what belongs to it
//! (gitrepository-layout(5)). Runs in the helper.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::place::{Dir, inode};

/// A configuration file larger than this is not looked at; git's own are a few KiB.
const CONFIG_MAX: u64 = 16 * 1024 * 1024;

/// `.git` files and pointers hold one path.
const POINTER_MAX: u64 = 8192;

/// Marks of something half done, in the git directory of the tree: what is there, and its name
/// for people.
const MARKERS: &[(&str, &str)] = &[
    ("MERGE_HEAD", "a merge"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or am"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a cherry-pick or revert of several commits"),
    ("BISECT_LOG", "a bisect"),
    ("BISECT_START", "a bisect"),
];

/// How the tree hangs on its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// `.git` is the repository.
    Main,
    /// Made by `git worktree add`.
    Linked,
    /// A submodule, or a repository kept elsewhere (`--separate-git-dir`).
    Apart,
}

/// Where things are.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) role: Role,
    /// The tree's own git directory.
    pub(super) git_dir: PathBuf,
    /// Configuration of repository and tree, one after the other.
    pub(super) config: Vec<u8>,
}

impl Layout {
    /// `None` if the directory holds no `.git`.
    pub(super) fn find(dir: &Dir) -> Result<Option<Self>, String> {
        let dot_git = dir.join(Path::new(".git"));
        let meta = match std::fs::symlink_metadata(&dot_git) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(format!("its .git cannot be looked at: {e}")),
        };
        let (role, git_dir, common) = if meta.is_dir() {
            let git_dir = std::fs::canonicalize(&dot_git).map_err(|e| unusable(&dot_git, &e))?;
            (Role::Main, git_dir.clone(), git_dir)
        } else if meta.is_file() {
            let git_dir = pointed_to(dir)?;
            match common_dir(&git_dir)? {
                Some(common) => {
                    check_back_pointer(&git_dir, inode(&meta))?;
                    (Role::Linked, git_dir, common)
                }
                None => (Role::Apart, git_dir.clone(), git_dir),
            }
        } else {
            return Err("its .git is neither a file nor a directory".to_owned());
        };
        let tree = dir.metadata().map_err(|e| unusable(dir.path(), &e))?;
        check_owner(dir.path(), tree.uid())?;
        check_owner(&dir.path().join(".git"), meta.uid())?;
        for path in [&git_dir, &common] {
            let meta = std::fs::metadata(path).map_err(|e| unusable(path, &e))?;
            check_owner(path, meta.uid())?;
        }
        let mut config = read_config(&common.join("config"))?;
        config.push(b'\n');
        config.extend(read_config(&git_dir.join("config.worktree"))?);
        Ok(Some(Self {
            role,
            git_dir,
            config,
        }))
    }

    /// Does the configuration hold this word, in any case? If not, it sets nothing of that name.
    pub(super) fn config_mentions(&self, word: &str) -> bool {
        let word = word.as_bytes();
        self.config
            .windows(word.len())
            .any(|w| w.eq_ignore_ascii_case(word))
    }

    /// Something half done, in words.
    pub(super) fn in_progress(&self) -> Result<Option<String>, String> {
        for (name, what) in MARKERS {
            if exists(&self.git_dir.join(name))? {
                return Ok(Some(format!("{what} is in progress ({name})")));
            }
        }
        Ok(None)
    }

    /// The reason of `git worktree lock`, empty if none was given; `None` if it is not locked.
    pub(super) fn locked(&self) -> Result<Option<String>, String> {
        if self.role != Role::Linked {
            return Ok(None);
        }
        match read_some(&self.git_dir.join("locked"), POINTER_MAX) {
            Ok(reason) => Ok(Some(String::from_utf8_lossy(&reason).trim().to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(format!("its lock cannot be read: {e}")),
        }
    }
}

fn unusable(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be used: {error}", path.display())
}

/// git refuses repositories of another owner only where it finds them by itself; here it is
/// told where they are, so that this check is ours.
fn check_owner(path: &Path, uid: u32) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    match uid == own {
        true => Ok(()),
        false => Err(format!(
            "{} belongs to uid {uid}, not to the worker's owner {own}",
            path.display()
        )),
    }
}

pub(super) fn exists(path: &Path) -> Result<bool, String> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(unusable(path, &e)),
    }
}

/// The git directory that the `.git` file names.
pub(super) fn pointed_to(dir: &Dir) -> Result<PathBuf, String> {
    let text = read_some(&dir.join(Path::new(".git")), POINTER_MAX)
        .map_err(|e| format!("its .git cannot be read: {e}"))?;
    let target = text
        .strip_prefix(b"gitdir: ")
        .map(|t| t.trim_ascii_end_newlines())
        .filter(|t| !t.is_empty())
        .ok_or("its .git file names no git directory")?;
    let target = dir.by_fd().join(OsStr::from_bytes(target));
    std::fs::canonicalize(&target).map_err(|e| format!("its git directory cannot be used: {e}"))
}

/// Only the git directory of a linked worktree has this pointer.
pub(super) fn common_dir(git_dir: &Path) -> Result<Option<PathBuf>, String> {
    match read_some(&git_dir.join("commondir"), POINTER_MAX) {
        Ok(text) => {
            let target = git_dir.join(OsStr::from_bytes(text.trim_ascii_end_newlines()));
            std::fs::canonicalize(&target)
                .map(Some)
                .map_err(|e| unusable(&target, &e))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(unusable(&git_dir.join("commondir"), &e)),
    }
}

/// The git directory of a linked worktree says which `.git` file it belongs to. Another one that
/// points to it would be judged by somebody else's index.
pub(super) fn check_back_pointer(git_dir: &Path, dot_git: super::Inode) -> Result<(), String> {
    let pointer = git_dir.join("gitdir");
    let text = read_some(&pointer, POINTER_MAX).map_err(|e| unusable(&pointer, &e))?;
    let target = git_dir.join(OsStr::from_bytes(text.trim_ascii_end_newlines()));
    match std::fs::symlink_metadata(&target) {
        Ok(meta) if inode(&meta) == dot_git => Ok(()),
        _ => Err(format!(
            "its repository knows it as {}; run `git worktree repair` there",
            target.display()
        )),
    }
}

fn read_config(path: &Path) -> Result<Vec<u8>, String> {
    match read_some(path, CONFIG_MAX) {
        Ok(text) => Ok(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(unusable(path, &e)),
    }
}

/// A regular file up to a size. Does not block on a FIFO.
pub(super) fn read_some(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > most {
        return Err(io::Error::other("is no regular file of a sensible size"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The drivers in `git config --list -z`: `filter.NAME.VARIABLE`. `None` if the list is cut off.
pub(super) fn filter_drivers(list: &[u8]) -> Option<Vec<OsString>> {
    let mut drivers: Vec<OsString> = Vec::new();
    if list.is_empty() {
        return Some(drivers);
    }
    for record in list.strip_suffix(b"\0")?.split(|b| *b == 0) {
        // A name may hold everything but a newline, so the first one ends the key.
        let key = record.split(|b| *b == b'\n').next()?;
        let Some(rest) = key.strip_prefix(b"filter.") else {
            continue;
        };
        let Some(dot) = rest.iter().rposition(|b| *b == b'.') else {
            continue;
        };
        drivers.push(OsString::from_vec(rest[..dot].to_vec()));
    }
    drivers.sort();
    drivers.dedup();
    Some(drivers)
}

trait TrimNewlines {
    fn trim_ascii_end_newlines(&self) -> &[u8];
}

impl TrimNewlines for [u8] {
    /// Paths may end in blanks, so only line ends go.
    fn trim_ascii_end_newlines(&self) -> &[u8] {
        let end = self.iter().rposition(|b| !b"\r\n".contains(b));
        &self[..end.map_or(0, |at| at + 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_found_whatever_their_name() {
        let list = b"core.bare\nfalse\0filter.lfs.clean\nx\0filter.lfs.smudge\ny\0filter.a=b.c.process\nz\nw\0filter.required\0";
        assert_eq!(
            filter_drivers(list),
            Some(vec!["a=b.c".into(), "lfs".into()])
        );
        assert_eq!(filter_drivers(b"core.bare\nfals"), None);
        assert_eq!(filter_drivers(b""), Some(vec![]));
    }

    #[test]
    fn a_fifo_and_a_directory_are_not_read() {
        let tmp = tempfile::tempdir().unwrap();
        let fifo = tmp.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(read_some(&fifo, 10).is_err());
        assert!(read_some(tmp.path(), 10).is_err());
    }
}
