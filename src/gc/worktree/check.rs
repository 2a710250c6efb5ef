//! The check itself: everything that makes a tree clean, in the order of what it costs. Every
//! way out that is not the last line of `Check::tree` says dirty or unknown. Runs in the helper.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::git::{Git, Run};
use super::index::{self, Listing, Scan};
use super::index_copy::IndexCopy;
use super::place::{Dir, DirError, inode, mounted};
use super::repo::{self, Layout, Role};
use super::status::{self, Head};
use super::wire::{Answer, Request};

/// Submodules in submodules in submodules.
const DEPTH_MAX: u32 = 8;

/// An index larger than this is left to git.
const INDEX_MAX: u64 = 64 * 1024 * 1024;

/// Refs that go with the tree keep no commit alive.
const OWN_REFS: [&str; 3] = ["refs/bisect/*", "refs/worktree/*", "refs/rewritten/*"];

/// What ends a check early.
enum Stop {
    Dirty(String),
    Unknown(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Stop::Unknown(why)
    }
}

type Checked = Result<(), Stop>;

/// One request to probe.
pub(super) struct Check<'a> {
    pub(super) git: &'a Git,
    pub(super) ignored: bool,
    pub(super) deadline: Instant,
}

impl Check<'_> {
    /// The answer to a probe.
    pub(super) fn answer(&self, request: &Request) -> Answer {
        match self.root(request) {
            Ok(()) => Answer::Clean,
            Err(Stop::Dirty(what)) => Answer::dirty(what),
            Err(Stop::Unknown(why)) => Answer::unknown(why),
        }
    }

    fn root(&self, request: &Request) -> Checked {
        let path = &request.path;
        let dir = match Dir::open(path) {
            Ok(dir) => dir,
            Err(DirError::Gone) => return gone(request),
            Err(DirError::Other(why)) => return Err(Stop::Unknown(why)),
        };
        match Layout::find(&dir)? {
            Some(layout) => self.tree(&dir, &layout, 0)?,
            None => {
                mounted(path, path, request.mount.as_deref())?;
                plain(&dir)?;
            }
        }
        match dir.is_still_there() {
            true => Ok(()),
            false => Err(Stop::Unknown("was replaced while it was looked at".into())),
        }
    }

    /// A checkout: of the row, or a submodule in it.
    fn tree(&self, dir: &Dir, layout: &Layout, depth: u32) -> Checked {
        if let Some(reason) = layout.locked()? {
            let reason = match reason.is_empty() {
                true => "no reason given",
                false => &reason,
            };
            return Err(Stop::Dirty(format!(
                "locked by git worktree lock: {reason}"
            )));
        }
        let repo = Repository {
            check: self,
            dir,
            layout,
            filters: self.filters(layout)?,
        };
        repo.is_its_own()?;
        if let Some(what) = repo.in_progress()? {
            return Err(Stop::Dirty(what));
        }
        let head = repo.status(None)?;
        let scan = repo.look_behind_flags()?;
        if let Head::Detached(commit) = head {
            repo.is_reachable(&commit)?;
        }
        for path in &scan.gitlinks {
            self.submodule(dir, path, depth)
                .map_err(|stop| stop.of_submodule(path))?;
        }
        Ok(())
    }

    /// The drivers whose programs git would run over the files of the tree.
    fn filters(&self, layout: &Layout) -> Result<Vec<OsString>, Stop> {
        if !layout.config_mentions("filter") && !layout.config_mentions("include") {
            return Ok(Vec::new());
        }
        let list = self.git.run(Run {
            git_dir: &layout.git_dir,
            work_tree: None,
            filters: &[],
            index: None,
            stdin: None,
            args: &["config", "--list", "-z"].map(OsStr::new),
            deadline: self.deadline,
        })?;
        repo::filter_drivers(&list)
            .ok_or_else(|| Stop::Unknown("the list of git config is cut off".into()))
    }

    /// git status is told to stay out of submodules, since it would run their filters.
    fn submodule(&self, parent: &Dir, path: &Path, depth: u32) -> Checked {
        if depth >= DEPTH_MAX {
            return Err(Stop::Unknown("submodules are nested too deeply".into()));
        }
        let dir = match Dir::open(&parent.path().join(path)) {
            Ok(dir) => dir,
            // Removed is what git status has reported, or a sparse checkout.
            Err(DirError::Gone) => return Ok(()),
            Err(DirError::Other(why)) => return Err(Stop::Unknown(why)),
        };
        match Layout::find(&dir)? {
            Some(layout) => self.tree(&dir, &layout, depth + 1),
            None => plain(&dir),
        }
    }
}

impl Stop {
    fn of_submodule(self, path: &Path) -> Self {
        let path = path.display();
        match self {
            Stop::Dirty(what) => Stop::Dirty(format!("submodule {path}: {what}")),
            Stop::Unknown(why) => Stop::Unknown(format!("submodule {path}: {why}")),
        }
    }
}

/// Nothing can be lost in what is not there, if its file system is.
fn gone(request: &Request) -> Checked {
    let parent = request.path.parent().unwrap_or(Path::new("/"));
    mounted(&request.path, parent, request.mount.as_deref())
        .map_err(|why| Stop::Unknown(format!("is gone, but it {why}")))?;
    if request.mount.is_none() {
        looks_unmounted(parent)?;
    }
    Ok(())
}

/// An empty directory of somebody else is what a mount point looks like without its mount.
fn looks_unmounted(parent: &Path) -> Checked {
    use std::os::unix::fs::MetadataExt;
    let cannot = |e: std::io::Error| Stop::Unknown(format!("its parent cannot be read: {e}"));
    let meta = std::fs::metadata(parent).map_err(cannot)?;
    if meta.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    match std::fs::read_dir(parent).map_err(cannot)?.next() {
        Some(_) => Ok(()),
        None => Err(Stop::Unknown(
            "is gone, and its parent is empty, as a mount point without its mount is".into(),
        )),
    }
}

/// A directory that is no checkout: whatever lies in it could be lost.
fn plain(dir: &Dir) -> Checked {
    let cannot = |e| Stop::Unknown(format!("cannot be read: {e}"));
    match std::fs::read_dir(dir.by_fd()).map_err(cannot)?.count() {
        0 => Ok(()),
        some => Err(Stop::Dirty(format!(
            "not a git worktree; {some} entries in it"
        ))),
    }
}

/// One checkout with all that is needed to ask git about it.
struct Repository<'a> {
    check: &'a Check<'a>,
    dir: &'a Dir,
    layout: &'a Layout,
    filters: Vec<OsString>,
}

impl Repository<'_> {
    fn run<'r>(&'r self, work_tree: Option<&'r Path>, args: &'r [&'r OsStr]) -> Run<'r> {
        Run {
            git_dir: &self.layout.git_dir,
            work_tree,
            filters: &self.filters,
            index: None,
            stdin: None,
            args,
            deadline: self.check.deadline,
        }
    }

    /// Does the repository say that its files are elsewhere? For a linked worktree git does not
    /// look at `core.worktree`; there the back pointer was checked.
    fn is_its_own(&self) -> Checked {
        let layout = self.layout;
        let mentions = layout.config_mentions("worktree") || layout.config_mentions("include");
        if layout.role == Role::Linked || !mentions {
            return Ok(());
        }
        let args = ["config", "-z", "--get", "core.worktree"].map(OsStr::new);
        let Some(value) = self.check.git.run_or_nothing(self.run(None, &args))? else {
            return Ok(());
        };
        let value = value.strip_suffix(b"\0").unwrap_or(&value);
        let target = layout.git_dir.join(OsStr::from_bytes(value));
        match std::fs::metadata(&target) {
            Ok(meta) if inode(&meta) == self.dir.inode() => Ok(()),
            _ => Err(Stop::Unknown(format!(
                "its repository keeps the files elsewhere (core.worktree is {})",
                target.display()
            ))),
        }
    }

    fn in_progress(&self) -> Result<Option<String>, Stop> {
        if let Some(what) = self.layout.in_progress()? {
            return Ok(Some(what));
        }
        if !self.layout.config_mentions("reftable") {
            return Ok(None);
        }
        // There these two are no files.
        for (name, what) in [
            ("CHERRY_PICK_HEAD", "a cherry-pick"),
            ("REVERT_HEAD", "a revert"),
        ] {
            let args = ["rev-parse", "--verify", "--quiet", name].map(OsStr::new);
            if self
                .check
                .git
                .run_or_nothing(self.run(None, &args))?
                .is_some()
            {
                return Ok(Some(format!("{what} is in progress ({name})")));
            }
        }
        Ok(None)
    }

    fn status(&self, index: Option<&Path>) -> Result<Head, Stop> {
        let ignored = match self.check.ignored {
            true => "--ignored=traditional",
            false => "--ignored=no",
        };
        let args = [
            "status",
            "--porcelain=v2",
            "--branch",
            "--no-ahead-behind",
            "--no-renames",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
            ignored,
        ]
        .map(OsStr::new);
        let tree = self.dir.by_fd();
        let output = self.check.git.run(Run {
            index,
            ..self.run(Some(&tree), &args)
        })?;
        let status = status::parse(&output)?;
        match status.changes() {
            Some(changes) => Err(Stop::Dirty(changes)),
            None => Ok(status.head),
        }
    }

    /// git status takes the word of assume-unchanged and skip-worktree; here the files are
    /// compared all the same, on a copy of the index without the flags.
    fn look_behind_flags(&self) -> Result<Scan, Stop> {
        let path = self.layout.git_dir.join("index");
        if !repo::exists(&path)? {
            return Ok(Scan::default());
        }
        let other_names = self.layout.config_mentions("objectformat");
        let quick = match other_names {
            true => None,
            false => repo::read_some(&path, INDEX_MAX).ok(),
        };
        if let Some(scan) = quick.and_then(|bytes| index::scan(&bytes))
            && !scan.flagged
        {
            return Ok(scan);
        }
        let tree = self.dir.by_fd();
        let args = ["ls-files", "-s", "-v", "-z"].map(OsStr::new);
        let output = self.check.git.run(self.run(Some(&tree), &args))?;
        let listing = index::parse_ls_files(&output)
            .ok_or_else(|| Stop::Unknown("git ls-files printed what is not understood".into()))?;
        self.compare_flagged(&path, &listing)?;
        Ok(Scan {
            flagged: false,
            gitlinks: listing.gitlinks,
        })
    }

    fn compare_flagged(&self, index: &Path, listing: &Listing) -> Checked {
        // What a sparse checkout left out is not there, and cannot be lost.
        let mut skipped = Vec::new();
        for path in &listing.skipped {
            if is_there(&self.dir.join(path))? {
                skipped.push(path.clone());
            }
        }
        if listing.assumed.is_empty() && skipped.is_empty() {
            return Ok(());
        }
        let copy = IndexCopy::of(index).map_err(|e| format!("cannot copy its index: {e}"))?;
        for (flag, paths) in [
            ("--no-assume-unchanged", &listing.assumed),
            ("--no-skip-worktree", &skipped),
        ] {
            if !paths.is_empty() {
                self.clear(&copy, flag, paths)?;
            }
        }
        self.status(Some(&copy.path())).map(drop)
    }

    fn clear(&self, copy: &IndexCopy, flag: &str, paths: &[PathBuf]) -> Checked {
        let list = copy
            .list(paths)
            .map_err(|e| format!("cannot write a list of paths: {e}"))?;
        let tree = self.dir.by_fd();
        let args = ["update-index", flag, "-z", "--stdin"].map(OsStr::new);
        self.check.git.run(Run {
            index: Some(&copy.path()),
            stdin: Some(list),
            ..self.run(Some(&tree), &args)
        })?;
        Ok(())
    }

    /// Does a ref that outlives the tree reach the commit?
    fn is_reachable(&self, commit: &str) -> Checked {
        let excludes = OWN_REFS.map(|refs| format!("--exclude={refs}"));
        let mut args = ["rev-list", "--count", "--max-count=1", commit, "--not"].to_vec();
        args.extend(excludes.iter().map(String::as_str));
        args.push("--glob=refs/*");
        let args: Vec<&OsStr> = args.into_iter().map(OsStr::new).collect();
        let output = self.check.git.run(self.run(None, &args))?;
        match output.trim_ascii() {
            b"0" => Ok(()),
            b"1" => Err(Stop::Dirty(format!(
                "HEAD is detached at {}, which no ref reaches",
                &commit[..commit.len().min(12)]
            ))),
            _ => Err(Stop::Unknown(
                "git rev-list printed what is not understood".into(),
            )),
        }
    }
}

/// A path of the index may lead through what is a file or a link by now; then it is not there.
fn is_there(path: &Path) -> Result<bool, Stop> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) => match e.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => Ok(false),
            _ => Err(Stop::Unknown(format!(
                "a file of it cannot be looked at: {e}"
            ))),
        },
    }
}
