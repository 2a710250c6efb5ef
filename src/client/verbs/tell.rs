//! `report`: what a program inside a worker says of it.

use crate::client::args::ReportArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::supervisor::report::Facts;

/// Runs the verb.
pub async fn run(daemon: &Daemon, args: ReportArgs) -> Result<Code, Failure> {
    let facts = Facts {
        input: args.input.unwrap_or_default(),
        output: args.output.unwrap_or_default(),
        turn_done: args.turn_done,
        // An agent's words may be any bytes; that it failed is what counts.
        failed: args.failed.map(|why| why.to_string_lossy().into_owned()),
        status: args.status,
        // A hook that passes on zeros has still been called by a living agent.
        progress: true,
    };
    daemon
        .call(async |client| client.report(&facts).await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    Ok(Code::DONE)
}
