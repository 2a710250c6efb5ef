//! Where a user's daemon keeps its things (sections 2, 13, 14): from the environment alone, so
//! that the daemon and its client come to the same answer.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of a private daemon's socket in its runtime directory.
const PRIVATE_SOCKET: &str = "sock";

/// journald's socket for streams (systemd-journald.service(8)).
const JOURNAL_STDOUT: &str = "/run/systemd/journal/stdout";

/// What the answers are made from. A test brings its own.
pub trait System {
    /// An environment variable; an empty one counts as unset.
    fn env(&self, name: &str) -> Option<OsString>;
    /// The caller's effective uid.
    fn uid(&self) -> u32;
    /// The caller's home directory from passwd, where `HOME` is unset.
    fn passwd_home(&self) -> Option<PathBuf>;
    /// Is this a real directory that belongs to the caller?
    fn is_own_dir(&self, path: &Path) -> bool;
}

/// The system as it is.
#[derive(Debug)]
pub struct Real;

impl System for Real {
    fn env(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }

    fn uid(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn passwd_home(&self) -> Option<PathBuf> {
        let uid = nix::unistd::Uid::from_raw(rustix::process::geteuid().as_raw());
        let user = nix::unistd::User::from_uid(uid).ok().flatten()?;
        Some(user.dir)
    }

    fn is_own_dir(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path)
            .is_ok_and(|m| m.is_dir() && m.uid() == rustix::process::geteuid().as_raw())
    }
}

/// Directories of a private daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Private {
    /// State.
    pub state: PathBuf,
    /// Socket and runtime files.
    pub runtime: PathBuf,
}

impl Private {
    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.runtime.join(PRIVATE_SOCKET)
    }
}

/// There is no telling.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// A variable by hand is not an absolute path.
    #[error("{name}={}: is not an absolute path", .path.display())]
    Relative {
        /// The variable.
        name: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// No home directory.
    #[error(
        "cannot tell where to keep the state: HOME is unset; set HOME, XDG_STATE_HOME or \
         MUSTERD_STATE_DIR"
    )]
    NoHome,
}

/// `$XDG_RUNTIME_DIR`, else `/run/user/UID` if it is the caller's own.
pub fn runtime_root(system: &dyn System) -> Option<PathBuf> {
    if let Some(dir) = absolute(system, "XDG_RUNTIME_DIR") {
        return Some(dir);
    }
    let dir = PathBuf::from(format!("/run/user/{}", system.uid()));
    system.is_own_dir(&dir).then_some(dir)
}

/// An absolute path from the environment; relative ones are ignored (XDG base directories).
pub fn absolute(system: &dyn System, name: &str) -> Option<PathBuf> {
    system
        .env(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

/// Directories of this user's private daemon.
pub fn private(system: &dyn System) -> Result<Private, NoPlace> {
    let by_hand = |name: &'static str| match system.env(name).map(PathBuf::from) {
        Some(path) if path.is_absolute() => Ok(Some(path)),
        Some(path) => Err(NoPlace::Relative { name, path }),
        None => Ok(None),
    };
    let given_state = by_hand("MUSTERD_STATE_DIR")?;
    let given_runtime = by_hand("MUSTERD_RUNTIME_DIR")?;
    let runtime = match (given_runtime, &given_state) {
        (Some(runtime), _) => runtime,
        // Another state directory is another daemon, and must not meet the usual one's socket.
        (None, Some(state)) => state.join("run"),
        (None, None) => match runtime_root(system) {
            Some(root) => root.join("musterd"),
            None => PathBuf::from(format!("/tmp/musterd-{}", system.uid())),
        },
    };
    let state = match given_state {
        Some(state) => state,
        None => state_dir(system)?,
    };
    Ok(Private { state, runtime })
}

fn state_dir(system: &dyn System) -> Result<PathBuf, NoPlace> {
    if let Some(dir) = absolute(system, "XDG_STATE_HOME") {
        return Ok(dir.join("musterd"));
    }
    absolute(system, "HOME")
        .or_else(|| system.passwd_home())
        .map(|home| home.join(".local/state/musterd"))
        .ok_or(NoPlace::NoHome)
}

/// journald's socket for streams; a test brings its own.
pub fn journal_stdout(system: &dyn System) -> PathBuf {
    absolute(system, "MUSTERD_JOURNAL_SOCKET").unwrap_or_else(|| JOURNAL_STDOUT.into())
}

/// `$XDG_CONFIG_HOME`, else `.config` in the home directory.
pub fn config_home(system: &dyn System) -> Option<PathBuf> {
    absolute(system, "XDG_CONFIG_HOME").or_else(|| {
        absolute(system, "HOME")
            .or_else(|| system.passwd_home())
            .map(|home| home.join(".config"))
    })
}

/// Where configuration lies below another root, for tests and for trying things out.
pub fn config_root(system: &dyn System) -> Option<PathBuf> {
    absolute(system, "MUSTERD_CONFIG_ROOT")
}
