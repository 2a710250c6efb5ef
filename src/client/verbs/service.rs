//! Verbs about the daemon itself: `metrics`, `resume`, `log-level`.

use serde_json::json;

use crate::client::args::LogLevelArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;
use crate::client::output::text::escape;

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
