//! A child in a session of its own, so that neither a terminal's hang-up nor its Ctrl-C reaches
//! it.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the command run in a new session (setsid(2)).
#[allow(unsafe_code)]
pub fn in_new_session(command: &mut Command) -> &mut Command {
    // SAFETY: setsid(2) takes no pointers and is async-signal-safe; nothing else runs between
    // fork and exec here.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()
                .map(|_| ())
                .map_err(std::io::Error::from)
        })
    }
}
