//! Terminal frames folded into the record: what a worker says of the end of its work, and who
//! hears of it.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::Supervisor;
use super::handle::Change;
use super::settle::{Account, Effect, owes};
use crate::control::frame::{Down, Fault};
use crate::worker::row::clip;
use crate::worker::{Exit, HowKnown, Kind, NodeId, Now, Outcome, ReplyTo, Row, WorkerId};

/// Most of a failure's words that a row keeps, bytes.
const WORDS_MAX: usize = 1024;
/// Most of a status text that is kept, bytes.
const STATUS_MAX: usize = 256;

/// A `result` frame without what it holds, bytes, generously.
const ANSWER_ROOM: usize = 128;

/// What a worker said of the end of its work, by frame or by report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Terminal {
    /// `turn_done`.
    TurnDone,
    /// `result`.
    Result,
    /// `failed`, with its words.
    Failed(String),
}

/// What an asker gets of somebody's terminal frame.
#[derive(Debug, Serialize)]
struct Said<'a> {
    worker: WorkerId,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_done: Option<&'a RawValue>,
}

impl Supervisor {
    /// Folds a terminal frame in. The first one counts: of a worker for whoever asked, whatever
    /// a later generation says; of a generation for its own failure and its idleness.
    pub(super) fn terminal(&mut self, node: NodeId, terminal: Terminal, now: Now) {
        self.fold(node, terminal, None, now);
    }

    /// The same, with what it said for whoever asked.
    pub(super) fn fold(
        &mut self,
        node: NodeId,
        terminal: Terminal,
        said: Option<Box<RawValue>>,
        now: Now,
    ) {
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        let id = child.id;
        let first = !std::mem::replace(&mut child.said, true);
        if let (Terminal::Failed(error), true) = (&terminal, first) {
            let _ = self
                .registry
                .update(id, |row| row.failure = words(error).into());
            self.save_lazily(id, now);
        }
        let Some(mut account) = self.registry.get(id).map(Account::of) else {
            return;
        };
        for effect in account.terminal() {
            match effect {
                Effect::Save => self.save_settled(id),
                Effect::Answer => self.answer_asker(id, answer(id, &terminal, said.as_deref())),
                Effect::Fail | Effect::Release => {}
            }
        }
    }

    /// At once and not lazily: after a crash only the row can say that the work was done.
    fn save_settled(&mut self, id: WorkerId) {
        let _ = self.registry.update(id, |row| row.settled = true);
        drop(self.save(id));
        let _ = self.changes.send(Change::Changed(id));
    }

    /// What the worker says it is doing, for `status`. One line, at most 256 bytes are kept.
    pub(super) fn says(&mut self, node: NodeId, text: &str, _now: Now) {
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        let line = clip(text.lines().next().unwrap_or_default(), STATUS_MAX);
        if *child.says != *line {
            child.says = line.into();
            let _ = self.changes.send(Change::Changed(child.id));
        }
    }

    /// The end of a worker has just been written for good; its caller tells the world.
    pub(super) fn unit_ended(&mut self, id: WorkerId) {
        let Some(row) = self.registry.get(id) else {
            return;
        };
        let mut account = Account {
            settled: row.settled,
            ended: false,
        };
        if account.end().contains(&Effect::Fail) && owes(&row.kind, row.control) {
            let fault = Fault {
                name: "Unsettled".to_owned(),
                message: unsettled(row),
            };
            self.answer_asker(id, Err(fault));
        }
    }

    /// The worker that asked for this think is told what came of it. Only its owner's own.
    fn answer_asker(&mut self, id: WorkerId, answer: Result<Box<RawValue>, Fault>) {
        let Some(row) = self.registry.get(id) else {
            return;
        };
        let Kind::Think {
            reply_to: Some(ReplyTo { node, request }),
            ..
        } = row.kind
        else {
            return;
        };
        let asker = NodeId(node);
        let owner = self
            .children
            .get(asker)
            .and_then(|child| self.registry.get(child.id))
            .map(|row| row.owner.uid);
        if owner == Some(row.owner.uid) {
            self.answer_request(asker, request, answer);
        }
    }

    /// The answer to a request goes down its channel.
    pub(super) fn answer_request(
        &mut self,
        node: NodeId,
        id: u64,
        answer: Result<Box<RawValue>, Fault>,
    ) {
        let max = self.set.config.limits.max_frame.0;
        // What the answer puts around a result is small.
        let fits = |result: &RawValue| ((result.get().len() + ANSWER_ROOM) as u64) < max;
        let (result, error) = match answer {
            Ok(result) if fits(&result) => (Some(result), None),
            Ok(_) => (None, Some(too_long(max))),
            Err(error) => (None, Some(error)),
        };
        self.tell(node, &Down::Result { id, result, error });
    }
}

fn answer(
    worker: WorkerId,
    terminal: &Terminal,
    said: Option<&RawValue>,
) -> Result<Box<RawValue>, Fault> {
    let said = match terminal {
        Terminal::Failed(error) => {
            return Err(Fault {
                name: "Failed".to_owned(),
                message: words(error),
            });
        }
        Terminal::Result => Said {
            worker,
            outcome: said,
            turn_done: None,
        },
        Terminal::TurnDone => Said {
            worker,
            outcome: None,
            turn_done: said,
        },
    };
    to_raw_value(&said).map_err(|error| Fault {
        name: "Failed".to_owned(),
        message: format!("the answer cannot be written: {error}"),
    })
}

fn too_long(max: u64) -> Fault {
    Fault {
        name: "LimitsExceeded".to_owned(),
        message: format!("the answer does not fit a frame of {max} bytes (limits.max_frame)"),
    }
}

fn words(error: &str) -> String {
    match error {
        "" => "it gave no reason".to_owned(),
        error => clip(error, WORDS_MAX),
    }
}

fn unsettled(row: &Row) -> String {
    let outcome = row.outcome.map_or("unknown", Outcome::as_str);
    let how = match row.exit {
        Some(Exit::Code(code)) => format!(", exit code {code}"),
        Some(Exit::Signal(signal)) => format!(", signal {signal}"),
        None => String::new(),
    };
    let (id, label) = (row.id, row.kind.label());
    match &row.note {
        Some(why) if row.how_known == Some(HowKnown::StartFailed) => {
            format!("worker {id} ({label}) did not start: {why}")
        }
        _ => format!("worker {id} ({label}) ended without a result: {outcome}{how}"),
    }
}
