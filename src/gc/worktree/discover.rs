//! Which worktree a row owns: the one it was given, or the linked git worktree its working
//! directory lies in (specification section 4).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::place::{Dir, DirError, identify, inode};
use super::repo;
use super::wire::{Answer, Place};
use crate::worker::WorktreeChoice;

/// A worktree a row owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// Its path without links.
    pub path: PathBuf,
    /// Where its file system is mounted. Recorded, it tells a tree that is gone from one whose
    /// file system is not mounted.
    pub mount: PathBuf,
}

impl From<Place> for Owned {
    fn from(place: Place) -> Self {
        Self {
            path: place.path,
            mount: place.mount,
        }
    }
}

/// The worktree that a row with this choice and working directory owns. Looks into the
/// directories with the rights of this process: for others' rows ask the helper
/// ([`Prober::owned_worktree`](super::Prober::owned_worktree)).
///
/// A directory that was chosen and cannot be looked at is an error, and so is a `.git` that
/// cannot be read: whether the row owns a tree must not hang on a moment's failure.
pub fn owned_worktree(choice: &WorktreeChoice, cwd: &Path) -> Result<Option<Owned>, String> {
    let found = match choice {
        WorktreeChoice::None => None,
        WorktreeChoice::Path(path) => Some(identify(path)?),
        WorktreeChoice::Auto => linked_worktree(cwd)?,
    };
    Ok(found.map(Owned::from))
}

/// The answer to discover.
pub(super) fn answer(cwd: &Path) -> Answer {
    // Then the worker's own chdir fails too, and tells why. A moment's failure is another thing.
    if let Err(ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied) =
        cwd.metadata().map_err(|e| e.kind())
    {
        return Answer::None;
    }
    match linked_worktree(cwd) {
        Ok(Some(place)) => Answer::Found(place),
        Ok(None) => Answer::None,
        Err(why) => Answer::unknown(why),
    }
}

fn linked_worktree(cwd: &Path) -> Result<Option<Place>, String> {
    let real = std::fs::canonicalize(cwd).map_err(|e| format!("cannot be resolved: {e}"))?;
    for path in real.ancestors() {
        match std::fs::symlink_metadata(path.join(".git")) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{}: {e}", path.join(".git").display())),
            Ok(meta) if meta.is_file() => match kind_of(path, inode(&meta))? {
                Kind::Linked => return identify(path).map(Some),
                Kind::Submodule => {}
                Kind::Other => return Ok(None),
            },
            // A main checkout, or nothing that git makes.
            Ok(_) => return Ok(None),
        }
    }
    Ok(None)
}

enum Kind {
    Linked,
    /// It belongs to the checkout around it.
    Submodule,
    Other,
}

fn kind_of(path: &Path, dot_git: super::Inode) -> Result<Kind, String> {
    let dir = Dir::open(path).map_err(|e| match e {
        DirError::Gone => "is gone".to_owned(),
        DirError::Other(why) => why,
    })?;
    let git_dir = repo::pointed_to(&dir)?;
    if repo::common_dir(&git_dir)?.is_some() {
        repo::check_back_pointer(&git_dir, dot_git)?;
        return Ok(Kind::Linked);
    }
    let is_module = git_dir.components().any(|c| c.as_os_str() == "modules");
    Ok(match is_module {
        true => Kind::Submodule,
        false => Kind::Other,
    })
}
