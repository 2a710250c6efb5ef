//! The one call that needs unsafe: a child born in its cgroup, with a pidfd, that shares our
//! memory until it has executed.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// An argument vector as the kernel takes it; borrows its texts.
pub struct Argv<'a> {
    pointers: Vec<*const c_char>,
    _texts: std::marker::PhantomData<&'a CStr>,
}

impl<'a> Argv<'a> {
    pub fn new(texts: &[&'a CStr]) -> Self {
        let pointers = texts.iter().map(|text| text.as_ptr());
        Self {
            pointers: pointers.chain([std::ptr::null()]).collect(),
            _texts: std::marker::PhantomData,
        }
    }
}

/// clone3(2) with VM, VFORK and PIDFD, into `leaf`; in the child setpgid(2) and execve(2).
pub fn start(leaf: BorrowedFd<'_>, argv: &Argv<'_>, env: &Argv<'_>) -> io::Result<OwnedFd> {
    let mut pidfd: i32 = -1;
    // SAFETY: clone_args is plain data; zero is the default of every field.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;
    args.flags = u64::from(flags.cast_unsigned()) | CLONE_INTO_CGROUP;
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    args.cgroup = u64::from(leaf.as_raw_fd().cast_unsigned());
    args.pidfd = (&raw mut pidfd) as u64;
    // SAFETY: the pointers are NULL-terminated vectors of texts that outlive the call.
    let result = unsafe { clone_and_execute(&args, argv.pointers.as_ptr(), env.pointers.as_ptr()) };
    if result < 0 {
        let errno = i32::try_from(-result).unwrap_or(libc::EIO);
        return Err(io::Error::from_raw_os_error(errno));
    }
    // SAFETY: the kernel has just made it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

#[cfg(target_arch = "x86_64")]
unsafe fn clone_and_execute(
    args: &libc::clone_args,
    argv: *const *const c_char,
    env: *const *const c_char,
) -> isize {
    let result: isize;
    // SAFETY: the child makes system calls out of registers only and touches no memory.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov eax, {setpgid}",
            "xor edi, edi",
            "xor esi, esi",
            "syscall",
            "mov eax, {execve}",
            "mov rdi, [r8]",
            "mov rsi, r8",
            "mov rdx, r9",
            "syscall",
            "mov eax, {exit}",
            "mov edi, 127",
            "syscall",
            "ud2",
            "2:",
            setpgid = const libc::SYS_setpgid,
            execve = const libc::SYS_execve,
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_clone3 as isize => result,
            in("rdi") args,
            in("rsi") size_of::<libc::clone_args>(),
            in("r8") argv,
            in("r9") env,
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
unsafe fn clone_and_execute(
    args: &libc::clone_args,
    argv: *const *const c_char,
    env: *const *const c_char,
) -> isize {
    let result: isize;
    // SAFETY: as on x86_64.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x8, {setpgid}",
            "mov x0, xzr",
            "mov x1, xzr",
            "svc #0",
            "mov x8, {execve}",
            "ldr x0, [x2]",
            "mov x1, x2",
            "mov x2, x3",
            "svc #0",
            "mov x8, {exit}",
            "mov x0, 127",
            "svc #0",
            "brk #1",
            "2:",
            setpgid = const libc::SYS_setpgid,
            execve = const libc::SYS_execve,
            exit = const libc::SYS_exit,
            inlateout("x0") args => result,
            in("x1") size_of::<libc::clone_args>(),
            in("x2") argv,
            in("x3") env,
            in("x8") libc::SYS_clone3,
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone_and_execute(
    _: &libc::clone_args,
    _: *const *const c_char,
    _: *const *const c_char,
) -> isize {
    -(libc::ENOSYS as isize)
}
