//! An authenticated socket, a peer's or a bus's, whose messages have bounds of our own.
//!
//! zbus takes messages of up to 128 MiB from anybody. Here every byte is read by us, so each bound
//! is checked before anything is allocated for it, and reading can pause between two messages.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use zbus::connection::socket::{ReadHalf, Socket, Split, WriteHalf};
use zbus::export::async_trait::async_trait;

/// What one message may bring.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes.
    pub bytes: usize,
    /// Descriptors.
    pub fds: usize,
}

/// Of a peer: argv and environment of a Spawn are at most 1 MiB together, and it brings three
/// descriptors.
pub const OF_A_PEER: Bounds = Bounds {
    bytes: 4 * 1024 * 1024,
    fds: 16,
};
/// Of a bus, which has bounds of its own: whatever it lets through must not end the connection
/// that everybody shares. As the D-Bus specification has it.
pub const OF_A_BUS: Bounds = Bounds {
    bytes: 128 * 1024 * 1024,
    fds: FDS_MAX,
};
/// Most descriptors the kernel sends at once (`SCM_MAX_FD`).
const FDS_MAX: usize = 253;
/// First part of every message: fixed header and the length of its fields (D-Bus specification,
/// "Message Format").
const HEADER: usize = 16;
/// Memory of waiting messages is counted in these.
const UNIT: usize = 1024;

/// Permits of messages that were received and not handled yet, oldest first. The reader puts one
/// in for each message, the connection's loop takes it out and holds it while the call runs.
#[derive(Debug, Default)]
pub struct Held {
    queue: Mutex<VecDeque<OwnedSemaphorePermit>>,
    /// The reader is not in the middle of a message.
    whole: AtomicBool,
}

impl Held {
    fn put(&self, permit: OwnedSemaphorePermit) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(permit);
    }

    fn set_whole(&self, whole: bool) {
        self.whole.store(whole, Ordering::Relaxed);
    }

    /// Nothing was received that has not been handed to a call.
    pub fn is_quiet(&self) -> bool {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.is_empty() && self.whole.load(Ordering::Relaxed)
    }

    /// The permit of the oldest message.
    pub fn take(&self) -> Option<OwnedSemaphorePermit> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }
}

/// Memory of waiting messages that one user may hold.
pub fn budget(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes / UNIT))
}

pub(super) fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

pub(super) async fn send(
    stream: &UnixStream,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    stream
        .async_io(Interest::WRITABLE, || {
            let mut space =
                [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(bad("too many descriptors"));
            }
            // Without NOSIGNAL a peer that has gone would raise SIGPIPE.
            let flags = SendFlags::NOSIGNAL;
            rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut control, flags)
                .map_err(io::Error::from)
        })
        .await
}

/// An authenticated socket, for zbus.
#[derive(Debug)]
pub struct QuietSocket {
    /// Of each message.
    pub bounds: Bounds,
    /// The socket. Who else holds it can shut it down while a write is stuck.
    pub stream: Arc<UnixStream>,
    /// Descriptors may be sent.
    pub fds: bool,
    /// The budget for waiting messages: a user's, or a bus's.
    pub budget: Arc<Semaphore>,
    /// Where permits go.
    pub held: Arc<Held>,
    /// `true` while no new message is to be begun.
    pub quiet: watch::Receiver<bool>,
}

impl Socket for QuietSocket {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> Split<Reader, Writer> {
        let reader = Reader {
            stream: self.stream.clone(),
            fds: self.fds,
            budget: self.budget,
            held: self.held,
            quiet: self.quiet,
            bounds: self.bounds,
            frame: Frame::default(),
        };
        let writer = Writer {
            stream: self.stream,
            fds: self.fds,
        };
        Split::new(reader, writer)
    }
}

/// Where in a message the reader is.
#[derive(Debug, Default)]
struct Frame {
    header: Vec<u8>,
    rest: usize,
    fds: usize,
}

impl Frame {
    /// Has a message begun that is not whole yet?
    fn in_a_message(&self) -> bool {
        !self.header.is_empty() && (self.header.len() < HEADER || self.rest > 0)
    }

    /// Takes bytes that have been read; the length of a message once its header is whole.
    fn feed(&mut self, bytes: &[u8], limit: usize) -> io::Result<Option<usize>> {
        if self.header.len() == HEADER && self.rest == 0 {
            self.header.clear();
            self.fds = 0;
        }
        if self.header.len() == HEADER {
            self.rest = self.rest.saturating_sub(bytes.len());
            return Ok(None);
        }
        self.header.extend_from_slice(bytes);
        if self.header.len() < HEADER {
            return Ok(None);
        }
        let length = message_length(&self.header);
        if length > limit {
            let why = format!("a message of {length} bytes; the limit is {limit}");
            return Err(bad(&why));
        }
        self.rest = length - HEADER;
        Ok(Some(length))
    }
}

fn message_length(header: &[u8]) -> usize {
    let word = |at: usize| -> usize {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&header[at..at + 4]);
        let word = match header[0] {
            b'B' => u32::from_be_bytes(bytes),
            _ => u32::from_le_bytes(bytes),
        };
        word as usize
    };
    // Fixed header with the fields' length, fields padded to 8, body.
    (HEADER + word(12)).next_multiple_of(8) + word(4)
}

/// The receiving half.
#[derive(Debug)]
pub struct Reader {
    stream: Arc<UnixStream>,
    fds: bool,
    budget: Arc<Semaphore>,
    held: Arc<Held>,
    quiet: watch::Receiver<bool>,
    bounds: Bounds,
    frame: Frame,
}

impl Reader {
    /// A message that has begun is read to its end; a new one is not begun while it is quiet.
    async fn read_unless_quiet(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        loop {
            if self.frame.in_a_message() {
                return self.read(buffer).await;
            }
            self.held.set_whole(true);
            let mut quiet = self.quiet.clone();
            if *quiet.borrow_and_update() {
                if quiet.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                continue;
            }
            tokio::select! {
                biased;
                // Without the supervisor nobody asks for quiet any more.
                Ok(()) = quiet.changed() => {}
                read = self.read(buffer) => {
                    self.held.set_whole(false);
                    return read;
                }
            }
        }
    }

    async fn read(&self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let stream = &*self.stream;
        stream
            .async_io(Interest::READABLE, || {
                let mut space =
                    [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
                let mut control = RecvAncillaryBuffer::new(&mut space);
                let flags = RecvFlags::CMSG_CLOEXEC;
                let got = rustix::net::recvmsg(
                    stream,
                    &mut [IoSliceMut::new(buffer)],
                    &mut control,
                    flags,
                )?;
                let mut fds = Vec::new();
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        fds.extend(rights);
                    }
                }
                if got.flags.contains(ReturnFlags::CTRUNC) {
                    return Err(bad("too many descriptors in one message"));
                }
                Ok((got.bytes, fds))
            })
            .await
    }
}

#[async_trait]
impl ReadHalf for Reader {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let (got, fds) = self.read_unless_quiet(buffer).await?;
        let started = self.frame.feed(&buffer[..got], self.bounds.bytes)?;
        self.frame.fds += fds.len();
        if self.frame.fds > self.bounds.fds {
            return Err(bad("too many descriptors in one message"));
        }
        if let Some(length) = started {
            // zbus allocates the message after this returns, so the wait is here.
            let units = u32::try_from(length.div_ceil(UNIT)).unwrap_or(u32::MAX);
            let permit = self.budget.clone().acquire_many_owned(units).await;
            self.held.put(permit.map_err(io::Error::other)?);
        }
        Ok((got, fds))
    }

    fn can_pass_unix_fd(&self) -> bool {
        self.fds
    }
}

/// The sending half.
#[derive(Debug)]
pub struct Writer {
    stream: Arc<UnixStream>,
    fds: bool,
}

#[async_trait]
impl WriteHalf for Writer {
    async fn sendmsg(&mut self, buffer: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        send(&self.stream, buffer, fds).await
    }

    async fn close(&mut self) -> io::Result<()> {
        shutdown(&self.stream)
    }

    fn can_pass_unix_fd(&self) -> bool {
        self.fds
    }
}

/// Ends both directions; a stuck write ends with an error.
pub fn shutdown(stream: &UnixStream) -> io::Result<()> {
    rustix::net::shutdown(stream.as_fd(), rustix::net::Shutdown::Both).map_err(io::Error::from)
}
