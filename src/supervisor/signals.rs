//! Signals to the daemon, as a stream of numbers from a signalfd.

use tokio::io::unix::AsyncFd;

use crate::sys::signals::SignalFd;

/// SIGCHLD for strangers, the stop signals, SIGHUP for a reload.
const WANTED: [i32; 4] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// The signalfd, registered with the runtime.
#[derive(Debug)]
pub struct Signals(AsyncFd<SignalFd>);

impl Signals {
    /// Needs a tokio runtime; the signals must be blocked in all threads.
    pub fn new() -> std::io::Result<Self> {
        let fd = SignalFd::new(&WANTED)?;
        Ok(Self(crate::sys::watch::readable(fd)?))
    }

    /// The next one.
    pub async fn recv(&self) -> i32 {
        loop {
            let Ok(mut guard) = self.0.readable().await else {
                return std::future::pending().await;
            };
            match self.0.get_ref().next() {
                Ok(Some(received)) => return received.signal,
                Ok(None) => guard.clear_ready(),
                Err(error) => {
                    tracing::error!(%error, "cannot read the signalfd");
                    guard.clear_ready();
                }
            }
        }
    }
}
