//! `reload`: asks for it, then waits until the new image serves.

use std::time::Duration;

use serde_json::json;

use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;

/// The new image serves within this.
const SERVES_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the verb.
pub async fn run(daemon: &Daemon, out: &mut Output) -> Result<Code, Failure> {
    let wanted = daemon
        .call(async |c| c.reload().await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    let until = tokio::time::Instant::now() + SERVES_WITHIN;
    loop {
        let service = daemon
            .call(async |c| c.status("").await)
            .await
            .map_err(|e| failure(e, Asking::Action))?;
        let serving = service["service"]["generation"].as_u64();
        if serving.is_some_and(|serving| serving >= wanted) {
            break;
        }
        if tokio::time::Instant::now() >= until {
            return Err(Failure::failed(format!(
                "the new image did not take over in {} s; the old one serves on, its log says why",
                SERVES_WITHIN.as_secs()
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
    if out.json.is_some() {
        out.json(&json!({ "generation": wanted }));
    }
    Ok(Code::DONE)
}
