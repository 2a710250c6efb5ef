//! `show`: everything known, as KEY=VALUE under the names of the bus properties.

use serde_json::Value;

use super::look;
use super::summary::read_service_json;
use crate::client::args::ShowArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, Tally, failure};
use crate::client::output::Output;
use crate::client::output::text::escape;

/// Where a property of the contract is in the JSON, where its name alone does not say.
const PROPERTIES: &[(&str, &str)] = &[
    ("Id", "/id"),
    ("Name", "/name"),
    ("Kind", "/kind"),
    ("KindType", "/kind_fields/type"),
    ("KindFields", "/kind_fields"),
    ("Node", "/node"),
    ("Status", "/status"),
    ("Health", "/health"),
    ("StatusText", "/status_text"),
    ("Owner", "/owner/uid"),
    ("PID", "/pid"),
    ("Parent", "/parent"),
    ("Depth", "/depth"),
    ("MsgDepth", "/msg_depth"),
    ("TraceId", "/trace_id"),
    ("CommandLine", "/argv"),
    ("WorkingDirectory", "/cwd"),
    ("Worktree", "/worktree"),
    ("ControlGroup", "/control_group"),
    ("CreatedTimestamp", "/created"),
    ("StartedTimestamp", "/started"),
    ("ExitedTimestamp", "/exited"),
    ("DeadlineTimestamp", "/deadline"),
    ("Outcome", "/outcome"),
    ("HowKnown", "/how_known"),
    ("ExitCode", "/exit/code"),
    ("ExitSignal", "/exit/signal"),
    ("OOMKilled", "/oom_killed"),
    ("Rung", "/rung"),
    ("NextRungTimestamp", "/next_rung"),
    ("Unkillable", "/unkillable"),
    ("TookUSec", "/took_usec"),
    ("Processes", "/processes"),
    ("Note", "/note"),
    ("CancelReason", "/cancelled/reason"),
    ("CancelledBy", "/cancelled/by"),
    ("CancelledTimestamp", "/cancelled/at"),
    ("Settled", "/settled"),
    ("Channel", "/channel"),
    ("FramesSkipped", "/frames_skipped"),
    ("Held", "/held"),
    ("Attended", "/attended"),
    ("Adopted", "/adopted"),
    ("InputTokens", "/tokens/input"),
    ("OutputTokens", "/tokens/output"),
    ("Restarts", "/restarts"),
    ("Reservation", "/reservation"),
    ("Leftovers", "/leftovers/names"),
    ("NLeftovers", "/leftovers/count"),
    ("Limits", "/limits"),
    ("Unenforced", "/unenforced"),
    ("Output", "/output"),
    ("OutputDropped", "/output_dropped"),
    ("ReadOnly", "/read_only"),
    ("Generation", "/generation"),
];

/// Keys of the JSON that the table above takes apart.
const TAKEN: &[&str] = &[
    "owner",
    "exit",
    "cancelled",
    "tokens",
    "leftovers",
    "age_ms",
];

/// Runs the verb.
pub async fn run(daemon: &Daemon, args: &ShowArgs, out: &mut Output) -> Result<Code, Failure> {
    let mut tally = Tally::default();
    let mut found: Vec<Value> = Vec::new();
    if args.workers.is_empty() {
        let json = daemon
            .call(async |client| client.status("").await)
            .await
            .map_err(|e| failure(e, Asking::Action))?;
        found.push(read_service_json(&json).clone());
    }
    for worker in &args.workers {
        match look(daemon, worker, Asking::Action).await {
            Ok((json, _)) => found.push(json),
            Err(failure) => tally.add(Err(failure)),
        }
    }
    if out.json.is_some() {
        // One worker asked for is one object, several are an array.
        match found.as_slice() {
            [one] if args.workers.len() <= 1 => out.json(one),
            _ => out.json(&found),
        }
        return Ok(tally.code());
    }
    for (n, json) in found.iter().enumerate() {
        if n > 0 && !args.value {
            out.line("");
        }
        let known = if args.workers.is_empty() {
            &[]
        } else {
            PROPERTIES
        };
        let pairs = properties(json, known);
        for line in lines(json, &pairs, args) {
            out.line(line);
        }
    }
    Ok(tally.code())
}

/// Names and values, those of the contract first, then what a newer daemon knows besides.
fn properties<'a>(json: &'a Value, known: &[(&str, &str)]) -> Vec<(String, Option<&'a Value>)> {
    let mut pairs: Vec<(String, Option<&Value>)> = known
        .iter()
        .map(|(name, place)| ((*name).to_owned(), json.pointer(place)))
        .collect();
    for (key, value) in json.as_object().into_iter().flatten() {
        let place = format!("/{key}");
        let shown = known.iter().any(|(_, p)| *p == place) || TAKEN.contains(&key.as_str());
        if known.is_empty() || !shown {
            pairs.push((camel(key), Some(value)));
        }
    }
    pairs
}

/// `n_workers` as `NWorkers`.
fn camel(key: &str) -> String {
    key.split('_')
        .map(|word| {
            let mut chars = word.chars();
            chars.next().map_or_else(String::new, |first| {
                first.to_ascii_uppercase().to_string() + chars.as_str()
            })
        })
        .collect()
}

/// What is compared of a name: `exit_code`, `exit-code` and `ExitCode` are the same.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | '.'))
        .flat_map(char::to_lowercase)
        .collect()
}

fn lines(json: &Value, pairs: &[(String, Option<&Value>)], args: &ShowArgs) -> Vec<String> {
    let line = |name: &str, value: Option<&Value>| {
        let value = text(value);
        if args.value {
            value
        } else {
            format!("{name}={value}")
        }
    };
    if args.property.is_empty() {
        return pairs.iter().map(|(n, v)| line(n, *v)).collect();
    }
    let mut out = Vec::new();
    for asked in &args.property {
        let wanted = plain(asked);
        if let Some((name, value)) = pairs.iter().find(|(name, _)| plain(name) == wanted) {
            out.push(line(name, *value));
        } else if let Some(value) = json.get(asked) {
            out.push(line(asked, Some(value)));
        }
    }
    out
}

/// One line: texts as they are but for control characters, yes and no, the rest as JSON.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => escape(text),
        Some(Value::Bool(true)) => "yes".to_owned(),
        Some(Value::Bool(false)) => "no".to_owned(),
        Some(other) => escape(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(json: &Value, property: &[&str], value: bool) -> Vec<String> {
        let args = ShowArgs {
            property: property.iter().map(|p| (*p).to_owned()).collect(),
            value,
            workers: vec!["w".to_owned()],
        };
        lines(json, &properties(json, PROPERTIES), &args)
    }

    #[test]
    fn properties_have_the_names_of_the_bus_and_any_spelling_finds_them() {
        let json = json!({
            "id": "4kd02m1x", "status": "exited", "exit": {"code": 3}, "held": false,
            "argv": ["a", "b\n"], "outcome": null, "brand_new": 1,
        });
        assert_eq!(shown(&json, &["ExitCode"], false), ["ExitCode=3"]);
        assert_eq!(
            shown(&json, &["exit_code", "STATUS"], true),
            ["3", "exited"]
        );
        assert_eq!(
            shown(&json, &["Held", "Outcome"], false),
            ["Held=no", "Outcome="]
        );
        assert_eq!(shown(&json, &["argv"], true), [r#"["a","b\n"]"#]);
        assert_eq!(shown(&json, &["nosuch"], true), Vec::<String>::new());
        assert!(shown(&json, &[], false).contains(&"BrandNew=1".to_owned()));
    }

    #[test]
    fn every_property_of_the_contract_that_a_view_holds_is_shown() {
        let names: Vec<&str> = PROPERTIES.iter().map(|(name, _)| *name).collect();
        for name in [
            "PID",
            "Worktree",
            "NextRungTimestamp",
            "OOMKilled",
            "Reservation",
        ] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
