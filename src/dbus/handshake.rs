//! Who is at the other end of a socket: both sides of the SASL handshake (D-Bus specification,
//! "Authentication Protocol"), with EXTERNAL only. zbus buffers what an unauthenticated peer sends
//! without a bound; here every byte is read by us.

use std::io;

use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::socket::{bad, send};

/// A line of the handshake; the longest real one is AUTH EXTERNAL with a uid in hex.
const LINE_MAX: usize = 512;
/// Lines in one handshake.
const LINES_MAX: usize = 32;

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
    hex.eq_ignore_ascii_case(&self::hex(uid))
}

fn hex(uid: u32) -> String {
    let digits = uid.to_string();
    digits.bytes().map(|b| format!("{b:02x}")).collect()
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

/// Says to a bus who we are: its guid, and whether descriptors may be sent. Bound its time.
pub async fn greet(stream: &UnixStream, uid: u32) -> io::Result<(String, bool)> {
    let id = hex(uid);
    send_all(stream, format!("\0AUTH EXTERNAL {id}\r\n").as_bytes()).await?;
    let line = read_line(stream).await?;
    let guid = line
        .strip_prefix("OK ")
        .ok_or_else(|| bad(&format!("the bus answers {line:?} to uid {uid}")))?
        .to_owned();
    send_all(stream, b"NEGOTIATE_UNIX_FD\r\n").await?;
    let fds = read_line(stream).await? == "AGREE_UNIX_FD";
    send_all(stream, b"BEGIN\r\n").await?;
    Ok((guid, fds))
}
