//! Words for a worker's state and end, shared by the verbs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use crate::client::output::Paint;
use crate::client::output::text::escape;
use crate::client::output::time::span;
use crate::client::units::signal_name;
use crate::client::view::Worker;
use crate::dbus::client::{Listed, Waited};
use crate::worker::Exit;

/// The dot: lives, waits, ended, or ended badly.
pub fn dot(worker: &Worker) -> (&'static str, Paint) {
    if worker.is_bad() {
        ("×", Paint::Bad)
    } else if worker.is_terminal() {
        ("○", Paint::Dim)
    } else {
        ("●", paint(worker))
    }
}

/// The colour of a worker's state.
pub fn paint(worker: &Worker) -> Paint {
    let sick = matches!(
        worker.health.as_deref(),
        Some("stuck" | "dead" | "deadline-exceeded")
    );
    if worker.is_bad() || worker.unkillable {
        Paint::Bad
    } else if worker.is_terminal() {
        Paint::Plain
    } else if sick || worker.frozen || worker.status != "live" {
        Paint::Warn
    } else {
        Paint::Good
    }
}

/// `live`, `live(stuck)`, `stopping(unkillable)`, `exited(0)`, `exited(SIGKILL)`, ...
pub fn state(worker: &Worker) -> String {
    let detail = if worker.unkillable {
        Some("unkillable".to_owned())
    } else if worker.is_terminal() {
        match worker.exit {
            Some(Exit::Code(code)) => Some(code.to_string()),
            Some(Exit::Signal(signal)) => Some(signal_name(signal)),
            None => worker.how_known.clone().or_else(|| worker.outcome.clone()),
        }
    } else if worker.frozen {
        Some("frozen".to_owned())
    } else if worker.status == "live" {
        worker
            .health
            .clone()
            .filter(|h| h != "healthy" && h != "busy")
    } else {
        None
    };
    match detail.filter(|d| !d.is_empty()) {
        Some(detail) => format!("{}({})", escape(&worker.status), escape(&detail)),
        None => escape(&worker.status),
    }
}

/// One sentence on what was really done when a worker ended: outcome, exit, rung, time, how many
/// processes, what was left running.
pub fn ending(worker: &Worker) -> String {
    let mut parts = vec![outcome(worker)];
    match worker.rung.as_deref() {
        None | Some("" | "none") => {}
        Some(rung) => {
            let took = worker
                .took_usec
                .map(|t| format!(" after {}", span(Duration::from_micros(t))))
                .unwrap_or_default();
            parts.push(format!("rung {}{took}", escape(rung)));
        }
    }
    if worker.processes > 0 {
        parts.push(count(worker.processes, "process", "processes") + " ended");
    }
    if worker.leftovers.count > 0 || !worker.leftovers.names.is_empty() {
        parts.push(format!("left running: {}", leftovers(worker)));
    }
    if let Some(cancelled) = &worker.cancelled
        && !cancelled.reason.is_empty()
    {
        parts.push(format!("reason: {}", escape(&cancelled.reason)));
    }
    if let Some(note) = worker.note.as_deref() {
        let rest = untold(worker, &escape(note));
        if !rest.is_empty() {
            parts.push(rest);
        }
    }
    format!("{}: {}", escape(&worker.title()), parts.join(", "))
}

/// A note without what ended the worker: that is part of it for whoever reads the row alone.
fn untold(worker: &Worker, note: &str) -> String {
    let word = worker.outcome.as_deref().unwrap_or("ended");
    let told = match worker.exit {
        Some(Exit::Code(code)) => format!("{word}, exit code {code}"),
        Some(Exit::Signal(_)) if worker.oom_killed => format!("{word}, out of memory"),
        Some(Exit::Signal(signal)) => format!("{word}, signal {signal}"),
        None => word.to_owned(),
    };
    let parts: Vec<&str> = note.split("; ").filter(|part| *part != told).collect();
    parts.join("; ")
}

/// Since when it is what it is; `None` if the moment of its end is not known.
pub fn since(worker: &Worker) -> Option<i64> {
    match worker.exited {
        None if worker.is_terminal() => None,
        exited => Some(exited.or(worker.started).unwrap_or(worker.created)),
    }
}

/// `completed (exit code 0)`, `crashed (killed for lack of memory, SIGKILL)`, ...
pub fn outcome(worker: &Worker) -> String {
    let word = match worker.outcome.as_deref() {
        Some(word) if !word.is_empty() => escape(word),
        _ => escape(&worker.status),
    };
    let exit = match worker.exit {
        Some(Exit::Code(code)) => format!("exit code {code}"),
        Some(Exit::Signal(signal)) => signal_name(signal),
        None => match worker.how_known.as_deref() {
            Some(how) if !how.is_empty() => escape(how),
            _ => return word,
        },
    };
    if worker.oom_killed {
        format!("{word} (killed for lack of memory, {exit})")
    } else {
        format!("{word} ({exit})")
    }
}

/// `2 (sleep, node)`.
pub fn leftovers(worker: &Worker) -> String {
    let names: Vec<String> = worker.leftovers.names.iter().map(|n| escape(n)).collect();
    let count = worker.leftovers.count.max(names.len() as u64);
    if names.is_empty() {
        count.to_string()
    } else {
        format!("{count} ({})", names.join(", "))
    }
}

/// `1 process`, `3 processes`.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// What a list's row tells, in the shape the words above are made from.
pub fn of_listed(row: &Listed) -> Worker {
    Worker {
        id: row.id.clone(),
        name: row.name.clone(),
        kind: row.kind.clone(),
        status: row.status.clone(),
        health: filled(&row.health),
        owner: crate::client::view::Owner {
            uid: row.uid,
            gid: 0,
        },
        pid: i32::try_from(row.pid).ok().filter(|p| *p > 0),
        parent: filled(&row.parent),
        argv: row.argv.clone(),
        created: signed(row.created),
        started: row.started.map(signed),
        exited: row.exited.map(signed),
        outcome: filled(&row.outcome),
        exit: exit(row.exit_code, row.exit_signal),
        rung: filled(&row.rung),
        held: row.held,
        frozen: row.frozen,
        ..Worker::default()
    }
}

/// What the answer to a wait tells, for a row that can no longer be looked at.
pub fn of_waited(id: &str, waited: &Waited) -> Worker {
    Worker {
        id: id.to_owned(),
        status: "exited".to_owned(),
        outcome: filled(&waited.outcome),
        how_known: filled(&waited.how_known),
        exit: exit(waited.exit_code, waited.exit_signal),
        rung: filled(&waited.rung),
        took_usec: waited.took_usec,
        processes: u64::from(waited.processes),
        oom_killed: waited.oom_killed,
        leftovers: crate::client::view::Leftovers {
            count: waited.leftovers.len() as u64,
            names: waited.leftovers.clone(),
        },
        ..Worker::default()
    }
}

/// The exit that two wire values tell; a signal wins.
pub fn exit(code: Option<i32>, signal: Option<i32>) -> Option<Exit> {
    match (code, signal.filter(|s| *s > 0)) {
        (_, Some(signal)) => Some(Exit::Signal(signal)),
        (Some(code), None) if code >= 0 => Some(Exit::Code(code)),
        _ => None,
    }
}

fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// Names of users, each looked up once.
#[derive(Debug, Default)]
pub struct Users(RefCell<HashMap<u32, String>>);

impl Users {
    /// The user's name, or the uid where there is none.
    pub fn name(&self, uid: u32) -> String {
        self.0
            .borrow_mut()
            .entry(uid)
            .or_insert_with(|| {
                nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid))
                    .ok()
                    .flatten()
                    .map_or_else(|| uid.to_string(), |user| escape(&user.name))
            })
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(json: serde_json::Value) -> Worker {
        Worker::read(&json).unwrap()
    }

    #[test]
    fn an_ending_says_what_was_really_done() {
        let w = worker(serde_json::json!({
            "id": "4kd02m1x", "name": "fix", "status": "exited", "outcome": "cancelled",
            "exit": {"signal": 9}, "rung": "kill", "took_usec": 2_012_000, "processes": 3,
            "leftovers": {"count": 2, "names": ["sleep", "no\u{1b}de"]},
            "cancelled": {"by": 0, "reason": "enough", "at": 1},
        }));
        assert_eq!(
            ending(&w),
            "fix (4kd02m1x): cancelled (SIGKILL), rung kill after 2.012s, 3 processes ended, \
             left running: 2 (sleep, no\\x1bde), reason: enough"
        );
        let w = worker(serde_json::json!({
            "id": "4kd02m1x", "status": "exited", "outcome": "completed", "exit": {"code": 0},
            "rung": "none",
        }));
        assert_eq!(ending(&w), "4kd02m1x: completed (exit code 0)");
        let w = worker(serde_json::json!({
            "id": "4kd02m1x", "status": "exited", "outcome": "unknown", "how_known": "rebooted",
        }));
        assert_eq!(ending(&w), "4kd02m1x: unknown (rebooted)");
    }

    #[test]
    fn a_state_carries_the_detail_that_counts() {
        for (json, text, mark) in [
            (
                serde_json::json!({"status": "live", "health": "healthy"}),
                "live",
                "●",
            ),
            (
                serde_json::json!({"status": "live", "health": "stuck"}),
                "live(stuck)",
                "●",
            ),
            (
                serde_json::json!({"status": "stopping", "unkillable": true}),
                "stopping(unkillable)",
                "●",
            ),
            (
                serde_json::json!({"status": "exited", "outcome": "completed", "exit": {"code": 0}}),
                "exited(0)",
                "○",
            ),
            (
                serde_json::json!({"status": "exited", "outcome": "crashed", "exit": {"signal": 11}}),
                "exited(SIGSEGV)",
                "×",
            ),
            (
                serde_json::json!({"status": "exited", "outcome": "unknown", "how_known": "pid-gone"}),
                "exited(pid-gone)",
                "×",
            ),
        ] {
            let w = worker(json);
            assert_eq!(state(&w), text);
            assert_eq!(dot(&w).0, mark, "{text}");
        }
    }
}
