//! Real repositories in a temporary directory, and a prober with real helpers.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use musterd::gc::worktree::{HelperIo, HelperLauncher, Later, ProbeOptions, Prober, TreeState};
use musterd::worker::Owner;

use crate::common::program;

/// A directory with a repository `main` of two files and one commit.
pub struct Bench {
    tmp: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// The same with more arguments to `git init`.
    pub fn with(init: &[&str]) -> Self {
        let bench = Self {
            tmp: tempfile::tempdir().unwrap(),
        };
        let main = bench.path("main");
        std::fs::create_dir(&main).unwrap();
        bench.git(&main, &[&["init", "-q", "-b", "trunk"], init].concat());
        bench.write("main/a", "one\n");
        bench.write("main/dir/b", "two\n");
        bench.git(&main, &["add", "."]);
        bench.git(&main, &["commit", "-qm", "first"]);
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.tmp.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A linked worktree on a branch of its name.
    pub fn linked(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.tmp.path().join(name);
        let main = self.path("main");
        let branch = format!("b{}", std::fs::read_dir(self.tmp.path()).unwrap().count());
        let args = ["worktree", "add", "-q", "-b", &branch, "--"].map(OsStr::new);
        let args: Vec<&OsStr> = args.into_iter().chain([path.as_os_str()]).collect();
        assert!(self.try_git(&main, &args), "worktree add");
        path
    }

    /// Runs git, which must end well.
    pub fn git(&self, dir: &Path, args: &[&str]) {
        assert!(self.try_git(dir, args), "git {args:?} in {dir:?}");
    }

    /// Runs git; did it end well?
    pub fn try_git(&self, dir: &Path, args: &[impl AsRef<OsStr>]) -> bool {
        Command::new("git")
            .args(args)
            .current_dir(dir)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.tmp.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_EDITOR", "true")
            .envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|k| (k, "T")))
            .envs(["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|k| (k, "t@t")))
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "protocol.file.allow")
            .env("GIT_CONFIG_VALUE_0", "always")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    }

    /// An executable script.
    pub fn script(&self, name: &str, body: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        self.write(name, &format!("#!/bin/sh\n{body}\n"));
        let path = self.path(name);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// Starts helpers as children of the test.
#[derive(Default)]
pub struct Launcher {
    pub git: Option<PathBuf>,
    /// Instead of musterd.
    pub program: Option<PathBuf>,
    pub started: AtomicUsize,
    pub killed: Arc<AtomicUsize>,
}

impl HelperLauncher for Launcher {
    fn launch(&self, _: Owner) -> Later<io::Result<HelperIo>> {
        self.started.fetch_add(1, Ordering::SeqCst);
        let musterd = || program("musterd");
        let spawned = Command::new(self.program.clone().unwrap_or_else(musterd))
            .arg("probe")
            .args(&self.git)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let killed = Arc::clone(&self.killed);
        Box::pin(async move {
            let mut child = spawned?;
            Ok(HelperIo {
                stdin: OwnedFd::from(child.stdin.take().unwrap()),
                stdout: OwnedFd::from(child.stdout.take().unwrap()),
                kill: Box::new(move || {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    killed.fetch_add(1, Ordering::SeqCst);
                }),
            })
        })
    }
}

pub const ME: Owner = Owner { uid: 0, gid: 0 };

pub fn prober(launcher: Launcher, limit: Duration, ignored: bool) -> (Prober, Arc<Launcher>) {
    let launcher = Arc::new(launcher);
    let options = ProbeOptions {
        ignored,
        limit,
        keep: 2,
    };
    (Prober::new(launcher.clone(), options), launcher)
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// One probe with everything as it is by default.
pub fn probe(path: &Path) -> TreeState {
    probe_with(path, None, false)
}

pub fn probe_with(path: &Path, git: Option<PathBuf>, ignored: bool) -> TreeState {
    let launcher = Launcher {
        git,
        ..Launcher::default()
    };
    block_on(async {
        let (prober, _) = prober(launcher, Duration::from_secs(30), ignored);
        prober.probe(ME, path.to_owned(), None).await
    })
}
