//! musterd, the daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    match args.nth(1) {
        // A helper of the daemon, under the ids of a worktree's owner.
        Some(verb) if verb == "probe" => musterd::gc::worktree::helper_main(),
        // Another, for a worker's runtime directory.
        Some(verb) if verb == "clear" => musterd::supervisor::helper::clear_main(),
        _ => musterd::daemon::main(std::env::args_os()),
    }
}
