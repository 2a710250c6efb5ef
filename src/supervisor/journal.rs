//! The lines an operator acts on: each event of a worker once, with its fields and MESSAGE_ID.

use super::ladder::Act;
use super::settle::unsettled;
use crate::log::id;
use crate::registry::writer::Health;
use crate::worker::{Exit, HowKnown, LeftoversPolicy, Outcome, Row, Status};
use crate::{service_event, worker_event};

pub(super) fn worker_started(row: &Row) {
    let pid = row.process.map_or(0, |p| p.pid.get());
    worker_event!(
        INFO,
        id::WORKER_STARTED,
        row,
        "worker {} started, pid {pid}",
        row.id
    );
}

pub(super) fn worker_adopted(row: &Row) {
    let pid = row.process.map_or(0, |p| p.pid.get());
    worker_event!(
        INFO,
        id::WORKER_STARTED,
        row,
        "worker {}: process {pid} was adopted",
        row.id
    );
}

pub(super) fn start_failed(row: &Row, why: &str) {
    worker_event!(
        WARN,
        id::START_FAILED,
        row,
        "worker {} did not start: {why}",
        row.id
    );
}

/// Each rung with what is done; a delivered signal is told as sent, not as obeyed.
pub(super) fn rung(row: &Row, act: Act) {
    let id = row.id;
    match act {
        Act::Ask => worker_event!(INFO, id::LADDER_BEGUN, row, "worker {id}: asked to end"),
        Act::Group(libc::SIGCONT) | Act::Rest(libc::SIGCONT) | Act::Thaw => {}
        Act::Group(signal) => {
            // An adopted process is not known to lead one.
            let whom = if row.adopted { "it" } else { "its group" };
            worker_event!(
                INFO,
                id::LADDER_BEGUN,
                row,
                "worker {id}: signal {signal} to {whom}"
            );
        }
        Act::Rest(signal) => {
            tracing::debug!(
                MUSTER_WORKER = id.as_str(),
                "worker {id}: signal {signal} to the rest"
            );
        }
        Act::Kill => worker_event!(
            INFO,
            id::LADDER_BEGUN,
            row,
            "worker {id}: SIGKILL to all of it"
        ),
        Act::Unkillable => {
            worker_event!(
                ERROR,
                id::UNKILLABLE,
                row,
                "worker {id} outlives SIGKILL; tried again"
            );
        }
    }
}

pub(super) fn worker_restarts(row: &Row, wait: std::time::Duration) {
    let wait = wait.as_secs_f32();
    worker_event!(
        INFO,
        id::WORKER_RESTARTS,
        row,
        "worker {} starts again in {wait:.1} s",
        row.id
    );
}

pub(super) fn worker_exited(row: &Row) {
    let how = match (row.exit, row.how_known) {
        (Some(Exit::Code(code)), _) => format!("exit code {code}"),
        (Some(Exit::Signal(signal)), _) if row.oom_killed => {
            format!("signal {signal}, out of memory")
        }
        (Some(Exit::Signal(signal)), _) => format!("signal {signal}"),
        (None, how) => how.map_or("unknown", HowKnown::as_str).to_owned(),
    };
    let outcome = match row.status {
        Status::PermanentDead => "permanent-dead, crashed too often",
        _ => row.outcome.map_or("unknown", Outcome::as_str),
    };
    // One that was cancelled was kept from saying it.
    let owed = unsettled(row);
    match row.outcome {
        Some(Outcome::Completed) if owed => worker_event!(
            WARN,
            id::WORKER_EXITED,
            row,
            "worker {} {outcome}: {how}, but said nothing of how its work came out",
            row.id
        ),
        Some(Outcome::Crashed | Outcome::Unknown) => {
            let hint = short_life(row);
            worker_event!(
                WARN,
                id::WORKER_EXITED,
                row,
                "worker {} {outcome}: {how}{hint}",
                row.id
            );
        }
        _ => worker_event!(
            INFO,
            id::WORKER_EXITED,
            row,
            "worker {} {outcome}: {how}",
            row.id
        ),
    }
    if row.leftovers.count > 0 {
        let names = row.leftovers.names.join(", ");
        let what = match row.leftovers.count {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        };
        let fate = match row.leftovers_policy {
            LeftoversPolicy::Kill => "ended",
            // Those of a cancelled one were ended all the same.
            LeftoversPolicy::Wait if row.cancelled.is_some() => "ended",
            LeftoversPolicy::Wait => "waited for",
        };
        worker_event!(
            INFO,
            id::LEFTOVERS_ENDED,
            row,
            "worker {} left running: {what} ({names}), {fate}",
            row.id
        );
    }
}

/// A start that dies within a second of a signal is most often the sandbox's doing.
fn short_life(row: &Row) -> &'static str {
    let (Some(Exit::Signal(_)), Some(started), Some(exited)) = (row.exit, row.started, row.exited)
    else {
        return "";
    };
    if exited.since(started) < 1_000_000 {
        " within a second of its start; under the service its sandbox may be in the way"
    } else {
        ""
    }
}

pub(super) fn row_removed(row: &Row, why: &str) {
    worker_event!(INFO, id::ROW_REAPED, row, "row of worker {} {why}", row.id);
}

pub(super) fn disk(health: &Health) {
    match health {
        Health::Ok => {
            service_event!(
                INFO,
                id::STATE_RECOVERED,
                "the state directory is written again"
            );
        }
        Health::Degraded(why) => service_event!(
            ERROR,
            id::STATE_DEGRADED,
            "the state directory cannot be written ({why}); running workers go on, new ones are \
             refused until it can"
        ),
    }
}

pub(super) fn found_dead(row: &Row, how: HowKnown) {
    worker_event!(
        WARN,
        id::FOUND_DEAD,
        row,
        "worker {} was found dead: {how}",
        row.id
    );
}

pub(super) fn clock_jumped(seconds: i64, rows: usize) {
    service_event!(
        WARN,
        id::CLOCK_JUMPED,
        "the wall clock jumped forward by {seconds} s; the grace of {rows} rows moves with it"
    );
}
