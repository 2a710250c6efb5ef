//! `monitor`: one line, or one JSON object, for each change as it happens.

use serde_json::{Value, json};

use super::resolve;
use crate::client::args::MonitorArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::text::escape;
use crate::client::output::time::{absolute, now};
use crate::client::output::{Output, write_out};
use crate::client::units::signal_name;
use crate::dbus::client::Event;
use crate::worker::Exit;

/// Most names of properties on a line.
const NAMES_MAX: usize = 8;

/// Runs the verb, until it is interrupted or the daemon ends.
pub async fn run(daemon: &Daemon, args: &MonitorArgs, out: &Output) -> Result<Code, Failure> {
    let mut ids = Vec::new();
    for worker in &args.workers {
        ids.push(resolve(daemon, worker).await?);
    }
    let client = daemon.client();
    let mut events = client
        .events()
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    while let Some(event) = events.next().await {
        let (id, what, words) = describe(&event);
        if !ids.is_empty() && !ids.contains(&id) {
            continue;
        }
        let at = now();
        let line = if out.json.is_some() {
            let mut json = what;
            json["time"] = json!(at);
            format!("{json}\n")
        } else {
            let id = if id.is_empty() { "musterd" } else { &id };
            format!("{}  {:8}  {}\n", absolute(at), escape(id), escape(&words))
        };
        write_out(line.as_bytes())
            .map_err(|e| Failure::failed(format!("cannot write to stdout: {e}")))?;
    }
    Err(Failure::unreachable("musterd closed the connection"))
}

/// The worker's id, the event as JSON, and in words.
fn describe(event: &Event) -> (String, Value, String) {
    match event {
        Event::New { id } => (
            id.clone(),
            json!({"event": "new", "id": id}),
            "new".to_owned(),
        ),
        Event::Exited {
            id,
            outcome,
            exit_code,
            exit_signal,
            kind,
            settled,
            reservation,
        } => {
            let exit = super::report::exit(*exit_code, *exit_signal);
            let mut words = match exit {
                Some(Exit::Code(code)) => format!("{outcome} (exit code {code})"),
                Some(Exit::Signal(signal)) => format!("{outcome} ({})", signal_name(signal)),
                None => outcome.clone(),
            };
            if kind != "command" {
                words.push_str(&format!(", {kind}"));
            }
            if *settled {
                words.push_str(", settled");
            }
            if let Some(reservation) = reservation {
                words.push_str(&format!(", reservation {reservation} released"));
            }
            let json = json!({
                "event": "exited",
                "id": id,
                "outcome": outcome,
                "exit": exit,
                "kind": kind,
                "settled": settled,
                "reservation": reservation,
            });
            (id.clone(), json, words)
        }
        Event::Removed { id, why } => (
            id.clone(),
            json!({"event": "removed", "id": id, "why": why}),
            format!("off the roll: {why}"),
        ),
        Event::Reaped { counts, removed } => {
            let words: Vec<String> = counts
                .iter()
                .filter(|(key, n)| **n > 0 && !key.contains(':'))
                .map(|(key, n)| format!("{n} {key}"))
                .collect();
            (
                String::new(),
                json!({"event": "reaped", "counts": counts, "removed": removed}),
                format!("sweep: {}", words.join(", ")),
            )
        }
        Event::Changed { id, names } => (
            id.clone(),
            json!({"event": "changed", "id": id, "properties": names}),
            match names.len() {
                // One that nothing was told of before: all of it is news.
                n if n > NAMES_MAX => format!("changed: {n} properties"),
                _ => format!("changed: {}", names.join(", ")),
            },
        ),
    }
}
