//! A real git repository with linked worktrees.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Repo {
    pub main: PathBuf,
    base: PathBuf,
}

impl Repo {
    /// `BASE/repo` with one commit of two files.
    pub fn new(base: &Path) -> Repo {
        let repo = Repo {
            main: base.join("repo"),
            base: base.to_owned(),
        };
        fs::create_dir_all(&repo.main).unwrap();
        git(&repo.main, &["init", "-q", "-b", "main"]);
        for (key, value) in [
            ("user.name", "e2e"),
            ("user.email", "e2e@localhost"),
            ("commit.gpgsign", "false"),
            ("gc.auto", "0"),
        ] {
            git(&repo.main, &["config", key, value]);
        }
        fs::write(repo.main.join("file"), "one\n").unwrap();
        fs::write(repo.main.join("other"), "two\n").unwrap();
        git(&repo.main, &["add", "."]);
        git(&repo.main, &["commit", "-q", "-m", "start"]);
        repo
    }

    /// A linked worktree on a branch of its own.
    pub fn worktree(&self, name: &str) -> PathBuf {
        let path = self.base.join(name);
        let text = path.to_str().unwrap();
        git(&self.main, &["worktree", "add", "-q", "-b", name, text]);
        path
    }
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_EDITOR", "true")
        .env("LC_ALL", "C");
    command
}

/// Runs git, whatever comes of it.
pub fn try_git(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

/// Runs git and wants success.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let out = try_git(dir, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        out.status.success(),
        "git {args:?} in {}: {}",
        dir.display(),
        text(&out.stderr)
    );
    text(&out.stdout)
}

/// Everything below a directory: kind, mode, size, change time and contents of each file. The
/// time of the last change of an inode cannot be set back, so equal means untouched.
pub fn fingerprint(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    walk(dir, &mut seen);
    seen
}

fn walk(path: &Path, seen: &mut BTreeMap<PathBuf, String>) {
    let meta = fs::symlink_metadata(path).unwrap();
    let contents = if meta.is_file() {
        checksum(&fs::read(path).unwrap())
    } else if meta.is_symlink() {
        checksum(fs::read_link(path).unwrap().as_os_str().as_bytes())
    } else {
        0
    };
    seen.insert(
        path.to_owned(),
        format!(
            "{:o} {} {}.{:09} {contents:016x}",
            meta.mode(),
            meta.size(),
            meta.ctime(),
            meta.ctime_nsec()
        ),
    );
    if meta.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            walk(&entry.unwrap().path(), seen);
        }
    }
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
