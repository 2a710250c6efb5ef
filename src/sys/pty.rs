//! A pair of terminals (pty(7)).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};

use super::cvt;

/// The controlling end and the end for programs. Neither becomes anybody's controlling terminal
/// by being opened here, and no path is gone by: the other end is that of this one in any mount
/// namespace (`TIOCGPTPEER`, Linux 4.13).
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::open("/dev/ptmx", flags, Mode::empty())?;
    let locked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int, which lives until the call returns.
    cvt(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const locked) }.into())?;
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes flags and no pointer.
    let slave = cvt(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) }.into())?;
    let slave = RawFd::try_from(slave).map_err(io::Error::other)?;
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok((master, unsafe { OwnedFd::from_raw_fd(slave) }))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_is_written_at_one_end_is_read_at_the_other() {
        let (master, slave) = pair().unwrap();
        assert!(rustix::termios::isatty(&slave));
        let (mut master, mut slave) = (std::fs::File::from(master), std::fs::File::from(slave));
        slave.write_all(b"out").unwrap();
        let mut buffer = [0; 3];
        master.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"out");
        master.write_all(b"in\n").unwrap();
        slave.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"in\n");
    }
}
