//! `drain`: admission is closed, and nobody is left.

use std::pin::pin;
use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};

use super::report::count;
use crate::client::args::DrainArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;
use crate::dbus::client::{CallError, Client, Events};
use crate::dbus::errors;
use crate::supervisor::handle::DrainOptions;

/// Changes come in bursts: one look after each of them.
const BURST: Duration = Duration::from_millis(100);
/// Between two looks at a service from which nothing is heard.
const LOOK: Duration = Duration::from_secs(1);
/// The same, if nothing can be heard from it.
const DEAF_LOOK: Duration = Duration::from_millis(500);

/// Closes admission, and waits until no worker is left.
pub async fn run(daemon: &Daemon, args: &DrainArgs, out: &mut Output) -> Result<Code, Failure> {
    let options = DrainOptions {
        wait: args.wait,
        exit: args.exit,
    };
    let mut changes = Changes(daemon.client().events().await.ok());
    let asked = daemon.call(async |client| client.drain(&args.reason, options).await);
    let asked = changes.unheard_until(asked).await;
    asked.map_err(|e| failure(e, Asking::Action))?;
    let left = if args.no_block {
        changes
            .unheard_until(remaining(daemon))
            .await
            .unwrap_or_default()
    } else {
        until_empty(daemon, args.exit, &mut changes).await?
    };
    if out.json.is_some() {
        out.json(&json!({ "state": "draining", "workers": left.workers, "adopted": left.adopted }));
    } else if !out.quiet {
        let then = match (args.exit, left.workers) {
            (true, 0) => "the daemon ends",
            (true, _) => "the daemon ends with the last of them",
            (false, _) => "musterctl resume takes new ones again",
        };
        out.line(format!("Draining: {}; {then}.", left.words()));
    }
    Ok(Code::DONE)
}

/// Looks after each change; with `exit` the daemon's end is what was waited for.
async fn until_empty(daemon: &Daemon, exit: bool, changes: &mut Changes) -> Result<Left, Failure> {
    loop {
        match changes.unheard_until(remaining(daemon)).await {
            Ok(found) if found.open => {
                let why = "admission was opened again (musterctl resume) before all had ended";
                return Err(Failure::failed(why));
            }
            Ok(found) if found.workers == 0 => return Ok(found),
            Ok(_) => changes.next().await,
            Err(CallError::Unreachable(_)) if exit => return Ok(Left::default()),
            Err(error) if exit && error.code() == Some(errors::Code::ShuttingDown) => {
                return Ok(Left::default());
            }
            Err(error) => return Err(failure(error, Asking::Action)),
        }
    }
}

/// What is heard from the daemon; none once its connection has ended.
struct Changes(Option<Events>);

impl Changes {
    /// Awaits a call. A stream that nobody reads would hold up the answer.
    async fn unheard_until<T>(&mut self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        loop {
            tokio::select! {
                answer = &mut call => return answer,
                () = self.heard() => {}
            }
        }
    }

    /// Awaits the end of the next burst of changes, or some time without any.
    async fn next(&mut self) {
        if self.0.is_none() {
            return sleep(DEAF_LOOK).await;
        }
        if timeout(LOOK, self.heard()).await.is_ok() {
            let _ = timeout(LOOK, async {
                while timeout(BURST, self.heard()).await.is_ok() {}
            })
            .await;
        }
    }

    async fn heard(&mut self) {
        match &mut self.0 {
            Some(events) => {
                if events.next().await.is_none() {
                    self.0 = None;
                }
            }
            None => std::future::pending().await,
        }
    }
}

/// What a drain waits for: workers that have not ended. Adopted processes are left alone.
async fn remaining(daemon: &Daemon) -> Result<Left, CallError> {
    // One that has gone with the last of them must not be started to be asked for them.
    let ask = async |client: Client| client.without_activation().status("").await;
    let view = daemon.call(ask).await?;
    let number = |path: &str| view.pointer(path).and_then(serde_json::Value::as_u64);
    let adopted = number("/service/n_adopted").unwrap_or(0);
    let running = number("/service/n_workers").unwrap_or(0);
    let starting = number("/service/by_status/spawning").unwrap_or(0);
    let state = view
        .pointer("/service/state")
        .and_then(serde_json::Value::as_str);
    Ok(Left {
        workers: running.saturating_sub(adopted) + starting,
        adopted,
        open: state == Some("running"),
    })
}

#[derive(Clone, Copy, Default)]
struct Left {
    workers: u64,
    adopted: u64,
    open: bool,
}

impl Left {
    fn words(self) -> String {
        let workers = match self.workers {
            0 => "no worker is left".to_owned(),
            n => format!("{} left", count(n, "worker is", "workers are")),
        };
        match self.adopted {
            0 => workers,
            n => {
                let adopted = count(n, "adopted process is", "adopted processes are");
                format!("{workers} ({adopted} left alone)")
            }
        }
    }
}
