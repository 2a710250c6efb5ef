//! What the service manager is told of the service: ready, and how many workers there are.

use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;

use crate::supervisor::handle::Handle;
use crate::sys::systemd;

/// Changes of the status line are gathered for so long.
const STATUS_PAUSE: Duration = Duration::from_millis(200);

/// To the service manager, and to whoever started us by hand.
pub(super) async fn say_ready(ready: Option<OwnedFd>, handle: &Handle) {
    if let Some(fd) = ready {
        let _ = rustix::io::write(&fd, b"ready\n");
    }
    if systemd::is_notified() {
        let text = status_text(handle).await.unwrap_or_default();
        systemd::ready(&text);
        tokio::spawn(keep_status(handle.clone(), text));
    }
}

/// Tells the service manager how many workers there are, where that has changed.
async fn keep_status(handle: Handle, mut told: String) {
    let mut changes = handle.changes();
    loop {
        if matches!(changes.recv().await, Err(RecvError::Closed)) {
            return;
        }
        // A burst of starts is told once.
        tokio::time::sleep(STATUS_PAUSE).await;
        changes = changes.resubscribe();
        let Some(text) = status_text(&handle).await else {
            return;
        };
        if text != told {
            systemd::status(&text);
            told = text;
        }
    }
}

async fn status_text(handle: &Handle) -> Option<String> {
    let view = handle.service().await.ok()?;
    let workers = match view.n_workers {
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    };
    let rows = match view.n_rows {
        1 => "1 row".to_owned(),
        n => format!("{n} rows"),
    };
    Some(match view.state.as_str() {
        "running" => format!("{workers} running, {rows} on the roll."),
        state => format!("{state}: {workers} left, {rows} on the roll."),
    })
}
