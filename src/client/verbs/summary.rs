//! `status` without a worker: the service itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::report::count;
use super::status::field;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::text::escape;
use crate::client::output::time::{absolute, now, relative, span};
use crate::client::output::{Output, Paint};
use crate::client::view::Service;

/// What the daemon says of itself.
pub async fn service(daemon: &Daemon, out: &mut Output) -> Result<Code, Failure> {
    let json = daemon
        .call(async |client| client.status("").await)
        .await
        .map_err(|e| failure(e, Asking::Status))?;
    if out.json.is_some() {
        out.json(&json);
        return Ok(Code::DONE);
    }
    let service = read_service(&json)?;
    summary(&service, now(), out);
    Ok(Code::DONE)
}

/// The summary, wherever the daemon put it beside the workers.
pub fn read_service_json(json: &Value) -> &Value {
    ["summary", "service"]
        .iter()
        .find_map(|key| json.get(key))
        .unwrap_or(json)
}

fn read_service(json: &Value) -> Result<Service, Failure> {
    serde_json::from_value(read_service_json(json).clone())
        .map_err(|e| Failure::failed(format!("musterd's answer about itself: {e}")))
}

fn summary(service: &Service, now: i64, out: &mut Output) {
    let paint = if service.degraded.is_empty() {
        Paint::Good
    } else {
        Paint::Warn
    };
    let state = if service.degraded.is_empty() {
        escape(&service.state)
    } else {
        format!("{}, degraded", escape(&service.state))
    };
    out.line(format!(
        "{} musterd {}",
        out.style.paint(paint, "●"),
        escape(&service.version)
    ));
    let started = service.started;
    let since = |at| format!("since {}; {}", absolute(at), relative(at, now));
    let state = out.style.paint(paint, &state);
    match &service.closed {
        Some(closed) => {
            let why = match closed.reason.as_str() {
                "" => String::new(),
                reason => format!(": {}", escape(reason)),
            };
            field(
                out,
                "State",
                &format!("{state} {}{why}", since(closed.since)),
            );
            field(out, "Running", &since(started));
        }
        None => field(out, "State", &format!("{state} {}", since(started))),
    }
    field(
        out,
        "PID",
        &format!("{} (generation {})", service.pid, service.generation),
    );
    let statuses = counted(&service.by_status);
    let rows = count(u64::from(service.n_rows), "row", "rows");
    let rows = match statuses.is_empty() {
        true => rows,
        false => format!("{rows}: {statuses}"),
    };
    let alive = count(u64::from(service.n_workers), "worker", "workers");
    let kinds = counted(&service.by_kind);
    let kinds = match kinds.is_empty() {
        true => kinds,
        false => format!(" ({kinds})"),
    };
    field(out, "Roll", &format!("{alive} alive{kinds}; {rows}"));
    let grace = span(Duration::from_micros(service.grace_usec));
    let swept = service.last_reap.map_or("never swept".to_owned(), |at| {
        format!("last sweep {}", relative(at, now))
    });
    field(out, "Collector", &format!("grace {grace}, {swept}"));
    field(out, "Contained", &escape(&service.containment));
    field(out, "State dir", &escape(&service.state_dir));
    if service.n_quarantined > 0 {
        let files = count(u64::from(service.n_quarantined), "file", "files");
        field(
            out,
            "Quarantine",
            &format!("{files} that could not be read"),
        );
    }
    for fault in &service.degraded {
        field(out, "Degraded", &escape(fault));
    }
    let exits = counted(&service.exits);
    let ended = match exits.is_empty() {
        true => String::new(),
        false => format!("; ended: {exits}"),
    };
    field(out, "Spawned", &format!("{}{ended}", service.spawned));
    let refused = counted(&service.refused);
    if !refused.is_empty() {
        field(out, "Refused", &refused);
    }
}

/// `2 live, 1 exited`: what there is none of is left out.
fn counted(counts: &BTreeMap<String, u64>) -> String {
    let words: Vec<String> = counts
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(word, n)| format!("{n} {}", escape(word)))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::args::Global;
    use serde_json::json;

    #[test]
    fn a_summary_is_found_beside_the_workers_and_alone() {
        for json in [
            json!({"summary": {"state": "running"}, "workers": []}),
            json!({"service": {"state": "running"}, "workers": []}),
            json!({"state": "running"}),
        ] {
            assert_eq!(read_service(&json).unwrap().state, "running");
        }
        let service: Service = serde_json::from_value(json!({
            "state": "draining", "closed": {"since": 5_000_000, "reason": "new disk"},
            "degraded": ["disk full"], "n_workers": 2, "by_kind": {"think": 2, "command": 0},
            "refused": {"depth": 3},
        }))
        .unwrap();
        let text = {
            let mut out = Output::new(&Global::default());
            out.style.colour = false;
            summary(&service, 65_000_000, &mut out);
            out.into_text()
        };
        for part in [
            "Degraded: disk full\n",
            "State: draining, degraded since ",
            "1min ago: new disk\n",
            "Roll: 2 workers alive (2 think); 0 rows\n",
            "Refused: 3 depth\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }
}
