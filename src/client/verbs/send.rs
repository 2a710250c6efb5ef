//! `send`: a word on a worker's control channel.

use super::run::json_argument;
use crate::client::args::{SendArgs, SendWhat};
use crate::client::exit::{Code, Failure};
use crate::client::link::Daemon;

/// The frame, made before a daemon is looked for.
pub fn frame(args: &SendArgs) -> Result<String, Failure> {
    match (&args.inject, args.what) {
        (Some(text), _) => {
            let text = json_argument("--inject", text)?;
            let message: Box<serde_json::value::RawValue> = serde_json::from_str(&text)
                .map_err(|e| Failure::usage(format!("--inject: is not JSON: {e}")))?;
            Ok(format!("{{\"type\":\"inject\",\"message\":{message}}}"))
        }
        (None, Some(SendWhat::Pause)) => Ok("{\"type\":\"pause\"}".to_owned()),
        (None, Some(SendWhat::Resume)) => Ok("{\"type\":\"resume\"}".to_owned()),
        (None, None) => Err(Failure::usage("give --inject JSON, pause or resume")),
    }
}

/// Runs the verb.
pub async fn run(daemon: &Daemon, args: &SendArgs, frame: &str) -> Result<Code, Failure> {
    let sent = daemon
        .call(async |client| client.send(&args.worker, frame).await)
        .await;
    match sent {
        Ok(()) => Ok(Code::DONE),
        Err(error) => Err(super::not_acted(daemon, &args.worker, error).await),
    }
}
