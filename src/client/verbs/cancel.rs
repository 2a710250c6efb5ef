//! `cancel`: begins the ladders, waits, and says what was really done.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::json;
use tokio::task::JoinSet;

use super::wait::{Ended, ended_by_force, print};
use super::{report, resolve};
use crate::client::args::CancelArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, Tally, failure};
use crate::client::output::Output;
use crate::client::output::text::escape;
use crate::dbus::client::Cancelled;
use crate::supervisor::handle::CancelOptions;

/// Runs the verb.
pub async fn run(
    daemon: &Rc<Daemon>,
    args: &CancelArgs,
    out: &mut Output,
) -> Result<Code, Failure> {
    let mut tally = Tally::default();
    let mut begun = Vec::new();
    // Every ladder begins before the first is waited for, so that they run in parallel.
    for worker in &args.workers {
        match begin(daemon, worker, args).await {
            Ok(answer) => begun.push(answer),
            Err(failure) => tally.add(Err(failure)),
        }
    }
    if args.no_block {
        said(&begun, out);
        return Ok(tally.code());
    }
    let ids: BTreeSet<String> = begun
        .iter()
        .flat_map(|(id, answer)| std::iter::once(id).chain(&answer.descendants))
        .cloned()
        .collect();
    let ended_before: BTreeSet<String> = begun
        .iter()
        .filter(|(_, answer)| answer.state == "ended")
        .map(|(id, _)| id.clone())
        .collect();
    let mut waits = JoinSet::new();
    for id in ids {
        let daemon = Rc::clone(daemon);
        waits.spawn_local(async move { ended_by_force(&daemon, &id).await });
    }
    let mut done = Vec::new();
    while let Some(result) = waits.join_next().await {
        match result {
            Ok(Ok(ended)) => done.push(ended),
            Ok(Err(failure)) => tally.add(Err(failure)),
            Err(_) => {}
        }
    }
    done.sort_by(|a, b| a.worker.id.cmp(&b.worker.id));
    let (before, done): (Vec<Ended>, Vec<Ended>) = match out.json.is_some() {
        true => (Vec::new(), done),
        false => done
            .into_iter()
            .partition(|ended| ended_before.contains(&ended.worker.id)),
    };
    let quiet = out.quiet;
    for ended in before.iter().filter(|_| !quiet) {
        out.line(format!(
            "{} (it had ended already)",
            report::ending(&ended.worker)
        ));
    }
    print(&done, out);
    Ok(tally.code())
}

async fn begin(
    daemon: &Daemon,
    worker: &str,
    args: &CancelArgs,
) -> Result<(String, Cancelled), Failure> {
    let id = resolve(daemon, worker).await?;
    let options = CancelOptions {
        now: args.now,
        keep_descendants: args.keep_descendants,
    };
    let answer = daemon
        .call(async |client| client.cancel(&id, &args.reason, options).await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    if answer.state == "begun" && !answer.durable {
        say!(
            "musterctl: {} is being ended, but that could not be written to disk; see `musterctl status`",
            escape(&id)
        );
    }
    Ok((id, answer))
}

/// What each cancel found.
fn said(begun: &[(String, Cancelled)], out: &mut Output) {
    if out.json.is_some() {
        let rows: Vec<_> = begun
            .iter()
            .map(|(id, answer)| {
                json!({
                    "id": id,
                    "state": answer.state,
                    "durable": answer.durable,
                    "descendants": answer.descendants,
                    "outcome": (!answer.outcome.is_empty()).then_some(&answer.outcome),
                })
            })
            .collect();
        out.json(&rows);
        return;
    }
    if out.quiet {
        return;
    }
    for (id, answer) in begun {
        let found = match answer.state.as_str() {
            "begun" if !answer.outcome.is_empty() => {
                "waited to be started again; it is ended".to_owned()
            }
            "begun" => "is being ended".to_owned(),
            "running" => "was being ended already".to_owned(),
            _ => format!("had ended already: {}", escape(&answer.outcome)),
        };
        let with = match answer.descendants.len() {
            0 => String::new(),
            n => format!(", {} with it", report::count(n as u64, "worker", "workers")),
        };
        out.line(format!("{} {found}{with}", escape(id)));
    }
}
