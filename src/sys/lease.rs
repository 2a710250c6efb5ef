//! Who else has a file open: asked by taking a write lease for a moment.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// fcntl(2); the libc crate does not name it for every target.
const F_SETSIG: libc::c_int = 10;

/// Whether `file` (open for writing) is open nowhere else, in no process. The kernel grants a
/// write lease only then (fcntl(2), "Leases"); it is given back at once.
///
/// # Errors
/// What the kernel says where there are no leases: a network file system, somebody else's file.
pub fn is_sole_opener(file: impl AsFd) -> io::Result<bool> {
    let file = file.as_fd();
    let call = |command: libc::c_int, argument: libc::c_int| {
        // SAFETY: the descriptor is borrowed for the call, and these commands take an integer.
        match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // Who opens the file during the lease makes the kernel send SIGIO, which ends a process that
    // has not blocked it; SIGURG is ignored by default.
    call(F_SETSIG, libc::SIGURG)?;
    match call(libc::F_SETLEASE, libc::F_WRLCK) {
        Ok(()) => call(libc::F_SETLEASE, libc::F_UNLCK).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::is_sole_opener;
    use std::fs::File;

    #[test]
    fn a_second_descriptor_of_any_kind_is_seen_until_it_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        assert!(is_sole_opener(&file).unwrap());
        for flags in ["r", "r+"] {
            let other = match flags {
                "r" => File::open(&path).unwrap(),
                _ => File::options().append(true).open(&path).unwrap(),
            };
            assert!(!is_sole_opener(&file).unwrap(), "{flags}");
            drop(other);
            assert!(is_sole_opener(&file).unwrap(), "{flags}");
        }
    }
}
