//! Runs git in a repository that nobody trusts: nothing that its configuration names is
//! executed, no lock is taken, nothing is fetched, and an end comes in time.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::sys::pdeathsig::die_with_parent;

/// Where git is looked for. No directory a user may write to.
const PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// More output than this is not read: 4 million entries.
const OUTPUT_MAX: usize = 256 * 1024 * 1024;

/// Of what git says on standard error.
const STDERR_MAX: usize = 4096;

/// The whole environment.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("LC_ALL", "C"),
    ("HOME", "/nonexistent"),
    ("XDG_CONFIG_HOME", "/nonexistent"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("GIT_PAGER", "cat"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
];

/// What the repository's configuration may not decide: programs to run, and what of the tree is
/// looked at. Handed over by environment, which has precedence over every file.
const OVERRIDES: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "/bin/false"),
    ("core.gitProxy", "/bin/false"),
    ("core.alternateRefsCommand", "/bin/false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.fileMode", "true"),
    ("core.ignoreCase", "false"),
    ("core.ignoreStat", "false"),
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("status.showUntrackedFiles", "all"),
    ("status.showStash", "false"),
    ("status.renames", "false"),
    ("submodule.recurse", "false"),
    ("diff.ignoreSubmodules", "none"),
    ("diff.external", ""),
    // A hint on standard error would look like a warning.
    ("advice.sparseIndexExpanded", "false"),
    ("protocol.allow", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// The program git.
#[derive(Debug, Clone)]
pub(super) struct Git {
    program: PathBuf,
}

/// One run.
pub(super) struct Run<'a> {
    pub(super) git_dir: &'a Path,
    /// Also the directory it runs in, if it needs a work tree.
    pub(super) work_tree: Option<&'a Path>,
    /// Drivers to switch off.
    pub(super) filters: &'a [OsString],
    /// Another index than the repository's.
    pub(super) index: Option<&'a Path>,
    /// Standard input.
    pub(super) stdin: Option<File>,
    pub(super) args: &'a [&'a OsStr],
    pub(super) deadline: Instant,
}

impl Git {
    /// The one to use, else the first of the trusted directories.
    pub(super) fn find(given: Option<PathBuf>) -> Result<Self, String> {
        let program = given.or_else(|| {
            let mut candidates = PATH.iter().map(|dir| Path::new(dir).join("git"));
            candidates.find(|path| path.is_file())
        });
        match program {
            Some(program) => Ok(Self { program }),
            None => Err(format!("git is not installed in {}", PATH.join(", "))),
        }
    }

    /// Standard output of a run that ended well and had nothing to complain of. A warning is an
    /// error here: git says so, and goes on, where it may not read a directory.
    pub(super) fn run(&self, run: Run<'_>) -> Result<Vec<u8>, String> {
        match self.run_to_end(run)? {
            (Some(0), stdout) => Ok(stdout),
            (code, _) => Err(format!("git ended with {code:?}")),
        }
    }

    /// The same for a command that says "nothing" by exit code 1 and prints nothing then.
    pub(super) fn run_or_nothing(&self, run: Run<'_>) -> Result<Option<Vec<u8>>, String> {
        match self.run_to_end(run)? {
            (Some(0), stdout) => Ok(Some(stdout)),
            (Some(1), stdout) if stdout.is_empty() => Ok(None),
            (code, _) => Err(format!("git ended with {code:?}")),
        }
    }

    fn run_to_end(&self, run: Run<'_>) -> Result<(Option<i32>, Vec<u8>), String> {
        let verb = run.args.first().copied().unwrap_or_default();
        let verb = format!("git {}", verb.display());
        let deadline = run.deadline;
        let cannot = |e: io::Error| format!("cannot run {}: {e}", self.program.display());
        let child = self.command(run).spawn().map_err(cannot)?;
        let (end, out, err) = Group(child)
            .collect(deadline)
            .map_err(|why| format!("{verb} {why}"))?;
        let first = String::from_utf8_lossy(&err);
        let said = first.lines().next().unwrap_or_default();
        match end.code() {
            None => Err(format!("{verb} was ended by a signal ({end})")),
            Some(code @ (0 | 1)) if err.is_empty() => Ok((Some(code), out)),
            Some(0) => Err(format!("{verb} warned: {said}")),
            Some(code) => Err(format!("{verb} failed with {code}: {said}")),
        }
    }

    fn command(&self, run: Run<'_>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .envs(ENVIRONMENT.iter().copied())
            .env("GIT_DIR", run.git_dir)
            .args(["--no-optional-locks", "--no-pager"])
            .args(run.args)
            .stdin(run.stdin.map_or_else(Stdio::null, Stdio::from))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        match run.work_tree {
            // The directory that was opened, whatever its path names by now.
            Some(dir) => command.current_dir(dir).env("GIT_WORK_TREE", "."),
            None => command.current_dir(run.git_dir),
        };
        if let Some(index) = run.index {
            command.env("GIT_INDEX_FILE", index);
        }
        let mut count = 0;
        let mut set = |key: &OsStr, value: &str| {
            command.env(format!("GIT_CONFIG_KEY_{count}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        };
        for (key, value) in OVERRIDES {
            set(OsStr::new(key), value);
        }
        for driver in run.filters {
            for (variable, value) in [
                ("clean", ""),
                ("smudge", ""),
                ("process", ""),
                ("required", "false"),
            ] {
                let mut key = OsString::from("filter.");
                key.push(driver);
                key.push(".");
                key.push(variable);
                set(&key, value);
            }
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
        die_with_parent(&mut command);
        command
    }
}

/// A child that leads its own group. Dropped, all of the group is killed and the child reaped.
struct Group(Child);

impl Group {
    fn collect(
        mut self,
        deadline: Instant,
    ) -> Result<(std::process::ExitStatus, Vec<u8>, Vec<u8>), String> {
        let lost = |e: &dyn std::fmt::Display| format!("cannot be followed: {e}");
        let pidfd =
            pidfd_open(Pid::from_child(&self.0), PidfdFlags::empty()).map_err(|e| lost(&e))?;
        let stdout = self.0.stdout.take().map(OwnedFd::from);
        let stderr = self.0.stderr.take().map(OwnedFd::from);
        let mut streams = [
            Stream::new(stdout, OUTPUT_MAX),
            Stream::new(stderr, STDERR_MAX),
        ];
        let mut ended = false;
        while !ended || streams.iter().any(|s| s.file.is_some()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("timed out".to_owned());
            }
            ended |= step(&mut streams, &pidfd, ended, left).map_err(|e| lost(&e))?;
        }
        // The leader is not reaped yet, so the group's number cannot be somebody else's.
        self.kill();
        let end = self.0.wait().map_err(|e| lost(&e))?;
        let [out, err] = streams;
        match out.dropped {
            true => Err(format!("printed more than {OUTPUT_MAX} bytes")),
            false => Ok((end, out.bytes, err.bytes)),
        }
    }

    fn kill(&self) {
        // ESRCH: nobody is left, which is what is wanted.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.kill();
            let _ = self.0.wait();
        }
    }
}

struct Stream {
    file: Option<File>,
    bytes: Vec<u8>,
    most: usize,
    dropped: bool,
}

impl Stream {
    fn new(fd: Option<OwnedFd>, most: usize) -> Self {
        Self {
            file: fd.map(File::from),
            bytes: Vec::new(),
            most,
            dropped: false,
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut buffer = [0; 32 * 1024];
        let count = file.read(&mut buffer)?;
        if count == 0 {
            self.file = None;
        }
        let room = self.most.saturating_sub(self.bytes.len()).min(count);
        self.bytes.extend_from_slice(&buffer[..room]);
        self.dropped |= room < count;
        Ok(())
    }
}

/// Waits for the next thing to happen and takes it; answers whether the child has ended.
fn step(
    streams: &mut [Stream; 2],
    pidfd: &OwnedFd,
    ended: bool,
    left: Duration,
) -> io::Result<bool> {
    let timeout = Timespec::try_from(left).unwrap_or(Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    });
    let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(3);
    let mut whose = Vec::with_capacity(3);
    for (place, stream) in streams.iter().enumerate() {
        if let Some(file) = &stream.file {
            fds.push(PollFd::new(file, PollFlags::IN));
            whose.push(Some(place));
        }
    }
    if !ended {
        fds.push(PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN));
        whose.push(None);
    }
    match poll(&mut fds, Some(&timeout)) {
        Err(rustix::io::Errno::INTR) => return Ok(false),
        other => other?,
    };
    let ready: Vec<Option<usize>> = fds
        .iter()
        .zip(whose)
        .filter(|(fd, _)| !fd.revents().is_empty())
        .map(|(_, who)| who)
        .collect();
    let mut now_ended = false;
    for who in ready {
        match who {
            Some(place) => streams[place].read()?,
            None => now_ended = true,
        }
    }
    Ok(now_ended)
}
