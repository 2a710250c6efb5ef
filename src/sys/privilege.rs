//! What the process may and how much: capabilities, subreaper, descriptor limit.
#![allow(unsafe_code)]

use std::io;

use caps::{CapSet, Capability, CapsHashSet};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, set_child_subreaper, setrlimit};

use super::spawn;

/// Descriptors wanted by the daemon: a pidfd, an events file and channels for each worker.
const NOFILE_WANTED: u64 = 524_288;

/// All that a daemon for several users needs, each for one thing:
/// - `SETUID`, `SETGID`: start a worker under its owner's ids;
/// - `KILL`: end it, and have the parent-death signal delivered across uids;
/// - `SETPCAP`: empty a worker's bounding set.
const NEEDED: [Capability; 4] = [
    Capability::CAP_SETUID,
    Capability::CAP_SETGID,
    Capability::CAP_KILL,
    Capability::CAP_SETPCAP,
];

/// What a root daemon uses besides, where there is no `musterd` user: it removes what root's
/// workers left, raises limits, and reads the environment of processes that have more
/// capabilities than itself (without cgroups that is how they are found).
const USED_BY_ROOT: [Capability; 3] = [
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_SYS_RESOURCE,
];

/// Without one of these, workers run under the daemon's own ids only.
const OTHER_IDS: [Capability; 3] = [
    Capability::CAP_SETUID,
    Capability::CAP_SETGID,
    Capability::CAP_KILL,
];

/// What was found at the start and holds for life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Privileges {
    /// Workers of other users can be started, signalled and tied to our life.
    pub other_ids: bool,
    /// A worker's bounding set is emptied: no program gives it a capability back.
    pub drop_bounding: bool,
}

/// Keeps the capabilities that are needed and drops all others from every set of the calling
/// thread. Call it before another thread is started: sets belong to threads, and new threads
/// inherit them.
///
/// Where setuid programs work in this process (`no_new_privs` is off), its operator wants them
/// to: the bounding set stays then, here and in workers, or `sudo` would make a root without
/// rights. But not `SYS_ADMIN`, which `worker-sudo.conf` lends to the service manager only.
///
/// # Errors
/// A set could not be read or written; nothing may be assumed of the others then.
pub fn settle_capabilities() -> io::Result<Privileges> {
    let error = |e: caps::errors::CapsError| io::Error::other(e.to_string());
    let permitted = caps::read(None, CapSet::Permitted).map_err(error)?;
    let is_root = rustix::process::geteuid().is_root();
    let no_new_privs = no_new_privs()?;
    let mut keep: CapsHashSet = NEEDED.into_iter().collect();
    if is_root {
        keep.extend(USED_BY_ROOT);
    }
    let keep: CapsHashSet = keep.intersection(&permitted).copied().collect();
    let may = |capability| keep.contains(&capability);
    let drop_bounding = no_new_privs && may(Capability::CAP_SETPCAP);
    // A change of ids has emptied it.
    caps::set(None, CapSet::Effective, &keep).map_err(error)?;
    if may(Capability::CAP_SETPCAP) {
        for capability in caps::read(None, CapSet::Bounding).map_err(error)? {
            let lent = capability == Capability::CAP_SYS_ADMIN && !is_root;
            if lent || (no_new_privs && !keep.contains(&capability)) {
                caps::drop(None, CapSet::Bounding, capability).map_err(error)?;
            }
        }
    }
    // Children get what they get by the child's own hands; nothing passes execve by itself.
    // The first to go, since an ambient capability must be permitted and inheritable.
    match caps::clear(None, CapSet::Ambient) {
        Err(e) if caps::runtime::ambient_set_supported().is_ok() => return Err(error(e)),
        _ => {}
    }
    caps::set(None, CapSet::Inheritable, &CapsHashSet::new()).map_err(error)?;
    caps::set(None, CapSet::Permitted, &keep).map_err(error)?;
    Ok(Privileges {
        other_ids: OTHER_IDS.into_iter().all(may),
        drop_bounding,
    })
}

/// What is permitted passes the execve of the next image of ourselves: inheritable and ambient.
/// For the main thread, right before it; a user's own daemon has nothing to pass.
///
/// # Errors
/// A set could not be read or written.
pub fn pass_on_exec() -> io::Result<()> {
    let error = |e: caps::errors::CapsError| io::Error::other(e.to_string());
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let permitted = caps::read(None, CapSet::Permitted).map_err(error)?;
    caps::set(None, CapSet::Inheritable, &permitted).map_err(error)?;
    for capability in permitted {
        caps::raise(None, CapSet::Ambient, capability).map_err(error)?;
    }
    Ok(())
}

/// Gives up root for a user, with the capabilities still permitted: [`settle_capabilities`] comes
/// next. For who must be executed as root, see `worker-sudo.conf`. No other thread may exist.
///
/// # Errors
/// There is no such user, or we are not root.
pub fn become_user(name: &str) -> io::Result<()> {
    let unknown = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no user {name:?}"),
        )
    };
    let user = nix::unistd::User::from_name(name)?.ok_or_else(unknown)?;
    if nix::unistd::geteuid() == user.uid {
        // The image before has done it.
        return Ok(());
    }
    let c_name = std::ffi::CString::new(name).map_err(io::Error::other)?;
    nix::unistd::initgroups(&c_name, user.gid)?;
    nix::unistd::setresgid(user.gid, user.gid, user.gid)?;
    caps::securebits::set_keepcaps(true).map_err(|e| io::Error::other(e.to_string()))?;
    nix::unistd::setresuid(user.uid, user.uid, user.uid)?;
    caps::securebits::set_keepcaps(false).map_err(|e| io::Error::other(e.to_string()))?;
    // As execve leaves it for who was started under these ids; else /proc/self is root's.
    // SAFETY: no pointers.
    super::cvt(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }.into())?;
    Ok(())
}

/// As they are, nothing dropped: a person's own daemon may do what the person may.
///
/// # Errors
/// The effective set could not be read.
pub fn look_at_capabilities() -> io::Result<Privileges> {
    let effective = caps::read(None, CapSet::Effective);
    let effective = effective.map_err(|e| io::Error::other(e.to_string()))?;
    Ok(Privileges {
        other_ids: OTHER_IDS.iter().all(|c| effective.contains(c)),
        drop_bounding: false,
    })
}

fn no_new_privs() -> io::Result<bool> {
    // SAFETY: no pointers.
    let answer = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) };
    Ok(super::cvt(answer.into())? == 1)
}

/// Does something with files as if done by `uid`, which then owns what is made: the user id for
/// file access belongs to the thread (setfsuid(2)). The group stays ours, so a directory that
/// our group may write to is where this works. Needs `CAP_SETUID`.
///
/// # Errors
/// What `work` says, or `EPERM` if the id was not taken; nothing was done then.
pub fn as_file_owner<T>(uid: u32, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mine = rustix::process::geteuid().as_raw();
    // The change takes the process's dumpable attribute away, which belongs to all threads.
    // SAFETY: no pointers.
    let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) };
    set_file_owner(uid);
    // An id that is none changes nothing; the answer is the one in force.
    let result = if u32::try_from(set_file_owner(u32::MAX)) == Ok(uid) {
        work()
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    };
    set_file_owner(mine);
    if dumpable == 1 {
        // SAFETY: no pointers.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    }
    result
}

/// setfsuid(2): of this thread only, and it cannot fail. Answers the id before.
fn set_file_owner(uid: u32) -> libc::c_long {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) }
}

/// Orphaned descendants come to this process instead of to init (`PR_SET_CHILD_SUBREAPER`).
/// Not inherited by fork, kept over exec.
pub fn become_subreaper() -> io::Result<()> {
    // Any pid means "on".
    Ok(set_child_subreaper(Some(Pid::INIT))?)
}

/// Raises our own descriptor limit as far as it goes and returns the old one, which workers get
/// back: select(2) in old programs breaks above 1024.
pub fn raise_nofile() -> spawn::Rlimit {
    let old = getrlimit(Resource::Nofile);
    let hard = old.maximum.unwrap_or(u64::MAX);
    let wanted = hard.max(NOFILE_WANTED);
    let raised = |limit| Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    // Above the hard limit needs CAP_SYS_RESOURCE; up to it nothing.
    if setrlimit(Resource::Nofile, raised(wanted)).is_err()
        && let Err(error) = setrlimit(Resource::Nofile, raised(hard))
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    spawn::Rlimit {
        resource: libc::RLIMIT_NOFILE,
        soft: old.current.unwrap_or(u64::MAX),
        hard,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    use super::*;

    /// Sets belong to threads, so a test's own thread may lose them.
    fn in_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn nothing_but_what_is_needed_is_kept() {
        in_a_thread(|| {
            let before = caps::read(None, CapSet::Permitted).unwrap();
            let got = settle_capabilities().unwrap();
            let after = caps::read(None, CapSet::Permitted).unwrap();
            assert!(after.is_subset(&before));
            assert_eq!(after, caps::read(None, CapSet::Effective).unwrap());
            assert!(!after.contains(&Capability::CAP_SYS_ADMIN));
            assert!(caps::read(None, CapSet::Inheritable).unwrap().is_empty());
            assert!(caps::read(None, CapSet::Ambient).unwrap().is_empty());
            let all = NEEDED.iter().all(|c| before.contains(c));
            assert_eq!(got.other_ids, all);
        });
    }

    #[test]
    fn a_directory_can_be_made_for_somebody_else() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        in_a_thread(|| {
            let dir = tempfile::tempdir().unwrap();
            std::os::unix::fs::chown(dir.path(), None, Some(0)).unwrap();
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o771);
            std::fs::set_permissions(dir.path(), open).unwrap();
            settle_capabilities().unwrap();
            let path = dir.path().join("theirs");
            let mut builder = std::fs::DirBuilder::new();
            builder.mode(0o700);
            as_file_owner(4242, || builder.create(&path)).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().uid(), 4242);
            let own = dir.path().join("own");
            std::fs::create_dir(&own).unwrap();
            assert_eq!(std::fs::metadata(&own).unwrap().uid(), 0);
        });
    }
}
