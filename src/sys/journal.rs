//! A stream to journald that a process writes to as its standard output and error
//! (sd_journal_stream_fd(3)). Its end is the process's; nobody in between reads it.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, send,
    shutdown, socket_with, sockopt,
};

/// Between two looks whether journald has taken the stream, at first; doubles up to the second.
const LOOK: Duration = Duration::from_micros(100);
const LOOK_MAX: Duration = Duration::from_millis(5);
/// What the kernel may hold for a journald that is busy; it caps this at `wmem_max`.
const BUFFER: usize = 8 * 1024 * 1024;
/// Lines without a level prefix are of this priority: informational (syslog(3)).
const PRIORITY: u8 = 6;

/// Connects to journald's `socket` under `identifier` and returns once journald has read who we
/// are, at most after `limit`.
///
/// Past its limit of streams (4,095) journald takes a connection and closes it at once; a writer
/// would then die of SIGPIPE, which is why nothing less than its having read will do.
///
/// # Errors
/// Nobody listens, journald refuses, or does not look in time.
pub fn stream(socket: &Path, identifier: &str, limit: Duration) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Not blocking: a journald that hangs has a full backlog.
    connect(&stream, &SocketAddrUnix::new(socket)?)?;
    shutdown(&stream, Shutdown::Read)?;
    // Refused or cut down, it works with the usual size.
    let _ = sockopt::set_socket_send_buffer_size(&stream, BUFFER);
    let header = header(identifier);
    let sent = send(&stream, header.as_bytes(), SendFlags::NOSIGNAL)?;
    if sent != header.len() {
        return Err(io::Error::other("journald's socket is full"));
    }
    wait_until_read(stream.as_fd(), limit)?;
    // Programs do not expect EAGAIN from their standard output.
    let flags = rustix::fs::fcntl_getfl(&stream)?;
    rustix::fs::fcntl_setfl(&stream, flags - rustix::fs::OFlags::NONBLOCK)?;
    Ok(stream)
}

/// Identifier; no unit, journald takes it from the writer's cgroup; priority; level prefixes are
/// understood; nothing is forwarded to syslog, the kernel log or the console.
fn header(identifier: &str) -> String {
    format!("{identifier}\n\n{PRIORITY}\n1\n0\n0\n0\n")
}

fn wait_until_read(stream: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
    let end = Instant::now() + limit;
    let mut pause = LOOK;
    loop {
        let unread = unread(stream)?;
        if has_hung_up(stream)? {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                "journald closed it (too many streams?)",
            ));
        }
        if unread == 0 {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "journald does not take it",
            ));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK_MAX);
    }
}

/// Is the other end of a stream gone? Then whoever writes to it gets EPIPE.
pub fn has_hung_up(stream: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(stream, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default()))?;
    Ok(fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Bytes that the other end has not read (`SIOCOUTQ`, unix(7)).
fn unread(stream: BorrowedFd<'_>) -> io::Result<i32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) writes one int to the address given, which
    // is valid for that.
    let result = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    super::cvt(result.into())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn listen() -> (tempfile::TempDir, std::path::PathBuf, UnixListener) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let listener = UnixListener::bind(&path).unwrap();
        (dir, path, listener)
    }

    #[test]
    fn journald_is_told_who_writes_and_then_hears_the_writer() {
        let (_dir, path, listener) = listen();
        let journald = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut header = Vec::new();
            for _ in 0..7 {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                header.push(line.trim_end_matches('\n').to_owned());
            }
            let mut rest = String::new();
            stream.read_to_string(&mut rest).unwrap();
            (header, rest)
        });
        let stream = stream(&path, "muster-0000000a", LONG).unwrap();
        assert!(!has_hung_up(stream.as_fd()).unwrap());
        let flags = rustix::fs::fcntl_getfl(&stream).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
        let mut writer = std::fs::File::from(stream);
        writer.write_all(b"<3>bad\nfine\n").unwrap();
        drop(writer);
        let (header, rest) = journald.join().unwrap();
        assert_eq!(header, ["muster-0000000a", "", "6", "1", "0", "0", "0"]);
        assert_eq!(rest, "<3>bad\nfine\n");
    }

    #[test]
    fn a_journald_that_closes_at_once_is_an_error() {
        let (_dir, path, listener) = listen();
        let journald = std::thread::spawn(move || drop(listener.accept().unwrap()));
        let error = stream(&path, "muster-x", LONG).unwrap_err();
        journald.join().unwrap();
        // Noticed while reading or while writing.
        let kinds = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        assert!(kinds.contains(&error.kind()), "{error}");
    }

    #[test]
    fn a_journald_that_hangs_or_is_not_there_is_an_error() {
        let (dir, path, listener) = listen();
        let limit = Duration::from_millis(30);
        let error = stream(&path, "muster-x", limit).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(listener);
        assert!(stream(&path, "muster-x", limit).is_err());
        assert!(stream(&dir.path().join("none"), "muster-x", limit).is_err());
    }
}
