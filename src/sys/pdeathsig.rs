//! Ties a child made with [`std::process::Command`] to the life of its parent.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The child gets SIGKILL when the thread that spawned it ends (`PR_SET_PDEATHSIG`, prctl(2)).
/// Not for images that change credentials: their exec clears it.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let arm = move || {
        // SAFETY: prctl(2) with this option takes an integer and no pointer.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have ended before the call; then nobody will send the signal.
        // SAFETY: getppid(2) takes nothing and cannot fail.
        if u32::try_from(unsafe { libc::getppid() }) != Ok(parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and makes two async-signal-safe system
    // calls; it allocates nothing (errors from errno do not) and takes no lock.
    unsafe { command.pre_exec(arm) };
}
