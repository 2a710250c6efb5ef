//! The sockets on which workers tell of themselves as they would tell systemd (sd_notify(3)).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::privilege::as_file_owner;

/// Its name in the worker's directory. Hidden: that may be its directory for temporary files,
/// which programs empty.
pub const NAME: &str = ".notify";
/// Longest message; systemd's own bound is a page.
pub const MESSAGE_MAX: usize = 4096;
/// Longest path that a client can connect to (unix(7)).
pub const PATH_MAX: usize = 107;

/// Room for one `SCM_CREDENTIALS` and nothing else: descriptors that come along find none, so
/// the kernel closes them at once. `systemd-notify` waits for that.
// SAFETY: CMSG_SPACE only computes.
const CONTROL: usize = unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) } as usize;

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, sent by a process of this uid as the kernel says.
    Message {
        /// Bytes in the buffer.
        length: usize,
        /// The sender's.
        uid: u32,
    },
    /// Too long, or of nobody that can be named.
    Unusable,
    /// None is waiting.
    Nothing,
}

/// Makes the socket in `dir`, as the owner's file where that is another than ours.
pub fn bind(dir: &Path, owner: Option<u32>) -> io::Result<OwnedFd> {
    // By descriptor: the owner need not be able to come here by the path, nor the path be short.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    // Before anybody can send: no message comes without its sender.
    sockopt::set_socket_passcred(&socket, true)?;
    let path = format!("/proc/self/fd/{}/{NAME}", dir.as_raw_fd());
    let address = SocketAddrUnix::new(path)?;
    let bind = || Ok(rustix::net::bind(&socket, &address)?);
    match owner {
        Some(uid) => as_file_owner(uid, bind)?,
        None => bind()?,
    }
    Ok(socket)
}

/// Takes it away again from a worker that never ran.
pub fn unbind(dir: &Path, owner: Option<u32>) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    let remove = || {
        Ok(rustix::fs::unlinkat(
            &dir,
            NAME,
            rustix::fs::AtFlags::empty(),
        )?)
    };
    match owner {
        Some(uid) => as_file_owner(uid, remove),
        None => remove(),
    }
}

/// Takes one message. Never blocks.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    // Of cmsghdr's alignment.
    let mut control = [0_usize; CONTROL.div_ceil(size_of::<usize>())];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the buffers that the header names outlive the call and are as long as it says.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let Ok(length) = usize::try_from(got) else {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Received::Nothing),
            _ => Err(error),
        };
    };
    let whole = header.msg_flags & libc::MSG_TRUNC == 0;
    match credentials(&header).filter(|_| whole) {
        Some(sender) => Ok(Received::Message {
            length,
            uid: sender.uid,
        }),
        None => Ok(Received::Unusable),
    }
}

fn credentials(header: &libc::msghdr) -> Option<libc::ucred> {
    // SAFETY: recvmsg filled the header in; its control buffer lives in the caller.
    let first = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    let fits = first.cmsg_level == libc::SOL_SOCKET
        && first.cmsg_type == libc::SCM_CREDENTIALS
        // SAFETY: CMSG_LEN only computes.
        && first.cmsg_len as usize >= unsafe { libc::CMSG_LEN(size_of::<libc::ucred>() as u32) } as usize;
    // SAFETY: the message is one of credentials and holds a whole one; it may be unaligned.
    fits.then(|| unsafe {
        libc::CMSG_DATA(first)
            .cast::<libc::ucred>()
            .read_unaligned()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

    use super::*;

    fn pair() -> (tempfile::TempDir, OwnedFd, UnixDatagram) {
        let dir = tempfile::tempdir().unwrap();
        let socket = bind(dir.path(), None).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.connect(dir.path().join(NAME)).unwrap();
        (dir, socket, sender)
    }

    #[test]
    fn a_message_comes_with_its_senders_uid_and_no_other_wait_follows() {
        let (_dir, socket, sender) = pair();
        sender.send(b"READY=1").unwrap();
        let mut buffer = [0; MESSAGE_MAX];
        let uid = rustix::process::getuid().as_raw();
        assert_eq!(
            receive(socket.as_fd(), &mut buffer).unwrap(),
            Received::Message { length: 7, uid }
        );
        assert_eq!(&buffer[..7], b"READY=1");
        assert_eq!(
            receive(socket.as_fd(), &mut buffer).unwrap(),
            Received::Nothing
        );
    }

    #[test]
    fn descriptors_that_come_along_are_closed_when_the_message_is_taken() {
        let (_dir, socket, sender) = pair();
        let (mut ours, theirs) = io::pipe().unwrap();
        let fds = [theirs.as_fd(), theirs.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let parts = [io::IoSlice::new(b"BARRIER=1")];
        rustix::net::sendmsg(&sender, &parts, &mut control, SendFlags::empty()).unwrap();
        drop(theirs);
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let got = receive(socket.as_fd(), &mut [0; MESSAGE_MAX]).unwrap();
        assert!(
            matches!(got, Received::Message { length: 9, .. }),
            "{got:?}"
        );
        assert!(open() <= before + 8, "other tests open some, too");
        // End of file: nobody holds the other end any more.
        assert_eq!(ours.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn a_message_that_is_too_long_is_told_apart() {
        let (_dir, socket, sender) = pair();
        sender.send(&[b'x'; MESSAGE_MAX + 1]).unwrap();
        let got = receive(socket.as_fd(), &mut [0; MESSAGE_MAX]).unwrap();
        assert_eq!(got, Received::Unusable);
    }

    #[test]
    fn what_was_bound_can_be_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let _socket = bind(dir.path(), None).unwrap();
        unbind(dir.path(), None).unwrap();
        std::fs::remove_dir(dir.path()).unwrap();
    }
}
