//! musterd, the daemon.

fn main() {}
