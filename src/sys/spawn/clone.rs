//! clone3(2) and clone(2) with a stack of the child's own. The child shares memory and
//! descriptor table with the daemon, and the calling thread stands still until it has executed
//! or ended (`CLONE_VM` never without `CLONE_VFORK`).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::sys::cvt;

/// Touched pages are what it costs; a debug build of the child's code needs a few.
const STACK_BYTES: usize = 256 << 10;
const GUARD_BYTES: usize = 64 << 10;

const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::CLONE_FILES;
/// linux/sched.h.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A stack with a guard area below it.
pub(super) struct Stack {
    base: *mut c_void,
}

// SAFETY: the mapping belongs to this value alone and to no thread.
unsafe impl Send for Stack {}

impl Stack {
    pub(super) fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let all = GUARD_BYTES + STACK_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self { base };
        // SAFETY: the range lies within the mapping made above.
        cvt(unsafe {
            libc::mprotect(
                stack.bottom(),
                STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        }
        .into())?;
        Ok(stack)
    }

    fn bottom(&self) -> *mut c_void {
        self.base.wrapping_byte_add(GUARD_BYTES)
    }

    fn top(&self) -> *mut c_void {
        self.bottom().wrapping_byte_add(STACK_BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no child runs on it, since the thread that
        // clones stands still as long as one does.
        unsafe { libc::munmap(self.base, GUARD_BYTES + STACK_BYTES) };
    }
}

/// What the child starts in. It never returns and never unwinds.
pub(super) type Entry = extern "C" fn(*mut c_void) -> c_int;

/// How the child comes into its leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Birth {
    /// `CLONE_INTO_CGROUP` with this directory.
    Into(RawFd),
    /// In the daemon's own cgroup.
    Here,
}

/// The system call was refused as such (an old kernel, a container's seccomp filter), so that
/// clone(2) and a write to `cgroup.procs` should be tried.
pub(super) fn refused_as_such(error: &io::Error, birth: Birth) -> bool {
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM) => true,
        Some(libc::EINVAL | libc::E2BIG | libc::EOPNOTSUPP) => matches!(birth, Birth::Into(_)),
        _ => false,
    }
}

/// Remembers that clone3 is not to be had, so that it is not asked again.
static NO_CLONE3: AtomicBool = AtomicBool::new(!ASM);

pub(super) fn clone3_usable() -> bool {
    !NO_CLONE3.load(Ordering::Relaxed)
}

pub(in crate::sys) fn forget_clone3() {
    NO_CLONE3.store(true, Ordering::Relaxed);
}

/// clone3(2). Returns the child's pid after it has executed or ended; its pidfd is written to
/// `pidfd` before the child runs.
///
/// # Safety
/// `argument` must be what `entry` expects and live until this returns. `entry` may only make
/// system calls that do not touch the daemon's state.
pub(super) unsafe fn clone3(
    stack: &Stack,
    birth: Birth,
    pidfd: &AtomicI32,
    entry: Entry,
    argument: *mut c_void,
) -> io::Result<i32> {
    // SAFETY: clone_args is plain data; zero is the documented default of every field.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::from(FLAGS.cast_unsigned());
    if let Birth::Into(directory) = birth {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = u64::from(directory.cast_unsigned());
    }
    args.pidfd = pidfd.as_ptr() as u64;
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    args.stack = stack.bottom() as u64;
    args.stack_size = STACK_BYTES as u64;
    // SAFETY: `args` is filled; the rest is the caller's promise.
    let result = unsafe { clone3_raw(&raw mut args, entry, argument) };
    if result < 0 {
        let errno = i32::try_from(result.wrapping_neg()).unwrap_or(libc::EIO);
        return Err(io::Error::from_raw_os_error(errno));
    }
    i32::try_from(result).map_err(io::Error::other)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const ASM: bool = true;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ASM: bool = false;

/// The child must not return into the frame it was cloned from (it has another stack), so the
/// call of `entry` is made here, before any compiled code runs.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3_raw(args: *mut libc::clone_args, entry: Entry, argument: *mut c_void) -> isize {
    let result: isize;
    // SAFETY: the parent's path is one system call that clobbers what is listed. In the child
    // rsp is the top of the new stack, r8 and r9 are as set here, and `entry` does not return.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "and rsp, -16",
            "mov rdi, r9",
            "call r8",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 as isize => result,
            in("rdi") args,
            in("rsi") size_of::<libc::clone_args>(),
            in("r8") entry,
            in("r9") argument,
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
unsafe fn clone3_raw(args: *mut libc::clone_args, entry: Entry, argument: *mut c_void) -> isize {
    let result: isize;
    // SAFETY: as on x86_64; x2, x3 and x8 are kept by the kernel.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x3",
            "blr x2",
            "brk #1",
            "2:",
            inlateout("x0") args => result,
            in("x1") size_of::<libc::clone_args>(),
            in("x2") entry,
            in("x3") argument,
            in("x8") libc::SYS_clone3,
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone3_raw(_: *mut libc::clone_args, _: Entry, _: *mut c_void) -> isize {
    -(libc::ENOSYS as isize)
}

/// clone(2), in the daemon's cgroup. As [`clone3`].
///
/// # Safety
/// As [`clone3`].
pub(super) unsafe fn clone(
    stack: &Stack,
    pidfd: &AtomicI32,
    entry: Entry,
    argument: *mut c_void,
) -> io::Result<i32> {
    let flags = FLAGS | libc::SIGCHLD;
    // SAFETY: with CLONE_PIDFD the fifth argument is where the pidfd goes; the rest is the
    // caller's promise.
    let pid =
        cvt(unsafe { libc::clone(entry, stack.top(), flags, argument, pidfd.as_ptr()) }.into())?;
    i32::try_from(pid).map_err(io::Error::other)
}
