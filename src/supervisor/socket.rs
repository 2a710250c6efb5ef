//! Our end of one worker's control channel: bytes in and out of a socket that never blocks.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::control::codec::{Decoder, Half};
use crate::control::queue::{Full, Queue};
use crate::worker::{Exit, Mono};

/// Requests a worker may make within a second; each costs an answer.
const REQUESTS_PER_SECOND: u32 = 100;

/// One channel.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// What comes in.
    pub decoder: Decoder,
    queue: Queue,
    /// The leader has ended, but had written so many bytes more that are still to be read.
    pub owed: Option<(usize, Exit)>,
    asked: (Mono, u32),
}

/// What a read brought.
#[derive(Debug)]
pub enum Read {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The last holder of the other end has closed it.
    End,
}

/// Why nothing more can be sent.
#[derive(Debug, thiserror::Error)]
pub enum Unsent {
    /// The other side does not read.
    #[error("{0}")]
    Full(#[from] Full),
    /// The other side has gone.
    #[error("it cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// Our end and the worker's. Only ours does not block: the worker's is an ordinary descriptor.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

impl Socket {
    /// `max_frame`: longer frames of the worker are skipped, in bytes.
    pub fn new(fd: OwnedFd, max_frame: u64) -> Self {
        Self::resumed(fd, max_frame, Half::default(), Vec::new())
    }

    /// The same over a reload, with what the image before had read and had not sent.
    pub fn resumed(fd: OwnedFd, max_frame: u64, half: Half, unsent: Vec<u8>) -> Self {
        let max = u32::try_from(max_frame).unwrap_or(u32::MAX);
        // Room for a spawn frame that is not read yet and as much again.
        let room = usize::try_from(max_frame.saturating_mul(2)).unwrap_or(usize::MAX);
        Self {
            fd,
            decoder: Decoder::resumed(max, half),
            queue: Queue::resumed(room, unsent),
            owed: None,
            asked: (Mono(0), 0),
        }
    }

    /// Its number, for a hand-over.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Bytes for [`Socket::resumed`].
    pub fn unsent(&self) -> Vec<u8> {
        self.queue.unsent()
    }

    /// The descriptor, kept open.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Would a frame of so many bytes be taken?
    pub fn has_room(&self, bytes: usize) -> bool {
        self.queue.has_room(bytes)
    }

    /// Sends a frame, or as much of it as goes at once.
    pub fn send(&mut self, frame: Vec<u8>) -> Result<(), Unsent> {
        self.queue.push(frame)?;
        self.flush()?;
        Ok(())
    }

    /// Sends what waits, as much as goes at once.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.queue.is_empty() {
            match rustix::net::send(&self.fd, self.queue.front(), SendFlags::NOSIGNAL) {
                Ok(sent) => self.queue.sent(sent),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Something waits to be sent.
    pub fn is_behind(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Reads what is there, at most as much as fits. Descriptors sent with it are closed by the
    /// kernel, since nobody takes them (unix(7)).
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Read> {
        loop {
            return match rustix::net::recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => Ok(Read::End),
                Ok((read, _)) => Ok(Read::Bytes(read)),
                Err(Errno::AGAIN) => Ok(Read::Nothing),
                Err(Errno::INTR) => continue,
                // It went with bytes of ours unread.
                Err(Errno::CONNRESET) => Ok(Read::End),
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Bytes that were written to us and not read yet.
    pub fn unread(&self) -> usize {
        let bytes = rustix::io::ioctl_fionread(&self.fd).unwrap_or(0);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Counts a request; `false` if there were too many within a second.
    pub fn may_ask(&mut self, now: Mono) -> bool {
        let (since, count) = self.asked;
        if now.since(since).as_secs() >= 1 {
            self.asked = (now, 1);
            return true;
        }
        self.asked = (since, count.saturating_add(1));
        count < REQUESTS_PER_SECOND
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_does_not_read_fills_its_queue_and_blocks_nobody() {
        let (ours, theirs) = pair().unwrap();
        let mut socket = Socket::new(ours, 4096);
        let full = loop {
            if let Err(full) = socket.send(vec![7; 4096]) {
                break full;
            }
        };
        assert!(full.to_string().contains("does not read"), "{full}");
        assert!(socket.is_behind());
        drop(theirs);
        let gone = socket.flush().unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_was_written_before_the_end_is_read_before_the_end() {
        let (ours, theirs) = pair().unwrap();
        let socket = Socket::new(ours, 4096);
        let mut buffer = [0; 4];
        assert!(matches!(socket.read(&mut buffer), Ok(Read::Nothing)));
        rustix::io::write(&theirs, b"123456").unwrap();
        assert_eq!(socket.unread(), 6);
        drop(theirs);
        assert!(matches!(socket.read(&mut buffer), Ok(Read::Bytes(4))));
        assert!(matches!(socket.read(&mut buffer), Ok(Read::Bytes(2))));
        assert!(matches!(socket.read(&mut buffer), Ok(Read::End)));
    }
}
