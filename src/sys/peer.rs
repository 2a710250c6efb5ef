//! Who is at the other end of a Unix socket (unix(7)).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Supplementary groups of the process that connected (`SO_PEERGROUPS`).
pub fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    // NGROUPS_MAX is 65,536; the first try fits nearly everybody.
    let mut room = 64_usize;
    loop {
        let mut list = vec![0_u32; room];
        let mut length = libc::socklen_t::try_from(size_of_val(list.as_slice()))
            .map_err(|_| io::Error::from_raw_os_error(libc::ERANGE))?;
        // SAFETY: `list` is valid for writes of `length` bytes, which the kernel never exceeds;
        // gid_t is u32 on Linux, and every bit pattern is one.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                list.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let got = length as usize / size_of::<u32>();
        if result == 0 {
            list.truncate(got);
            return Ok(list);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || got <= room {
            return Err(error);
        }
        room = got;
    }
}

/// A pidfd of the process that connected (`SO_PEERPIDFD`, Linux 6.5).
pub fn pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::PeerPidfd)
        .map_err(io::Error::from)
}
