//! Verbs about the daemon itself: `drain`, `resume`, `log-level`.

use std::time::Duration;

use serde_json::json;

use super::report::count;
use crate::client::args::{DrainArgs, LogLevelArgs};
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;
use crate::client::output::text::escape;
use crate::dbus::client::CallError;
use crate::dbus::errors;
use crate::supervisor::handle::DrainOptions;

/// Between two looks at a service that drains.
const LOOK: Duration = Duration::from_millis(200);

/// Closes admission, and waits until no worker is left.
pub async fn drain(daemon: &Daemon, args: &DrainArgs, out: &mut Output) -> Result<Code, Failure> {
    let options = DrainOptions {
        wait: args.wait,
        exit: args.exit,
    };
    daemon
        .call(async |client| client.drain(&args.reason, options).await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    let mut left = Left::default();
    if !args.no_block {
        loop {
            match remaining(daemon).await {
                Ok(found) if found.workers == 0 => {
                    left = found;
                    break;
                }
                Ok(_) => tokio::time::sleep(LOOK).await,
                // It ends with the last worker: gone, or at it.
                Err(CallError::Unreachable(_)) if args.exit => break,
                Err(error) if args.exit && error.code() == Some(errors::Code::ShuttingDown) => {
                    break;
                }
                Err(error) => return Err(failure(error, Asking::Action)),
            }
        }
    } else if let Ok(found) = remaining(daemon).await {
        left = found;
    }
    if out.json.is_some() {
        out.json(&json!({ "state": "draining", "workers": left.workers, "adopted": left.adopted }));
    } else if !out.quiet {
        let adopted = match left.adopted {
            0 => String::new(),
            n => format!(
                " ({} left alone)",
                count(n, "adopted process is", "adopted processes are")
            ),
        };
        let left = match left.workers {
            0 => format!("no worker is left{adopted}"),
            n => format!("{} left{adopted}", count(n, "worker is", "workers are")),
        };
        let then = if args.exit {
            "the daemon ends with the last of them"
        } else {
            "musterctl resume takes new ones again"
        };
        out.line(format!("Draining: {left}; {then}."));
    }
    Ok(Code::DONE)
}

/// What a drain waits for: workers that have not ended. Adopted processes are left alone.
async fn remaining(daemon: &Daemon) -> Result<Left, CallError> {
    let view = daemon.call(async |client| client.status("").await).await?;
    let number = |path: &str| view.pointer(path).and_then(serde_json::Value::as_u64);
    let adopted = number("/service/n_adopted").unwrap_or(0);
    let running = number("/service/n_workers").unwrap_or(0);
    let starting = number("/service/by_status/spawning").unwrap_or(0);
    Ok(Left {
        workers: running.saturating_sub(adopted) + starting,
        adopted,
    })
}

#[derive(Clone, Copy, Default)]
struct Left {
    workers: u64,
    adopted: u64,
}

/// Prints the counters; with `--json` as one text.
pub async fn metrics(daemon: &Daemon, out: &mut Output) -> Result<Code, Failure> {
    let text = daemon
        .call(async |client| client.metrics().await)
        .await
        .map_err(|e| failure(e, Asking::Status))?;
    if out.json.is_some() {
        out.json(&json!({ "openmetrics": text }));
    } else {
        for line in text.lines() {
            out.line(line);
        }
    }
    Ok(Code::DONE)
}

/// Opens admission.
pub async fn resume(daemon: &Daemon, out: &mut Output) -> Result<Code, Failure> {
    daemon
        .call(async |client| client.resume().await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    if out.json.is_some() {
        out.json(&json!({ "state": "running" }));
    }
    Ok(Code::DONE)
}

/// Says or sets the level.
pub async fn log_level(
    daemon: &Daemon,
    args: &LogLevelArgs,
    out: &mut Output,
) -> Result<Code, Failure> {
    if let Some(level) = &args.level {
        // The words of the configuration file, as syslog spells them.
        let level = match level.as_str() {
            "error" => "err",
            "warn" => "warning",
            other => other,
        };
        daemon
            .call(async |client| client.set_log_level(level).await)
            .await
            .map_err(|e| failure(e, Asking::Action))?;
    }
    if args.level.is_some() && out.json.is_none() {
        return Ok(Code::DONE);
    }
    let level = daemon
        .call(async |client| client.log_level().await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    if out.json.is_some() {
        out.json(&json!({ "log_level": level }));
    } else {
        out.line(escape(&level));
    }
    Ok(Code::DONE)
}
