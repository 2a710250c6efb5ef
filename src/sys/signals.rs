//! Signals arrive by a descriptor: every thread blocks all of them but SIGABRT, the loop reads a
//! signalfd(2). Nothing is ever delivered to a handler.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::cvt;

/// Blocks every signal in the calling thread but SIGABRT, by which the service manager's watchdog
/// ends a loop that hangs. Call it before any other thread exists: they inherit the mask.
pub fn block_all() -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the set before it is read; no old mask is asked for.
    let errno = unsafe {
        libc::sigfillset(set.as_mut_ptr());
        libc::sigdelset(set.as_mut_ptr(), libc::SIGABRT);
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut())
    };
    if errno == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(errno))
    }
}

/// One signal that arrived. Several equal ones may have been merged into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// `SIG*`.
    pub signal: i32,
    /// Who sent it; 0 if the kernel did or the sender is of another pid namespace.
    pub pid: i32,
    /// Real uid of the sender.
    pub uid: u32,
}

/// A signalfd(2), non-blocking and close-on-exec: register it for reading, then
/// [`SignalFd::next`] until it says `None`.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// For these signals, which must be blocked in all threads.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let set = set_of(signals);
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set is initialised; -1 asks for a new descriptor.
        let fd = cvt(unsafe { libc::signalfd(-1, &raw const set, flags) }.into())?;
        let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
        // SAFETY: just made by the kernel for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next pending signal, if any.
    pub fn next(&self) -> io::Result<Option<Received>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        loop {
            // SAFETY: the buffer holds one record, which is the least the kernel writes.
            let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
            if usize::try_from(read) == Ok(size) {
                break;
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
        // SAFETY: zeroed at first and written whole by the kernel.
        let info = unsafe { info.assume_init() };
        let signal = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
        let pid = info.ssi_pid.cast_signed();
        Ok(Some(Received {
            signal,
            pid,
            uid: info.ssi_uid,
        }))
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for SignalFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waits for one of these blocked signals (sigwaitinfo(2)), without a descriptor.
pub(super) fn wait_for(signals: &[i32]) -> io::Result<i32> {
    let set = set_of(signals);
    loop {
        // SAFETY: the set is initialised; no details are asked for.
        match cvt(unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) }.into()) {
            Ok(signal) => return i32::try_from(signal).map_err(io::Error::other),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the whole set; an unknown number is refused, not written.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_comes_by_the_descriptor_once_and_with_its_sender() {
        // Only in this test's own thread, which ends with it.
        block_all().unwrap();
        let signals = SignalFd::new(&[libc::SIGUSR1]).unwrap();
        assert_eq!(signals.next().unwrap(), None);
        // SAFETY: to this thread alone, where it is blocked.
        unsafe { libc::raise(libc::SIGUSR1) };
        let received = signals.next().unwrap().unwrap();
        assert_eq!(received.signal, libc::SIGUSR1);
        assert_eq!(u32::try_from(received.pid), Ok(std::process::id()));
        assert_eq!(signals.next().unwrap(), None);
    }
}
