//! Descriptors registered with the runtime's reactor.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::signals::SignalFd;

/// Something that keeps one descriptor open, and the same one, for as long as it lives.
pub trait Steady: AsRawFd {}

impl Steady for OwnedFd {}
impl Steady for SignalFd {}

/// Watches a descriptor for reading. Needs a tokio runtime.
pub fn readable<T: Steady>(fd: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: a `Steady` owns its descriptor, gives the same number each time, and is owned by
    // the registration in turn, so the descriptor outlives it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}
