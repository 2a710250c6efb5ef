//! musterd calls the roll of the agent workers on a Linux machine. This is its library; the two
//! programs `musterd` (the daemon) and `musterctl` (the client) are thin.
//!
//! ```text
//! bin > client, daemon          client talks to a daemon over the bus or its socket
//! daemon > dbus, supervisor     start order, main thread (fork, re-exec), event loop thread
//! dbus > supervisor::handle     calls in, replies and changes out; of sys only who a peer is
//! supervisor > gc, registry, sys   the one owner of state
//! gc, registry                  know nobody above them
//! worker, control, gc::facts, gc::decide, supervisor::pure   PURE
//! sys                           system calls; the only place with unsafe; knows no worker
//! ```

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

/// A line on stderr. Unlike `eprintln!` it ends nothing where stderr cannot be written: a full disk
/// or a reader that has gone.
macro_rules! say {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("{}\n", format_args!($($words)*)),
        );
    }};
}

pub mod client;
pub mod config;
pub mod control;
pub mod daemon;
pub mod dbus;
pub mod error;
pub mod gc;
pub mod log;
pub mod places;
pub mod registry;
pub mod supervisor;
pub mod sys;
pub mod worker;

/// The release of these programs: `MUSTERD_RELEASE` as it was when they were compiled, which a
/// distribution sets to its own version, else the version of the crate.
pub const RELEASE: &str = match option_env!("MUSTERD_RELEASE") {
    Some(release) => release,
    None => env!("CARGO_PKG_VERSION"),
};
