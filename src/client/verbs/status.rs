//! `status`: the service, or a block a worker with the last lines of its output.

use std::time::Duration;

use serde_json::Value;

use super::report::{self, Users, dot, leftovers};
use super::{journal, logs, look};
use crate::client::args::StatusArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, Tally};
use crate::client::output::text::{command_line, escape};
use crate::client::output::time::{absolute, now, relative, span};
use crate::client::output::{Output, Paint};
use crate::client::view::Worker;

/// Runs the verb.
pub async fn run(daemon: &Daemon, args: &StatusArgs, out: &mut Output) -> Result<Code, Failure> {
    if args.workers.is_empty() {
        return super::summary::service(daemon, out).await;
    }
    let mut tally = Tally::default();
    let mut rows: Vec<Value> = Vec::new();
    let users = Users::default();
    let mut first = true;
    for worker in &args.workers {
        let (json, worker) = match look(daemon, worker, Asking::Status).await {
            Ok(found) => found,
            Err(failure) => {
                tally.add(Err(failure));
                continue;
            }
        };
        tally.add(Ok(if worker.is_running() {
            Code::DONE
        } else {
            Code::NOT_RUNNING
        }));
        if out.json.is_some() {
            rows.push(json);
            continue;
        }
        if !std::mem::take(&mut first) {
            out.line("");
        }
        block(&worker, &users, now(), out);
        tail(&worker, args.lines, out);
    }
    if out.json.is_some() {
        out.json(&rows);
    }
    Ok(tally.code())
}

/// One `Name: value` line, the names flush right.
pub fn field(out: &mut Output, name: &str, value: &str) {
    out.line(format!("{name:>10}: {value}"));
}

/// The block of one worker.
fn block(worker: &Worker, users: &Users, now: i64, out: &mut Output) {
    let (mark, paint) = dot(worker);
    let mark = out.style.paint(paint, mark);
    let name = match worker.name.as_str() {
        "" => String::new(),
        name => format!(" - {}", escape(name)),
    };
    out.line(format!("{mark} {}{name}", escape(&worker.id)));
    let state = out
        .style
        .paint(report::paint(worker), &report::state(worker));
    field(out, "Status", &format!("{state} {}", since(worker, now)));
    if worker.outcome.is_some() {
        let ending = report::ending(worker);
        // The title stands above already.
        let ending = ending
            .strip_prefix(&format!("{}: ", escape(&worker.title())))
            .unwrap_or(&ending);
        field(out, "Outcome", if ending.is_empty() { "-" } else { ending });
    } else if let Some(cancelled) = &worker.cancelled {
        let by = users.name(cancelled.by);
        let why = match cancelled.reason.as_str() {
            "" => String::new(),
            reason => format!(": {}", escape(reason)),
        };
        field(
            out,
            "Cancelled",
            &format!("by {by} {}{why}", relative(cancelled.at, now)),
        );
    }
    if let (Some(rung), None) = (&worker.rung, &worker.outcome) {
        let next = worker
            .next_rung
            .map(|at| format!(", next {}", relative(at, now)))
            .unwrap_or_default();
        field(out, "Rung", &format!("{}{next}", escape(rung)));
    }
    let owner = users.name(worker.owner.uid);
    field(out, "Owner", &format!("{owner} (uid {})", worker.owner.uid));
    if worker.kind != "command" {
        field(out, "Kind", &escape(&worker.kind));
    }
    if let Some(parent) = &worker.parent {
        field(out, "Parent", &escape(parent));
    }
    if let Some(pid) = worker.pid {
        field(out, "Main PID", &pid.to_string());
    }
    field(out, "Command", &command_line(&worker.argv));
    field(out, "Dir", &escape(&worker.cwd));
    details(worker, now, out);
}

fn details(worker: &Worker, now: i64, out: &mut Output) {
    if let Some(worktree) = &worker.worktree {
        field(out, "Worktree", &escape(worktree));
    }
    if let Some(group) = &worker.control_group {
        field(out, "CGroup", &escape(group));
    }
    if let Some(health) = &worker.health {
        field(out, "Health", &signs_of_life(worker, health, now));
    }
    if let Some(stop_by) = worker.stop_by {
        let said = format!(
            "it said that it stops; to have ended {}",
            relative(stop_by, now)
        );
        field(out, "Stopping", &said);
    }
    if let Some(deadline) = worker.deadline.filter(|_| !worker.is_terminal()) {
        field(out, "Deadline", &relative(deadline, now));
    }
    if let Some(channel) = &worker.channel {
        let skipped = match worker.frames_skipped {
            0 => String::new(),
            n => format!(", {n} frames or fields were not understood"),
        };
        field(out, "Channel", &format!("{}{skipped}", escape(channel)));
    }
    if worker.settled && !worker.is_terminal() {
        field(out, "Settled", "yes");
    }
    let tokens = worker.tokens;
    let most = worker.limits.tokens_max;
    if tokens.input > 0 || tokens.output > 0 || most.is_some() {
        let most = most.map_or(String::new(), |most| format!(" of at most {most}"));
        let used = format!("{} in, {} out", tokens.input, tokens.output);
        field(out, "Tokens", &format!("{used}{most}"));
    }
    if worker.restarts > 0 || worker.restart_at.is_some() {
        let next = worker
            .restart_at
            .map(|at| format!(", the next {}", relative(at, now)))
            .unwrap_or_default();
        field(out, "Restarts", &format!("{}{next}", worker.restarts));
    }
    if worker.leftovers.count > 0 && worker.outcome.is_none() {
        field(out, "Leftovers", &leftovers(worker));
    }
    for (name, text) in [
        ("Says", worker.status_text.as_str()),
        ("Read-only", worker.read_only.as_deref().unwrap_or("")),
        // An ended worker's note is part of its outcome.
        (
            "Note",
            worker
                .note
                .as_deref()
                .filter(|_| worker.outcome.is_none())
                .unwrap_or(""),
        ),
    ] {
        if !text.is_empty() {
            field(out, name, &escape(text));
        }
    }
    if !worker.unenforced.is_empty() {
        field(out, "Unenforced", &escape(&worker.unenforced.join(", ")));
    }
    for outsider in &worker.outside {
        let what = format!(
            "{} (pid {}): {}",
            escape(&outsider.comm),
            outsider.pid,
            escape(&outsider.why.replace('-', " "))
        );
        field(out, "Outside", &what);
    }
    let flags: Vec<&str> = [
        (worker.held, "held"),
        (worker.attended, "attended"),
        (worker.adopted, "adopted"),
        (worker.frozen, "frozen"),
    ]
    .into_iter()
    .filter_map(|(is, word)| is.then_some(word))
    .collect();
    if !flags.is_empty() {
        field(out, "Flags", &flags.join(", "));
    }
    if worker.journal {
        let query = format!("journalctl -t muster-{}", escape(&worker.id));
        field(out, "Output", &format!("the journal ({query})"));
    }
    if let Some(output) = &worker.output {
        let dropped = match worker.output_dropped {
            0 => String::new(),
            n => format!(" (first {n} bytes dropped)"),
        };
        field(out, "Output", &format!("{}{dropped}", escape(output)));
    }
}

/// `busy; last progress 3min ago, last pong 1s ago`.
fn signs_of_life(worker: &Worker, health: &str, now: i64) -> String {
    let signs: Vec<String> = worker
        .liveness
        .into_iter()
        .flat_map(|life| [("progress", life.last_progress), ("pong", life.last_pong)])
        .filter_map(|(what, at)| Some(format!("last {what} {}", relative(at?, now))))
        .collect();
    match signs.is_empty() {
        true => escape(health),
        false => format!("{}; {}", escape(health), signs.join(", ")),
    }
}

/// `since Mon 2026-11-30 11:32:19 UTC; 3min ago`, and for how long it ran.
fn since(worker: &Worker, now: i64) -> String {
    let Some(at) = report::since(worker) else {
        return "at an unknown time".to_owned();
    };
    let mut text = format!("since {}; {}", absolute(at), relative(at, now));
    if let (Some(started), Some(exited)) = (worker.started, worker.exited) {
        let ran = u64::try_from(exited.saturating_sub(started)).unwrap_or(0);
        text.push_str(&format!(" (ran {})", span(Duration::from_micros(ran))));
    }
    text
}

/// The last lines of the output, escaped.
fn tail(worker: &Worker, lines: usize, out: &mut Output) {
    if lines == 0 {
        return;
    }
    let text = match &worker.output {
        Some(path) => logs::tail_of(path.as_ref(), worker.output_dropped, lines),
        None if worker.journal => journal::tail(worker, lines),
        None => return,
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            let note = format!("(output cannot be read: {error})");
            out.line(out.style.paint(Paint::Dim, &note));
            return;
        }
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    if text.is_empty() {
        return;
    }
    out.line("");
    for line in text.lines() {
        out.line(escape(line.trim_end_matches('\r')));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::args::Global;
    use serde_json::json;

    fn text_of(fill: impl FnOnce(&mut Output)) -> String {
        let mut out = Output::new(&Global::default());
        out.style.colour = false;
        fill(&mut out);
        out.into_text()
    }

    #[test]
    fn a_block_tells_how_a_worker_ended() {
        let worker = Worker::read(&json!({
            "id": "4kd02m1x", "name": "fix", "kind": "subagent:h", "status": "exited",
            "outcome": "crashed", "exit": {"signal": 9}, "oom_killed": true,
            "owner": {"uid": 4_000_000_000_u32, "gid": 1}, "argv": ["a", "b c"], "cwd": "/d",
            "started": 0, "exited": 5_000_000, "created": 0, "held": true,
            "leftovers": {"count": 1, "names": ["sleep"]}, "note": "x",
            "outside": [{"pid": 7, "comm": "tmux", "why": "left-the-leaf"}],
        }))
        .unwrap();
        let text = text_of(|out| block(&worker, &Users::default(), 65_000_000, out));
        for part in [
            "× 4kd02m1x - fix\n",
            "Status: exited(SIGKILL) since ",
            "1min ago (ran 5s)",
            "Outcome: crashed (killed for lack of memory, SIGKILL), left running: 1 (sleep), x\n",
            "Owner: 4000000000 (uid 4000000000)\n",
            "Outside: tmux (pid 7): left the leaf\n",
            "Kind: subagent:h\n",
            "Command: a \"b c\"\n",
            "Flags: held\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }

    #[test]
    fn a_block_tells_how_a_worker_does_and_what_it_may_use() {
        let worker = Worker::read(&json!({
            "id": "4kd02m1x", "status": "live", "health": "busy", "frozen": true,
            "liveness": {"last_progress": 0, "last_pong": 64_000_000}, "created": 0,
            "tokens": {"input": 7, "output": 2}, "limits": {"tokens-max": 100},
            "stop_by": 95_000_000,
        }))
        .unwrap();
        let text = text_of(|out| block(&worker, &Users::default(), 65_000_000, out));
        for part in [
            "Status: live(frozen) since ",
            "Health: busy; last progress 1min 5s ago, last pong 1s ago\n",
            "Stopping: it said that it stops; to have ended in 30s\n",
            "Tokens: 7 in, 2 out of at most 100\n",
            "Flags: frozen\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }
}
