//! What the service manager gives and wants to hear: sockets (sd_listen_fds(3)), the watchdog
//! (sd_watchdog_enabled(3)) and notifications (sd_notify(3)). Without one, nothing happens.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::net::sockopt;
use sd_notify::NotifyState;

use super::fdslots;

/// `FileDescriptorName=` of the peer-to-peer socket in `musterd.socket`.
const SOCKET_NAME: &str = "musterd";

/// What came with the execution.
#[derive(Debug, Default)]
pub struct Passed {
    /// The peer-to-peer socket, listening.
    pub listener: Option<UnixListener>,
    /// Descriptors nobody asked for, by name; they are closed.
    pub unknown: Vec<String>,
}

/// Takes the passed descriptors and moves them above the slots, so it comes before
/// [`fdslots::Slots::reserve`] and before any other thread exists. The variables are gone afterwards: a number that lives on in the
/// environment would be taken for a socket after a re-execution.
///
/// # Errors
/// The variables contradict each other, or the socket is none that peers can connect to.
pub fn take_passed() -> io::Result<Passed> {
    if std::env::var_os("LISTEN_PID").is_none() {
        return Ok(Passed::default());
    }
    if own_threads()? != 1 {
        return Err(io::Error::other("another thread runs already"));
    }
    // SAFETY: the environment is changed, and this is the only thread.
    let fds = unsafe { sd_notify::listen_fds_with_names_and_unset_env() }?;
    let mut passed = Passed::default();
    for (number, name) in fds {
        let fd = fdslots::inherited(number)?;
        if name == SOCKET_NAME && passed.listener.is_none() {
            passed.listener = Some(listener(fd)?);
        } else {
            passed.unknown.push(name);
        }
    }
    Ok(passed)
}

fn own_threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

fn listener(fd: OwnedFd) -> io::Result<UnixListener> {
    let bad = |what: &str| {
        let why = format!("the socket passed as {SOCKET_NAME:?} {what}; see musterd.socket");
        io::Error::new(io::ErrorKind::InvalidInput, why)
    };
    let socket = fd.as_fd();
    if sockopt::socket_domain(socket)? != rustix::net::AddressFamily::UNIX
        || sockopt::socket_type(socket)? != rustix::net::SocketType::STREAM
    {
        return Err(bad("is no unix stream socket"));
    }
    if !sockopt::socket_acceptconn(socket)? {
        return Err(bad("does not listen (Accept= must be no)"));
    }
    let listener = UnixListener::from(fd);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// How often the service manager wants to hear of a pass of the loop, at the latest.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero())
}

/// Is there somebody to notify?
pub fn is_notified() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// The service serves.
pub fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// One line for `systemctl status`.
pub fn status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// A pass of the loop was made.
pub fn alive() {
    notify(&[NotifyState::Watchdog]);
}

/// The image is about to be replaced; [`ready`] or [`ready_again`] ends that. The time is in the
/// same datagram, by which the service manager tells a new reload from an old one.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "cannot tell the service manager of a reload"),
    }
}

/// Nothing came of a reload: it serves as before, with the status line it had.
pub fn ready_again() {
    notify(&[NotifyState::Ready]);
}

/// The service ends: start requests queue from now on. `within`: how long it may take; none for
/// at once.
pub fn stopping(status: &str, within: Duration) {
    let mut state = vec![NotifyState::Stopping, NotifyState::Status(status)];
    // Not `ExtendTimeoutUsec`, which holds 71 minutes; a drain may be given longer.
    let extend = format!("EXTEND_TIMEOUT_USEC={}", within.as_micros());
    if !within.is_zero() {
        state.push(NotifyState::Custom(&extend));
    }
    notify(&state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listening_stream_socket_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let good = UnixListener::bind(dir.path().join("s")).unwrap();
        assert!(listener(good.into()).is_ok());
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = listener(one.into()).unwrap_err();
        assert!(error.to_string().contains("does not listen"), "{error}");
        let datagram = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert!(listener(datagram.into()).is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(listener(file.into()).is_err());
    }
}
