//! `wait`: until workers have ended, and the wait that `cancel`, `run` and `logs` share.

use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use super::{look, report, resolve};
use crate::client::args::WaitArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, Tally, failure};
use crate::client::output::Output;
use crate::client::view::Worker;

/// How often a cancelled worker that does not end is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// An ended worker.
#[derive(Debug)]
pub struct Ended {
    /// JSON of the row; what the wait told where the row has gone meanwhile.
    pub json: Value,
    /// The same, read.
    pub worker: Worker,
}

impl Ended {
    /// The worker's own status.
    pub fn code(&self) -> Code {
        Code::of_worker(self.worker.known_outcome(), self.worker.exit)
    }
}

/// Waits for the end of the worker with this id.
pub async fn ended(daemon: &Daemon, id: &str) -> Result<Ended, Failure> {
    let waited = daemon
        .call(async |client| client.wait(id).await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    if let Ok((json, worker)) = look(daemon, id, Asking::Action).await {
        return Ok(Ended { json, worker });
    }
    // It may have been reaped since.
    let worker = report::of_waited(id, &waited);
    let json = serde_json::json!({
        "id": id,
        "status": worker.status,
        "outcome": worker.outcome,
        "exit": worker.exit,
        "rung": worker.rung,
        "took_usec": worker.took_usec,
        "processes": worker.processes,
        "oom_killed": worker.oom_killed,
        "how_known": worker.how_known,
        "settled": waited.settled,
    });
    Ok(Ended { json, worker })
}

/// As [`ended`], and says once if the worker outlives even the kill.
pub async fn ended_by_force(daemon: &Daemon, id: &str) -> Result<Ended, Failure> {
    let wait = ended(daemon, id);
    tokio::pin!(wait);
    let mut said = false;
    loop {
        tokio::select! {
            ended = &mut wait => return ended,
            () = tokio::time::sleep(LOOK), if !said => {
                if let Ok((_, worker)) = look(daemon, id, Asking::Action).await
                    && worker.unkillable
                {
                    said = true;
                    say!(
                        "musterctl: {} outlived SIGKILL (a process in uninterruptible sleep?); musterd goes on trying, Ctrl-C stops waiting",
                        crate::client::output::text::escape(&worker.title())
                    );
                }
            }
        }
    }
}

/// Runs the verb.
pub async fn run(daemon: &Rc<Daemon>, args: &WaitArgs, out: &mut Output) -> Result<Code, Failure> {
    let mut tally = Tally::default();
    let mut done = Vec::new();
    let waiting = wait_all(daemon, args, &mut tally, &mut done);
    let in_time = match args.timeout {
        Some(limit) => tokio::time::timeout(limit, waiting).await.is_ok(),
        None => {
            waiting.await;
            true
        }
    };
    print(&done, out);
    if in_time {
        Ok(tally.code())
    } else {
        Err(Failure::new(
            Code::TIMEOUT,
            "the timeout has passed and not every worker has ended",
        ))
    }
}

async fn wait_all(daemon: &Rc<Daemon>, args: &WaitArgs, tally: &mut Tally, done: &mut Vec<Ended>) {
    let mut waits = JoinSet::new();
    for worker in &args.workers {
        // The id stays with the row; a name may mean another one after the end.
        match resolve(daemon, worker).await {
            Ok(id) => {
                let daemon = Rc::clone(daemon);
                waits.spawn_local(async move { ended(&daemon, &id).await });
            }
            Err(failure) => tally.add(Err(failure)),
        }
    }
    while let Some(result) = waits.join_next().await {
        let Ok(result) = result else { continue };
        match result {
            Ok(ended) => {
                tally.add(Ok(ended.code()));
                done.push(ended);
                if args.any {
                    break;
                }
            }
            Err(failure) => tally.add(Err(failure)),
        }
    }
}

/// One line a worker, or their rows as JSON.
pub fn print(done: &[Ended], out: &mut Output) {
    if out.json.is_some() {
        let rows: Vec<&Value> = done.iter().map(|e| &e.json).collect();
        out.json(&rows);
    } else if !out.quiet {
        for ended in done {
            out.line(report::ending(&ended.worker));
        }
    }
}
