//! waitid(2), for one process by its pidfd. The only file of the crate that waits: a wait-any
//! would take the status of a child that somebody else watches.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::worker::Exit;

/// The end of a child, without taking it: it stays a zombie, so that its pid and its group id
/// cannot be given to a stranger. `None` while it runs. `ECHILD` if it is no child of ours.
pub fn peek(pidfd: BorrowedFd<'_>) -> io::Result<Option<Exit>> {
    waitid(pidfd, libc::WNOHANG | libc::WNOWAIT)
}

/// Takes the end of a child; its pid is free afterwards. `None` while it runs.
pub fn reap(pidfd: BorrowedFd<'_>) -> io::Result<Option<Exit>> {
    waitid(pidfd, libc::WNOHANG)
}

fn waitid(pidfd: BorrowedFd<'_>, flags: i32) -> io::Result<Option<Exit>> {
    let id = libc::id_t::try_from(pidfd.as_raw_fd()).map_err(io::Error::other)?;
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // __WALL: an inherited child may have an exit signal other than SIGCHLD.
        let options = libc::WEXITED | libc::__WALL | flags;
        // SAFETY: `info` is valid for writing one siginfo_t.
        if unsafe { libc::waitid(libc::P_PIDFD, id, info.as_mut_ptr(), options) } == -1 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        // SAFETY: zeroed at first and filled by the kernel, so every field is initialised; for
        // the child events asked for, pid and status are the members of the union in use.
        let (pid, code, status) = unsafe {
            let info = info.assume_init();
            (info.si_pid(), info.si_code, info.si_status())
        };
        // waitid(2), WNOHANG: no child in the wanted state leaves si_pid zero.
        return Ok((pid != 0).then_some(match code {
            libc::CLD_EXITED => Exit::Code(status),
            _ => Exit::Signal(status),
        }));
    }
}
