//! Starts a private daemon for this user (section 13): finds the program, gives it its own
//! session and directories, and waits until it says that it serves.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use super::environment::passed_on;
use super::exit::Failure;
use crate::places::Private;
use crate::sys::session::in_new_session;

/// A daemon that is not ready by then is reported as failed.
pub const START_LIMIT: Duration = Duration::from_secs(15);

/// The daemon's log in its state directory.
const LOG: &str = "daemon.log";

/// What came of a start.
#[derive(Debug)]
pub struct Begun {
    /// It said `ready`; else it ended or gave up, perhaps because another one was first.
    pub ready: bool,
    /// Where its log stood before.
    log_start: u64,
    /// The first process of it.
    child: Child,
}

impl Begun {
    /// Does it serve, or will it? One that has said so may have been killed since.
    pub fn is_there(&mut self) -> bool {
        self.ready && !matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

/// Starts the daemon and waits until it says `ready`, ends, or 15 s have passed.
///
/// # Errors
/// A directory that is not this user's own, no program, or a failed fork.
pub fn start(private: &Private) -> Result<Begun, Failure> {
    make_private_dir(&private.state, "MUSTERD_STATE_DIR")?;
    make_private_dir(&private.runtime, "MUSTERD_RUNTIME_DIR")?;
    let log_path = private.state.join(LOG);
    let cannot = |what: &str, path: &Path, error: io::Error| {
        Failure::unreachable(format!("cannot {what} {}: {error}", path.display()))
    };
    let log = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&log_path)
        .map_err(|e| cannot("open the daemon's log", &log_path, e))?;
    let log_start = log.metadata().map_or(0, |m| m.size());
    let (read, write) =
        ready_pipe().map_err(|e| Failure::unreachable(format!("cannot make a pipe: {e}")))?;

    let program = program();
    let mut command = Command::new(&program);
    command
        .arg("--embedded")
        .arg("--state-dir")
        .arg(&private.state)
        .arg("--runtime-dir")
        .arg(&private.runtime)
        .arg("--ready-fd")
        .arg(write.as_raw_fd().to_string())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    for (name, _) in std::env::vars_os() {
        if !passed_on(&name) && !name.as_encoded_bytes().starts_with(b"MUSTERD_") {
            command.env_remove(name);
        }
    }
    let child = in_new_session(&mut command)
        .spawn()
        .map_err(|e| cannot("start a private daemon: cannot execute", &program, e))?;
    drop(write);
    let ready = wait_ready(&read);
    Ok(Begun {
        ready,
        log_start,
        child,
    })
}

/// A pipe whose write end, and only that, goes on into the daemon.
fn ready_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // This process has one thread and starts nothing else meanwhile.
    rustix::io::fcntl_setfd(&write, FdFlags::empty())?;
    Ok((read, write))
}

/// True on `ready`, false on end of file or after the limit.
fn wait_ready(read: &OwnedFd) -> bool {
    let end = Instant::now() + START_LIMIT;
    let mut said = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(limit) = Timespec::try_from(left) else {
            return false;
        };
        let mut fds = [PollFd::from_borrowed_fd(read.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return false,
        }
        let mut buffer = [0; 64];
        match rustix::io::read(read, &mut buffer) {
            Ok(0) => return said.starts_with(b"ready"),
            Ok(n) => said.extend_from_slice(&buffer[..n]),
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return false,
        }
        if said.starts_with(b"ready\n") {
            return true;
        }
        if said.len() > 64 {
            return false;
        }
    }
}

/// `MUSTERD_BIN`, the one beside this program, that of the same prefix, `/usr/libexec/musterd`, or
/// what PATH finds.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("MUSTERD_BIN").filter(|p| !p.is_empty()) {
        return path.into();
    }
    let own_dir = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.to_owned()));
    // Not every distribution has a libexec.
    let near = |dir: PathBuf| {
        ["musterd", "../libexec/musterd", "../lib/musterd/musterd"].map(|path| dir.join(path))
    };
    own_dir
        .map(near)
        .into_iter()
        .flatten()
        .chain([PathBuf::from("/usr/libexec/musterd")])
        .find(|path| path.is_file())
        .unwrap_or_else(|| "musterd".into())
}

/// The directory, made if it is missing; refused if it is not this user's own.
fn make_private_dir(path: &Path, variable: &str) -> Result<(), Failure> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .or_else(|e| match e.kind() {
            // Also a dangling link or a plain file; the check below says which.
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(e),
        })
        .map_err(|e| Failure::unreachable(format!("cannot make {}: {e}", path.display())))?;
    check_private_dir(path, variable)
}

/// Refuses a directory in which somebody else could put a socket or a file: not a directory, a
/// link, another's, or writable for others (below `/tmp`: open to others in any way).
/// `variable` is what names another one.
pub fn check_private_dir(path: &Path, variable: &str) -> Result<(), Failure> {
    let refuse = |why: String| {
        Failure::unreachable(format!(
            "{} {why}; put that right, or set {variable} to a directory of your own",
            path.display()
        ))
    };
    let meta = fs::symlink_metadata(path)
        .map_err(|e| Failure::unreachable(format!("cannot look at {}: {e}", path.display())))?;
    let own = rustix::process::geteuid().as_raw();
    let forbidden = if path.parent() == Some(Path::new("/tmp")) {
        0o077
    } else {
        0o022
    };
    if meta.is_symlink() {
        Err(refuse("is a symbolic link".to_owned()))
    } else if !meta.is_dir() {
        Err(refuse("is not a directory".to_owned()))
    } else if meta.uid() != own {
        Err(refuse(format!(
            "belongs to uid {}, not to {own}",
            meta.uid()
        )))
    } else if meta.mode() & forbidden != 0 {
        Err(refuse(format!(
            "has mode {:04o} and is open to others",
            meta.mode() & 0o7777
        )))
    } else {
        Ok(())
    }
}

/// Does another daemon that lives hold the state directory's lock? Only looks: taking the lock
/// to find out would make a daemon that is just starting fail.
pub fn is_held(private: &Private) -> bool {
    let pid = fs::read_to_string(private.state.join("lock"))
        .ok()
        .and_then(|text| text.trim().parse::<i32>().ok())
        .filter(|pid| *pid > 0)
        .and_then(rustix::process::Pid::from_raw);
    match pid {
        // EPERM too means that it is there.
        Some(pid) => {
            !matches!(rustix::process::test_kill_process(pid), Err(e) if e == rustix::io::Errno::SRCH)
        }
        None => false,
    }
}

/// Why it failed: what the daemon wrote since the start, at most the last 10 lines.
pub fn failure(private: &Private, begun: &Begun) -> Failure {
    let path = private.state.join(LOG);
    let mut text = String::new();
    if let Ok(mut file) = fs::File::open(&path) {
        let end = file.metadata().map_or(0, |m| m.size());
        let from = begun.log_start.min(end).max(end.saturating_sub(8192));
        let mut bytes = Vec::new();
        if file.seek(SeekFrom::Start(from)).is_ok()
            && file.take(8192).read_to_end(&mut bytes).is_ok()
        {
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let tail = &lines[lines.len().saturating_sub(10)..];
    let mut message = format!(
        "the private daemon did not come up within {} s or ended; its log is {}",
        START_LIMIT.as_secs(),
        path.display()
    );
    for line in tail {
        message.push_str("\n  ");
        message.push_str(&super::output::text::escape(line));
    }
    Failure::unreachable(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_others_can_write_to_or_a_link_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("d");
        make_private_dir(&dir, "X").unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700);
        let link = root.path().join("l");
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(check_private_dir(&link, "X").is_err());
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_private_dir(&dir, "X").is_err());
        let file = root.path().join("f");
        fs::write(&file, "").unwrap();
        assert!(make_private_dir(&file, "X").is_err());
    }

    #[test]
    fn ready_is_told_from_an_early_end() {
        let (read, write) = ready_pipe().unwrap();
        rustix::io::write(&write, b"ready\n").unwrap();
        assert!(wait_ready(&read));
        let (read, write) = ready_pipe().unwrap();
        drop(write);
        assert!(!wait_ready(&read));
    }

    #[test]
    fn a_failed_start_shows_what_the_daemon_said_last() {
        let root = tempfile::tempdir().unwrap();
        let private = Private {
            state: root.path().into(),
            runtime: root.path().into(),
        };
        fs::write(root.path().join(LOG), "old\nnew \x1b[1mone\n").unwrap();
        let begun = Begun {
            ready: false,
            log_start: 4,
            child: Command::new("true").spawn().unwrap(),
        };
        let message = failure(&private, &begun).message;
        assert!(
            message.contains("new \\x1b[1mone") && !message.contains("old"),
            "{message}"
        );
    }
}
