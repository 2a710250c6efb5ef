//! musterctl, the client.

fn main() {}
