//! Replacing the running image with execve(2): pid, children and their wait statuses stay. Only
//! the main thread may do it: its children carry a parent-death signal that fires when the
//! thread that forked them ends, and an exec from another thread ends it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// What is executed.
#[derive(Debug)]
pub enum Target<'a> {
    /// The file that is installed at this path now.
    Path(&'a CStr),
    /// The file that this descriptor was opened on, deleted or not.
    File(BorrowedFd<'a>),
}

/// Executes; returns only if that failed, and then nothing has changed but the close-on-exec
/// flags of `keep`, which are put back.
pub fn execute(
    target: &Target<'_>,
    argv: &[CString],
    env: &[CString],
    keep: &[RawFd],
) -> io::Error {
    if let Err(error) = set_cloexec(keep, false) {
        let _ = set_cloexec(keep, true);
        return error;
    }
    let error = exec(target, argv, env);
    let _ = set_cloexec(keep, true);
    error
}

fn exec(target: &Target<'_>, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter()
            .map(|text| text.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    match target {
        Target::Path(path) => {
            // SAFETY: all three end with NUL or null and live until the call returns.
            unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
        }
        Target::File(fd) => {
            // SAFETY: as above; an empty path with AT_EMPTY_PATH means the descriptor itself.
            unsafe {
                libc::syscall(
                    libc::SYS_execveat,
                    fd.as_raw_fd(),
                    c"".as_ptr(),
                    argv.as_ptr(),
                    env.as_ptr(),
                    libc::AT_EMPTY_PATH,
                )
            };
        }
    }
    io::Error::last_os_error()
}

fn set_cloexec(fds: &[RawFd], on: bool) -> io::Result<()> {
    for number in fds {
        // SAFETY: only its flags are touched; a number that is not open is an error.
        let fd = unsafe { BorrowedFd::borrow_raw(*number) };
        let mut flags = fcntl_getfd(fd)?;
        flags.set(FdFlags::CLOEXEC, on);
        fcntl_setfd(fd, flags)?;
    }
    Ok(())
}

/// A descriptor by its number, for as long as this process has it open.
pub fn borrowed(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    if number < 3 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is not above 2",
        ));
    }
    // SAFETY: checked to be open right after; what came with an execution and is not taken over
    // is closed by nobody.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(fd)?;
    Ok(fd)
}

/// Takes over a descriptor that the image before left open under this number, which must be
/// named only once. Close-on-exec from here on.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is not above 2",
        ));
    }
    set_cloexec(&[number], true)?;
    // SAFETY: it came with the execution, so nothing in this image owns it yet.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A file in memory with these bytes.
pub fn memfd(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// All bytes of such a file, from its beginning. Its place is at its beginning afterwards.
pub fn read_all(fd: impl AsFd) -> io::Result<Vec<u8>> {
    let mut file = File::from(fd.as_fd().try_clone_to_owned()?);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    file.rewind()?;
    Ok(bytes)
}

/// Our own image, to come back to.
pub fn own_image() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/exe")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_can_be_read_again_and_again() {
        let fd = memfd(c"test", b"twelve bytes").unwrap();
        for _ in 0..2 {
            assert_eq!(read_all(&fd).unwrap(), b"twelve bytes");
        }
    }

    #[test]
    fn what_cannot_be_executed_leaves_everything_as_it_was() {
        let fd = memfd(c"test", b"").unwrap();
        let keep = [fd.as_raw_fd()];
        let argv = [c"nothing".to_owned()];
        let error = execute(&Target::Path(c"/nonexistent/image"), &argv, &[], &keep);
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(fcntl_getfd(&fd).unwrap().contains(FdFlags::CLOEXEC));
    }

    #[test]
    fn a_number_that_is_not_open_cannot_be_taken() {
        assert!(take(1_000_000).is_err());
        assert!(take(1).is_err());
    }
}
