//! `reload`: asks for it, then waits until the new image serves.

use serde_json::json;

use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;

/// Runs the verb.
pub async fn run(daemon: &Daemon, out: &mut Output) -> Result<Code, Failure> {
    let wanted = daemon
        .call(async |c| c.reload().await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    // Nothing is read between the answer and the change, so whoever answers now has the last word.
    let service = daemon
        .call(async |c| c.status("").await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    let serving = service["service"]["generation"].as_u64();
    if serving.is_none_or(|serving| serving < wanted) {
        return Err(Failure::failed(
            "the new image did not take over; the old one serves on, its log says why",
        ));
    }
    if out.json.is_some() {
        out.json(&json!({ "generation": wanted }));
    }
    Ok(Code::DONE)
}
