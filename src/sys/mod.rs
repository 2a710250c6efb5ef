//! System calls behind one door: the only place with unsafe code, allowed by name in the
//! modules that need it. Knows processes, cgroups and descriptors; knows no worker.
//!
//! Start order of a daemon: [`signals::block_all`] before any other thread exists, then
//! [`fdslots::Slots::reserve`] before anything else is opened, then [`spawn::forker`]; the
//! main thread ends in [`spawn::main_thread`].

pub mod acl;
pub mod cgroup;
pub mod clock;
pub mod dirs;
pub mod fdslots;
pub mod guardian;
pub mod journal;
#[allow(unsafe_code)]
pub mod lease;
pub mod lock;
pub mod notify;
#[allow(unsafe_code)]
pub mod pdeathsig;
pub mod peer;
pub mod privilege;
pub mod process;
mod procfs;
pub mod pty;
pub mod reexec;
pub mod session;
pub mod signals;
pub mod slice;
pub mod spawn;
pub mod systemd;
pub mod wait;
pub mod watch;

#[cfg(test)]
mod testing;

use std::io;

/// The one door for errno: -1 becomes the error of the calling thread.
fn cvt(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
