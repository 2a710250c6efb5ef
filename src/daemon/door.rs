//! The peer-to-peer socket, passed by the service manager, handed over by the image before, or
//! made here; and both doors (socket and bus name) while an idle daemon leaves.

use std::fs::Permissions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::mpsc;

use crate::dbus::Server;
use crate::error::Fault;
use crate::supervisor::handle::Doors;
use crate::sys::systemd;

/// How long calls that came in the last moment may take, and how often they are looked at.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
const LAST_ANSWERS_LOOK: Duration = Duration::from_millis(2);

/// The socket.
pub(super) struct Door {
    pub(super) listener: UnixListener,
    /// Made by us, hence removed by us. What the service manager made stays for the next start.
    pub(super) made: Option<PathBuf>,
}

impl Door {
    /// Made at this path. The lock is ours, so what lies there is a dead daemon's.
    pub(super) fn make(path: &Path) -> Result<Self, Fault> {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Fault::io("remove the old socket", path)(e));
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(Fault::io("listen on", path))?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))
            .map_err(Fault::io("close to others", path))?;
        Ok(Self {
            listener,
            made: Some(path.to_owned()),
        })
    }

    /// One that listens already.
    pub(super) fn of(
        listener: std::os::unix::net::UnixListener,
        made: Option<PathBuf>,
    ) -> Result<Self, Fault> {
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| UnixListener::from_std(listener));
        let listener =
            listener.map_err(|e| Fault::Other(format!("cannot use the passed socket: {e}")))?;
        Ok(Self { listener, made })
    }

    /// The socket once more, for the next image.
    pub(super) fn duplicate(&self) -> std::io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }
}

/// Serves the socket, and opens and closes both doors as an idle supervisor asks. Dropped, it
/// accepts no more.
pub(super) async fn keep_doors(
    server: Arc<Server>,
    listener: UnixListener,
    mut asked: mpsc::UnboundedReceiver<Doors>,
) {
    let listener = Arc::new(listener);
    let mut open = true;
    loop {
        let wish = tokio::select! {
            () = Arc::clone(&server).serve_socket(Arc::clone(&listener)), if open => continue,
            wish = asked.recv() => wish,
        };
        match wish {
            Some(Doors::Pause(done)) => {
                open = false;
                let _ = done.send(());
            }
            Some(Doors::Open) => open = true,
            Some(Doors::Close(done)) => {
                // First of all: a start request from now on waits for our end.
                systemd::stopping("Idle.", Duration::ZERO);
                server.release_name().await;
                let answered = async {
                    while server.open_calls() > 0 {
                        tokio::time::sleep(LAST_ANSWERS_LOOK).await;
                    }
                };
                let _ = tokio::time::timeout(LAST_ANSWERS, answered).await;
                let _ = done.send(());
            }
            None => return,
        }
    }
}
