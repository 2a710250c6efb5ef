//! Who a process is and whether it still is: [`ProcessRef`] (identity and pidfd), `/proc`, and
//! the only senders of signals. Identity is verified on the open pidfd, then the signal goes
//! through that same pidfd, so a recycled pid is never struck.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;

use super::cvt;
pub use super::procfs::{
    Standing, Stat, command_line, environ_value, groups_of, own_children, scan, standing, stat,
};
use crate::worker::{BootId, HowKnown, Pid, ProcessId};

/// Is a recorded process still there? Unknown keeps the row and never signals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    /// The same process runs.
    Alive,
    /// Shown to be gone, and how.
    Gone(HowKnown),
    /// Could not be shown either way, and why.
    Unknown(String),
}

/// Why there is no reference to a process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Shown to be gone.
    #[error("the process is gone ({0})")]
    Gone(HowKnown),
    /// Could not be shown either way.
    #[error("{0}")]
    Unknown(String),
}

/// What became of a signal. That it was sent is no evidence of death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The kernel took it.
    Sent,
    /// No such process any more (`ESRCH`).
    Gone,
    /// Alive, and not ours to signal (`EPERM`).
    Denied,
}

/// This boot's id; read once.
pub fn boot_id() -> io::Result<BootId> {
    static BOOT: OnceLock<BootId> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(*boot);
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let boot = text.parse().map_err(io::Error::other)?;
    Ok(*BOOT.get_or_init(|| boot))
}

/// Judges a recorded identity: boot id, pidfd, exit state, start ticks, in this order.
pub fn check(id: &ProcessId) -> Liveness {
    match ProcessRef::open(id) {
        Ok(_) => Liveness::Alive,
        Err(OpenError::Gone(how)) => Liveness::Gone(how),
        Err(OpenError::Unknown(why)) => Liveness::Unknown(why),
    }
}

/// A process that was verified once and is held by its pidfd since.
#[derive(Debug)]
pub struct ProcessRef {
    id: ProcessId,
    fd: OwnedFd,
}

impl ProcessRef {
    /// Opens a recorded process: the pidfd first, then the start ticks are compared.
    pub fn open(id: &ProcessId) -> Result<Self, OpenError> {
        let boot = boot_id().map_err(|e| unknown("cannot read the boot id", &e))?;
        if boot != id.boot_id {
            return Err(OpenError::Gone(HowKnown::Rebooted));
        }
        let fd = pidfd_open(id.pid)?;
        if exited(fd.as_fd()) {
            return Err(OpenError::Gone(HowKnown::PidGone));
        }
        match stat(id.pid) {
            Ok(stat) if stat.start_ticks == id.start_ticks => Ok(Self { id: *id, fd }),
            Ok(_) => Err(OpenError::Gone(HowKnown::PidRecycled)),
            Err(e) => Err(unreadable(fd.as_fd(), id.pid, &e)),
        }
    }

    /// The process that has this pid now. An unreaped child of ours that has ended counts; any
    /// other that has ended is gone.
    pub fn of_pid(pid: Pid) -> Result<Self, OpenError> {
        Self::identify(pid, pidfd_open(pid)?)
    }

    /// The process of a pidfd that was handed over.
    pub fn adopt(pidfd: OwnedFd) -> Result<Self, OpenError> {
        let pid = pid_of(pidfd.as_fd())?;
        Self::identify(pid, pidfd)
    }

    /// A child with the identity of [`identity_of_child`].
    pub(super) fn of_child(id: ProcessId, fd: OwnedFd) -> Self {
        Self { id, fd }
    }

    /// A process that an earlier image of this daemon held by this pidfd.
    pub fn handed_over(id: ProcessId, fd: OwnedFd) -> Self {
        Self { id, fd }
    }

    fn identify(pid: Pid, fd: OwnedFd) -> Result<Self, OpenError> {
        let boot_id = boot_id().map_err(|e| unknown("cannot read the boot id", &e))?;
        let stat = stat(pid).map_err(|e| unreadable(fd.as_fd(), pid, &e))?;
        // What ended meanwhile may have lost its pid to the process whose ticks were read,
        // unless only we could have reaped it.
        let ours = u32::try_from(stat.ppid) == Ok(std::process::id());
        if exited(fd.as_fd()) && !ours {
            return Err(OpenError::Gone(HowKnown::PidGone));
        }
        let id = ProcessId {
            pid,
            start_ticks: stat.start_ticks,
            boot_id,
        };
        Ok(Self { id, fd })
    }

    /// Who it is.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Sends a signal through the pidfd (pidfd_send_signal(2)).
    pub fn signal(&self, signal: i32) -> io::Result<Delivery> {
        signal_fd(self.fd.as_fd(), signal)
    }

    /// Sends a signal to the process group that this process leads, and to it alone if it leads
    /// none. Our own group is not signalled.
    pub fn signal_with_group(&self, signal: i32) -> io::Result<Delivery> {
        let pid = self.id.pid;
        if group_of(pid).ok().flatten() != Some(pid) || own_group() == Some(pid) {
            return self.signal(signal);
        }
        match signal_fd_with(self.fd.as_fd(), signal, PIDFD_SIGNAL_PROCESS_GROUP) {
            // Before Linux 6.9 only by number, which is its own as long as it runs.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) && !self.has_exited() => {
                signal_group(self.id.pid, signal)
            }
            sent => sent,
        }
    }

    /// Has its whole thread group ended? True for a zombie; false for a leader that ended while
    /// other threads of it run, whatever state `/proc` shows.
    pub fn has_exited(&self) -> bool {
        exited(self.fd.as_fd())
    }

    /// A second reference to the same process.
    pub fn try_clone(&self) -> io::Result<Self> {
        let fd = self.fd.try_clone()?;
        Ok(Self { id: self.id, fd })
    }

    /// The pidfd alone.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for ProcessRef {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for ProcessRef {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// The identity of a child that was not waited for, so that its pid cannot move.
pub(super) fn identity_of_child(pid: Pid) -> io::Result<ProcessId> {
    let start_ticks = stat(pid)?.start_ticks;
    let boot_id = boot_id()?;
    Ok(ProcessId {
        pid,
        start_ticks,
        boot_id,
    })
}

/// The process group of a process (getpgid(2)); `None` if its leader lies outside of our pid
/// namespace, as that of a process which was put into a container from outside.
pub fn group_of(pid: Pid) -> io::Result<Option<Pid>> {
    let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(pid.get())))?;
    Ok(Pid::new(group.as_raw().into()).ok())
}

fn own_group() -> Option<Pid> {
    Pid::new(nix::unistd::getpgrp().as_raw().into()).ok()
}

/// Sends a signal to a process group (kill(2)). Refuses our own group; [`Pid`] already refuses
/// 0, 1 and negatives. Hold the leader unreaped meanwhile, or the number may be a stranger's.
pub fn signal_group(pgid: Pid, signal: i32) -> io::Result<Delivery> {
    if own_group() == Some(pgid) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("process group {pgid} is this daemon's own: not signalled"),
        ));
    }
    // SAFETY: kill(2) takes no pointers; the group is neither everybody's nor our own.
    delivery(cvt(unsafe { libc::kill(-pgid.get(), signal) }.into()))
}

/// linux/pidfd.h.
const PIDFD_SIGNAL_PROCESS_GROUP: u32 = 1 << 2;

pub(super) fn signal_fd(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<Delivery> {
    signal_fd_with(pidfd, signal, 0)
}

fn signal_fd_with(pidfd: BorrowedFd<'_>, signal: i32, flags: u32) -> io::Result<Delivery> {
    let info: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: a null siginfo is allowed (pidfd_send_signal(2)); the descriptor is open.
    delivery(cvt(unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            info,
            flags,
        )
    }))
}

fn delivery(result: io::Result<libc::c_long>) -> io::Result<Delivery> {
    match result {
        Ok(_) => Ok(Delivery::Sent),
        Err(e) => match e.raw_os_error() {
            Some(libc::ESRCH) => Ok(Delivery::Gone),
            Some(libc::EPERM) => Ok(Delivery::Denied),
            _ => Err(e),
        },
    }
}

fn pidfd_open(pid: Pid) -> Result<OwnedFd, OpenError> {
    // SAFETY: no pointers.
    match cvt(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.get(), 0_u32) }) {
        Ok(fd) => match RawFd::try_from(fd) {
            // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
            Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            Err(e) => Err(OpenError::Unknown(format!("pidfd_open of {pid}: {e}"))),
        },
        Err(e) => match e.raw_os_error() {
            Some(libc::ESRCH) => Err(OpenError::Gone(HowKnown::PidGone)),
            // The number now belongs to a thread that leads no process (ENOENT on newer kernels).
            Some(libc::EINVAL | libc::ENOENT) => Err(OpenError::Gone(HowKnown::PidRecycled)),
            _ => Err(unknown(&format!("cannot open process {pid}"), &e)),
        },
    }
}

/// A pidfd becomes readable when the last thread of the process has ended.
pub(super) fn exited(pidfd: BorrowedFd<'_>) -> bool {
    exits_within(pidfd, Duration::ZERO)
}

/// Waits for the end of a process, at most `limit`.
pub(super) fn exits_within(pidfd: BorrowedFd<'_>, limit: Duration) -> bool {
    let timeout = Timespec::try_from(limit).ok();
    loop {
        let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn pid_of(pidfd: BorrowedFd<'_>) -> Result<Pid, OpenError> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = std::fs::read_to_string(&path).map_err(|e| unknown(&path, &e))?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"));
    match pid.and_then(|pid| pid.trim().parse::<i64>().ok()) {
        Some(-1) => Err(OpenError::Gone(HowKnown::PidGone)),
        Some(0) => Err(OpenError::Unknown(
            "the process is of another pid namespace".into(),
        )),
        Some(pid) => Pid::new(pid).map_err(|e| OpenError::Unknown(e.to_string())),
        None => Err(OpenError::Unknown("the descriptor is no pidfd".into())),
    }
}

/// `/proc/PID/stat` is missing: that is death only if the pidfd agrees (hidepid hides it too).
fn unreadable(pidfd: BorrowedFd<'_>, pid: Pid, error: &io::Error) -> OpenError {
    if exited(pidfd) {
        OpenError::Gone(HowKnown::PidGone)
    } else {
        unknown(&format!("cannot read /proc/{pid}/stat"), error)
    }
}

fn unknown(what: &str, error: &io::Error) -> OpenError {
    OpenError::Unknown(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests;
