//! What runs between clone and exec, in the daemon's memory and on a stack of its own. Raw
//! system calls only: no allocation, no lock, no panic, no libc wrapper that keeps state (those
//! for user and group ids would signal the daemon's threads).
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering};

use super::{Rlimit, Stage};

/// One slot and the number its descriptor gets.
pub(super) type Move = (c_int, c_int);

/// A length and where the items are; they outlive the child.
pub(super) struct Items<T> {
    first: *const T,
    count: usize,
}

impl<T> Items<T> {
    pub(super) fn of(items: &[T]) -> Self {
        Self {
            first: items.as_ptr(),
            count: items.len(),
        }
    }
}

/// All that the child needs, prepared by the parent, and what it reports.
pub(super) struct Child {
    pub(super) argv: *const *const c_char,
    pub(super) env: *const *const c_char,
    /// Ends with null.
    pub(super) candidates: *const *const c_char,
    /// Null: stay.
    pub(super) cwd: *const c_char,
    pub(super) moves: Items<Move>,
    /// Descriptors from here on are the daemon's.
    pub(super) cut: c_int,
    /// Slot of an opened `cgroup.procs` to join by, else -1.
    pub(super) procs: c_int,
    pub(super) new_session: bool,
    pub(super) rlimits: Items<Rlimit>,
    /// The number as text; null: leave it.
    pub(super) oom_score_adj: *const c_char,
    pub(super) nice: Option<c_int>,
    pub(super) umask: Option<u32>,
    pub(super) ids: Option<(u32, u32)>,
    pub(super) groups: Items<u32>,
    pub(super) drop_bounding: bool,
    pub(super) parent: c_long,
    pub(super) pdeathsig: bool,
    #[cfg(test)]
    pub(super) halt_before_exec: bool,
    /// Reports: the step it is at, the errno of the one that failed, the path tried.
    pub(super) stage: AtomicU8,
    pub(super) errno: AtomicI32,
    pub(super) candidate: AtomicU32,
}

/// Without a libc symbol: `SYS_*` of the 16-bit variants must not be taken on 32-bit machines.
#[cfg(not(any(target_arch = "x86", target_arch = "arm", target_arch = "sparc")))]
mod id_calls {
    pub(super) use libc::{SYS_setgroups, SYS_setresgid, SYS_setresuid};
}
#[cfg(any(target_arch = "x86", target_arch = "arm", target_arch = "sparc"))]
mod id_calls {
    pub(super) use libc::{
        SYS_setgroups32 as SYS_setgroups, SYS_setresgid32 as SYS_setresgid,
        SYS_setresuid32 as SYS_setresuid,
    };
}

/// linux/capability.h, `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// The child's entry; `argument` is a [`Child`].
pub(super) extern "C" fn entry(argument: *mut c_void) -> c_int {
    // SAFETY: the parent passes a Child that lives until this process has executed or ended;
    // all that is written to it are atomics.
    let child = unsafe { &*argument.cast::<Child>() };
    // SAFETY: `Child` was prepared with valid pointers, see prepare.rs.
    let errno = match unsafe { run(child) } {
        Ok(()) => libc::EIO,
        Err(errno) => errno,
    };
    child.errno.store(errno, Ordering::Relaxed);
    loop {
        // SAFETY: ends this process; not exit(3), whose handlers are the daemon's.
        unsafe { libc::syscall(libc::SYS_exit_group, 127) };
    }
}

/// One system call; the error is its errno. The errno variable is that of the thread that
/// cloned, which stands still. Arguments are widened, since the kernel looks at whole registers.
macro_rules! sys {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        // Each caller of this macro is in an unsafe function and passes valid pointers.
        match libc::syscall($number $(, $argument as c_long)*) {
            -1 => Err(*libc::__errno_location()),
            result => Ok(result),
        }
    };
}

/// # Safety
/// Every pointer in `child` must be valid, and this must be the child of a clone.
unsafe fn run(child: &Child) -> Result<(), c_int> {
    // SAFETY: the caller's promise, for all of these.
    unsafe {
        descriptors(child)?;
        group(child)?;
        dispositions(child)?;
        resources(child)?;
        identity(child)?;
        lifeline(child)?;
        image(child)
    }
}

fn at(child: &Child, stage: Stage) {
    child.stage.store(stage as u8, Ordering::Relaxed);
}

/// # Safety
/// As [`run`].
unsafe fn descriptors(child: &Child) -> Result<(), c_int> {
    // SAFETY: no pointers but those of `child`, which are valid.
    unsafe {
        at(child, Stage::CloseFds);
        // Until this is done the table is the daemon's: nothing may be opened or closed in it.
        sys!(
            libc::SYS_close_range,
            child.cut,
            u32::MAX,
            libc::CLOSE_RANGE_UNSHARE
        )?;
        at(child, Stage::JoinLeaf);
        if child.procs >= 0 {
            sys!(libc::SYS_write, child.procs, c"0".as_ptr(), 1_usize)?;
        }
        at(child, Stage::PassFds);
        close_on_exec_below(child.cut)?;
        for i in 0..child.moves.count {
            let (slot, target) = *child.moves.first.wrapping_add(i);
            // All slots lie above all targets, so no source is overwritten.
            sys!(libc::SYS_dup3, slot, target, 0)?;
        }
    }
    Ok(())
}

/// What the daemon itself inherited without the flag must not go on to a worker.
///
/// # Safety
/// The descriptor table must be unshared.
unsafe fn close_on_exec_below(cut: c_int) -> Result<(), c_int> {
    // SAFETY: no pointers; only flags of this process's own table are changed.
    unsafe {
        let last = cut.wrapping_sub(1);
        match sys!(libc::SYS_close_range, 0, last, libc::CLOSE_RANGE_CLOEXEC) {
            // The flag is younger than the call.
            Err(libc::EINVAL) => {
                for fd in 0..cut {
                    match sys!(libc::SYS_fcntl, fd, libc::F_SETFD, libc::FD_CLOEXEC) {
                        Ok(_) | Err(libc::EBADF) => {}
                        Err(errno) => return Err(errno),
                    }
                }
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }
}

/// # Safety
/// As [`run`].
unsafe fn group(child: &Child) -> Result<(), c_int> {
    // SAFETY: no pointers.
    unsafe {
        at(child, Stage::Group);
        if child.new_session {
            sys!(libc::SYS_setsid)?;
        } else {
            sys!(libc::SYS_setpgid, 0, 0)?;
        }
        if sys!(libc::SYS_getpgid, 0)? != sys!(libc::SYS_getpid)? {
            return Err(libc::EPERM);
        }
        if child.new_session {
            at(child, Stage::Terminal);
            match sys!(libc::SYS_ioctl, 0, libc::TIOCSCTTY, 0) {
                Ok(_) | Err(libc::ENOTTY | libc::EINVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(())
}

/// Everything back to default, before anything is unblocked: the daemon's handlers must not run
/// in shared memory, and an ignored signal would stay ignored over exec.
///
/// # Safety
/// As [`run`].
unsafe fn dispositions(child: &Child) -> Result<(), c_int> {
    at(child, Stage::Signals);
    // The kernel's struct sigaction: all zero is SIG_DFL, no flags, an empty mask.
    let default = [0_u64; 8];
    let none: *mut c_void = std::ptr::null_mut();
    for signal in 1..=64 {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            continue;
        }
        // SAFETY: `default` is larger than the kernel's struct; the old one is not asked for.
        unsafe {
            sys!(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                none,
                8_usize
            )?
        };
    }
    Ok(())
}

/// What needs the daemon's privileges.
///
/// # Safety
/// As [`run`].
unsafe fn resources(child: &Child) -> Result<(), c_int> {
    // SAFETY: all pointers are those of `child` or of this frame.
    unsafe {
        at(child, Stage::Rlimit);
        let none: *mut c_void = std::ptr::null_mut();
        for i in 0..child.rlimits.count {
            let limit = *child.rlimits.first.wrapping_add(i);
            let pair = [limit.soft, limit.hard];
            sys!(libc::SYS_prlimit64, 0, limit.resource, pair.as_ptr(), none)?;
        }
        at(child, Stage::Nice);
        if let Some(nice) = child.nice {
            sys!(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, nice)?;
        }
        if !child.oom_score_adj.is_null() {
            // Best effort: a session's own raised value cannot be lowered by its user.
            let path = c"/proc/self/oom_score_adj".as_ptr();
            let flags = libc::O_WRONLY | libc::O_CLOEXEC;
            if let Ok(fd) = sys!(libc::SYS_openat, libc::AT_FDCWD, path, flags, 0) {
                let mut length = 0_usize;
                while *child.oom_score_adj.wrapping_add(length) != 0 {
                    length = length.wrapping_add(1);
                }
                let _ = sys!(libc::SYS_write, fd, child.oom_score_adj, length);
                let _ = sys!(libc::SYS_close, fd);
            }
        }
        if let Some(umask) = child.umask {
            let _ = sys!(libc::SYS_umask, umask);
        }
    }
    Ok(())
}

/// # Safety
/// As [`run`].
unsafe fn identity(child: &Child) -> Result<(), c_int> {
    let Some((uid, gid)) = child.ids else {
        return Ok(());
    };
    // SAFETY: all pointers are those of `child` or of this frame.
    unsafe {
        at(child, Stage::Groups);
        sys!(
            id_calls::SYS_setgroups,
            child.groups.count,
            child.groups.first
        )?;
        at(child, Stage::Gid);
        sys!(id_calls::SYS_setresgid, gid, gid, gid)?;
        at(child, Stage::Capabilities);
        if child.drop_bounding {
            drop_bounding()?;
        }
        at(child, Stage::Uid);
        sys!(id_calls::SYS_setresuid, uid, uid, uid)?;
        // The memory is the daemon's until exec: the new owner must not trace it. The parent
        // puts the daemon's own value back.
        at(child, Stage::Capabilities);
        sys!(libc::SYS_prctl, libc::PR_SET_DUMPABLE, 0, 0, 0, 0)?;
        let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL;
        match sys!(libc::SYS_prctl, libc::PR_CAP_AMBIENT, clear, 0, 0, 0) {
            Ok(_) | Err(libc::EINVAL) => {}
            Err(errno) => return Err(errno),
        }
        let header = [CAPABILITY_VERSION, 0];
        let nothing = [0_u32; 6];
        sys!(libc::SYS_capset, header.as_ptr(), nothing.as_ptr())?;
    }
    Ok(())
}

/// # Safety
/// As [`run`].
unsafe fn drop_bounding() -> Result<(), c_int> {
    for capability in 0..64 {
        // SAFETY: no pointers.
        match unsafe { sys!(libc::SYS_prctl, libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } {
            Ok(_) => {}
            // One past the last that this kernel knows.
            Err(libc::EINVAL) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// After the ids are taken, since their change clears it; then the parent is looked at, since
/// it may have died before this was armed.
///
/// # Safety
/// As [`run`].
unsafe fn lifeline(child: &Child) -> Result<(), c_int> {
    if !child.pdeathsig {
        return Ok(());
    }
    // SAFETY: no pointers.
    unsafe {
        at(child, Stage::DeathSignal);
        sys!(
            libc::SYS_prctl,
            libc::PR_SET_PDEATHSIG,
            libc::SIGKILL,
            0,
            0,
            0
        )?;
        at(child, Stage::ParentGone);
        if sys!(libc::SYS_getppid)? != child.parent {
            return Err(libc::ESRCH);
        }
    }
    Ok(())
}

/// # Safety
/// As [`run`].
unsafe fn image(child: &Child) -> Result<(), c_int> {
    // SAFETY: all pointers are those of `child` or of this frame.
    unsafe {
        at(child, Stage::Chdir);
        if !child.cwd.is_null() {
            sys!(libc::SYS_chdir, child.cwd)?;
        }
        #[cfg(test)]
        if child.halt_before_exec {
            let own = sys!(libc::SYS_getpid)?;
            sys!(libc::SYS_tgkill, own, own, libc::SIGSTOP)?;
        }
        at(child, Stage::Unblock);
        let none = [0_u64; 2];
        let old: *mut c_void = std::ptr::null_mut();
        sys!(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            none.as_ptr(),
            old,
            8_usize
        )?;
        at(child, Stage::Exec);
        execute(child)
    }
}

/// As execvp(3): what is not there is passed over, what may not be executed is remembered.
///
/// # Safety
/// As [`run`].
unsafe fn execute(child: &Child) -> Result<(), c_int> {
    let mut denied = None;
    let mut index = 0_u32;
    loop {
        // SAFETY: the list ends with null, argv and env too; all are valid C strings.
        let errno = unsafe {
            let path = *child.candidates.wrapping_add(index as usize);
            if path.is_null() {
                break;
            }
            sys!(libc::SYS_execve, path, child.argv, child.env).err()
        };
        match errno {
            Some(libc::EACCES) => denied = denied.or(Some(index)),
            Some(libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV) => {}
            Some(errno) => {
                child.candidate.store(index, Ordering::Relaxed);
                return Err(errno);
            }
            None => return Err(libc::EIO),
        }
        index = index.wrapping_add(1);
    }
    let (which, errno) = match denied {
        Some(which) => (which, libc::EACCES),
        None if index == 1 => (0, libc::ENOENT),
        None => (u32::MAX, libc::ENOENT),
    };
    child.candidate.store(which, Ordering::Relaxed);
    Err(errno)
}
