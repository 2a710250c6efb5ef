//! Report's dictionary and its method. A report is told to the worker that its sender's process
//! sits in, and to no other.

use zbus::Message;

use super::dict::{Details, Dict, Keys, Received, put};
use super::dispatch::Call;
use super::errors::Failure;
use crate::supervisor::refused::Refused;
use crate::supervisor::report::Facts;

/// Report's dictionary.
pub const REPORT_KEYS: Keys = &[
    ("input-tokens", "t"),
    ("output-tokens", "t"),
    ("turn-done", "b"),
    ("failed", "s"),
    ("status", "s"),
    ("progress", "b"),
];

/// Report's dictionary to what the supervisor takes.
pub fn facts_from_dict(dict: Received) -> Result<Facts, Failure> {
    let mut d = Dict::checked("Report", dict, REPORT_KEYS)?;
    let facts = Facts {
        input: d.take("input-tokens")?.unwrap_or_default(),
        output: d.take("output-tokens")?.unwrap_or_default(),
        turn_done: d.take("turn-done")?.unwrap_or_default(),
        failed: d.take("failed")?,
        status: d.take("status")?,
        progress: d.take("progress")?.unwrap_or_default(),
    };
    if facts == Facts::default() {
        let keys: Vec<&str> = REPORT_KEYS.iter().map(|(key, _)| *key).collect();
        let why = format!(
            "Report: nothing is reported; give one of {}",
            keys.join(", ")
        );
        return Err(Failure::invalid(why));
    }
    if facts.turn_done && facts.failed.is_some() {
        return Err(d.bad("failed", "was given together with \"turn-done\"; give one"));
    }
    Ok(facts)
}

/// The inverse of [`facts_from_dict`].
pub fn facts_to_dict(facts: &Facts) -> Details {
    let mut dict = Details::new();
    put(
        &mut dict,
        "input-tokens",
        (facts.input > 0).then_some(facts.input),
    );
    put(
        &mut dict,
        "output-tokens",
        (facts.output > 0).then_some(facts.output),
    );
    put(&mut dict, "turn-done", facts.turn_done.then_some(true));
    put(&mut dict, "failed", facts.failed.clone());
    put(&mut dict, "status", facts.status.clone());
    put(&mut dict, "progress", facts.progress.then_some(true));
    dict
}

/// Report.
pub async fn report(call: &Call<'_>) -> Result<Message, Failure> {
    let facts = facts_from_dict(call.arguments()?)?;
    let worker = call.ask(|caller| call.handle().inside(caller)).await?;
    // Looked at after its place was: had it ended before, its pid could have been another's.
    if call.who.has_gone() {
        return Err(Refused::CallerGone.into());
    }
    call.handle().report(worker, facts).await?;
    call.reply(&())
}
