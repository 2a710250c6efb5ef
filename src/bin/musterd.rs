//! musterd, the daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|verb| verb == "probe")
    {
        return musterd::gc::worktree::helper_main();
    }
    ExitCode::SUCCESS
}
