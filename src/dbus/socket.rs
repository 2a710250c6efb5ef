//! A peer's socket: the server's side of the SASL handshake, then messages with bounds of our own.
//!
//! zbus can do both, but buffers what an unauthenticated peer sends without a bound, and takes
//! messages of up to 128 MiB. Here every byte is read by us, so each bound is checked before
//! anything is allocated for it.

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

/// Longest message taken. argv and environment of a Spawn are at most 1 MiB together.
pub const MESSAGE_MAX: usize = 4 * 1024 * 1024;
/// Most descriptors in one message; a Spawn brings three.
const FDS_MAX: usize = 16;
/// A line of the handshake; the longest real one is AUTH EXTERNAL with a uid in hex.
const LINE_MAX: usize = 512;
/// Lines in one handshake.
const LINES_MAX: usize = 32;
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

/// Authenticates the peer at the other end, whose uid the kernel told: EXTERNAL only, and only
/// with that uid. Bound its time. Says whether descriptors may be sent to it.
pub async fn handshake(stream: &UnixStream, uid: u32, guid: &str) -> io::Result<bool> {
    let mut first = [0_u8];
    recv_exact(stream, &mut first).await?;
    if first != [0] {
        return Err(bad("the first byte is not NUL"));
    }
    let (mut authenticated, mut data_asked, mut fds) = (false, false, false);
    for _ in 0..LINES_MAX {
        let line = read_line(stream).await?;
        let mut words = line.split(' ');
        let answer = match (words.next().unwrap_or(""), words.next(), words.next()) {
            ("AUTH", Some("EXTERNAL"), None) if !authenticated => {
                data_asked = true;
                "DATA".to_owned()
            }
            ("AUTH", Some("EXTERNAL"), Some(id)) if !authenticated => {
                authenticated = is_uid(id, uid);
                verdict(authenticated, guid)
            }
            ("DATA", id, None) if data_asked && !authenticated => {
                data_asked = false;
                authenticated = id.is_none_or(|id| id.is_empty() || is_uid(id, uid));
                verdict(authenticated, guid)
            }
            ("NEGOTIATE_UNIX_FD", None, None) if authenticated => {
                fds = true;
                "AGREE_UNIX_FD".to_owned()
            }
            ("BEGIN", None, None) if authenticated => return Ok(fds),
            ("AUTH" | "CANCEL" | "ERROR", _, _) => {
                (authenticated, data_asked) = (false, false);
                verdict(false, guid)
            }
            _ => "ERROR Unknown or misplaced command".to_owned(),
        };
        send_all(stream, format!("{answer}\r\n").as_bytes()).await?;
    }
    Err(bad("too many commands"))
}

fn verdict(authenticated: bool, guid: &str) -> String {
    if authenticated {
        format!("OK {guid}")
    } else {
        "REJECTED EXTERNAL".to_owned()
    }
}

/// Is `hex` the decimal uid in hexadecimal digits, as EXTERNAL sends it.
fn is_uid(hex: &str, uid: u32) -> bool {
    let wanted: String = uid
        .to_string()
        .bytes()
        .map(|b| format!("{b:02x}"))
        .collect();
    hex.eq_ignore_ascii_case(&wanted)
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// Reads to the end of one line and not a byte further: what follows BEGIN are messages, and
/// descriptors come with their bytes.
async fn read_line(stream: &UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let mut peeked = [0_u8; LINE_MAX];
        let seen = receive(stream, &mut peeked, RecvFlags::PEEK).await?;
        let end = peeked[..seen].iter().position(|b| *b == b'\n');
        let mut part = vec![0_u8; end.map_or(seen, |at| at + 1)];
        recv_exact(stream, &mut part).await?;
        line.extend(part);
        if line.len() > LINE_MAX {
            return Err(bad("a line is too long"));
        }
        if end.is_some() {
            let text = line.strip_suffix(b"\r\n").ok_or_else(|| bad("no CR LF"))?;
            let text = std::str::from_utf8(text).map_err(|_| bad("a line is not ASCII"))?;
            return Ok(text.to_owned());
        }
    }
}

async fn recv_exact(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<()> {
    let mut have = 0;
    while have < buffer.len() {
        have += receive(stream, &mut buffer[have..], RecvFlags::empty()).await?;
    }
    Ok(())
}

/// Some bytes, at least one; the end of the stream is an error.
async fn receive(stream: &UnixStream, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let (_, got) = stream
        .async_io(Interest::READABLE, || {
            rustix::net::recv(stream, &mut *buffer, flags).map_err(io::Error::from)
        })
        .await?;
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(got)
}

async fn send_all(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = send(stream, bytes, &[]).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

async fn send(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
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

/// An authenticated peer's socket, for zbus.
#[derive(Debug)]
pub struct PeerSocket {
    /// The socket. Who else holds it can shut it down while a write is stuck.
    pub stream: Arc<UnixStream>,
    /// Descriptors may be sent.
    pub fds: bool,
    /// The user's budget for waiting messages.
    pub budget: Arc<Semaphore>,
    /// Where permits go.
    pub held: Arc<Held>,
    /// `true` while no new message is to be begun.
    pub quiet: watch::Receiver<bool>,
}

impl Socket for PeerSocket {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> Split<Reader, Writer> {
        let reader = Reader {
            stream: self.stream.clone(),
            fds: self.fds,
            budget: self.budget,
            held: self.held,
            quiet: self.quiet,
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
    fn feed(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
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
        let length = message_length(&self.header)?;
        self.rest = length - HEADER;
        Ok(Some(length))
    }
}

fn message_length(header: &[u8]) -> io::Result<usize> {
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
    let length = (HEADER + word(12)).next_multiple_of(8) + word(4);
    if length > MESSAGE_MAX {
        return Err(bad(&format!(
            "a message of {length} bytes; the limit is {MESSAGE_MAX}"
        )));
    }
    Ok(length)
}

/// The receiving half.
#[derive(Debug)]
pub struct Reader {
    stream: Arc<UnixStream>,
    fds: bool,
    budget: Arc<Semaphore>,
    held: Arc<Held>,
    quiet: watch::Receiver<bool>,
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
        let started = self.frame.feed(&buffer[..got])?;
        self.frame.fds += fds.len();
        if self.frame.fds > FDS_MAX {
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
