//! What workers ask of musterd by `request`: siblings, their end, what has become of them. Who
//! asks is told by the channel, never by what the frame says.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;

use super::handle::{Caller, CancelOptions, CancelReply, Right, Spawned, Stdio};
use super::refused::Refused;
use super::{Inner, Supervisor};
use crate::control::frame::Fault;
use crate::control::request::Request;
use crate::sys::process::groups_of;
use crate::worker::{Exit, Health, NodeId, Now, Outcome, Row, Spec, Status, Tokens, WorkerId};

/// Children that one status answers at most.
const CHILDREN_MAX: usize = 1000;

/// The answer to a request.
pub(super) type Answer = Result<Box<RawValue>, Fault>;

/// Answer to `spawn`.
#[derive(Debug, Serialize)]
struct SpawnedJson {
    worker: WorkerId,
    node: Option<NodeId>,
    unenforced: Vec<String>,
    durable: bool,
}

/// Answer to `cancel`.
#[derive(Debug, Serialize)]
struct CancelJson {
    worker: WorkerId,
    state: &'static str,
    durable: bool,
    descendants: Vec<WorkerId>,
    outcome: Option<Outcome>,
}

/// One child in the answer to `status`.
#[derive(Debug, Serialize)]
struct ChildJson {
    worker: WorkerId,
    node: Option<NodeId>,
    name: String,
    label: String,
    status: Status,
    health: Option<Health>,
    outcome: Option<Outcome>,
    exit: Option<Exit>,
    settled: bool,
    tokens: Tokens,
    reason: Option<String>,
}

/// What is known once a call has been answered.
#[derive(Debug)]
pub(super) enum Asked {
    Spawned(Result<Spawned, Refused>),
    Cancelled(WorkerId, Result<CancelReply, Refused>),
}

impl Supervisor {
    pub(super) fn request(
        &mut self,
        node: NodeId,
        id: u64,
        name: &str,
        args: Option<&RawValue>,
        now: Now,
    ) {
        if let Some(answer) = self.asked(node, id, name, args, now) {
            self.answer_request(node, id, answer);
        }
    }

    /// `None`: the answer comes later.
    fn asked(
        &mut self,
        node: NodeId,
        id: u64,
        name: &str,
        args: Option<&RawValue>,
        now: Now,
    ) -> Option<Answer> {
        let child = self.children.get_mut(node)?;
        let (own, pid) = (child.id, child.process.id().pid);
        if !child.channel.as_mut()?.may_ask(now.mono) {
            let why = "more than 100 requests within a second; ask more slowly".to_owned();
            return Some(Err(fault(&Refused::TooMany(why))));
        }
        let row = self.registry.get(own)?;
        let by = Caller {
            uid: row.owner.uid,
            gid: row.owner.gid,
            // A leader that has just ended has none any more.
            groups: groups_of(pid).unwrap_or_default(),
            pid: Some(pid),
            // Whoever was let start a worker is let go on by it.
            rights: vec![Right::Spawn],
        };
        match Request::read(name, args, &row.cwd) {
            Err(why) => Some(Err(fault(&Refused::InvalidArgs(why)))),
            Ok(Request::Status { worker: None }) => Some(json(&self.children_json(own))),
            Ok(Request::Status { worker: Some(text) }) => Some(
                self.below(&by, own, &text)
                    .and_then(|id| self.registry.get(id).ok_or(Refused::NoSuchWorker(text)))
                    .map_err(|refused| fault(&refused))
                    .and_then(|row| json(&self.view(row))),
            ),
            Ok(Request::Spawn(spec)) => {
                self.ask_spawn(node, id, own, by, *spec);
                None
            }
            Ok(Request::Cancel {
                worker,
                reason,
                now,
                keep_descendants,
            }) => {
                let how = CancelOptions {
                    now,
                    keep_descendants,
                };
                self.ask_cancel(node, id, (own, by), (&worker, &reason), how)
            }
        }
    }

    fn ask_spawn(&mut self, node: NodeId, id: u64, own: WorkerId, by: Caller, spec: Spec) {
        let (reply, answer) = oneshot::channel();
        self.spawn_below(by, Some(own), spec, Stdio::default(), reply);
        self.asked += 1;
        self.spawn_inner(async move {
            let answer = answer.await.unwrap_or(Err(Refused::ShuttingDown));
            let asked = Box::new(Asked::Spawned(answer));
            Inner::Asked { node, id, asked }
        });
    }

    fn ask_cancel(
        &mut self,
        node: NodeId,
        id: u64,
        (own, by): (WorkerId, Caller),
        (worker, reason): (&str, &str),
        how: CancelOptions,
    ) -> Option<Answer> {
        let whom = match self.below(&by, own, worker) {
            Ok(whom) => whom,
            Err(refused) => return Some(Err(fault(&refused))),
        };
        let (reply, answer) = oneshot::channel();
        self.cancel(&by, whom.as_str(), reason, how, reply);
        self.asked += 1;
        self.spawn_inner(async move {
            let answer = answer.await.unwrap_or(Err(Refused::ShuttingDown));
            let asked = Box::new(Asked::Cancelled(whom, answer));
            Inner::Asked { node, id, asked }
        });
        None
    }

    pub(super) fn request_done(&mut self, node: NodeId, id: u64, asked: Asked) {
        self.asked = self.asked.saturating_sub(1);
        let answer = match asked {
            Asked::Spawned(Ok(spawned)) => json(&SpawnedJson {
                worker: spawned.id,
                node: self.children.node_of(spawned.id),
                unenforced: spawned.unenforced,
                durable: spawned.durable,
            }),
            Asked::Cancelled(worker, Ok(found)) => json(&CancelJson {
                worker,
                state: found.state.as_str(),
                durable: found.durable,
                descendants: found.descendants,
                outcome: found.outcome,
            }),
            Asked::Spawned(Err(refused)) | Asked::Cancelled(_, Err(refused)) => {
                Err(fault(&refused))
            }
        };
        self.answer_request(node, id, answer);
    }

    /// A worker below the asking one; of others not even their existence is told.
    fn below(&self, by: &Caller, own: WorkerId, text: &str) -> Result<WorkerId, Refused> {
        let is_own = |row: &Row| text == own.as_str() || (!text.is_empty() && text == row.name);
        if self.registry.get(own).is_some_and(is_own) {
            return Err(Refused::InvalidArgs(format!(
                "worker {text:?} is the one that asks; a request is about workers below it"
            )));
        }
        let below = self.registry.descendants_of(own);
        let is_below = |row: &Row| below.iter().any(|(_, id)| *id == row.id);
        let found = self
            .registry
            .resolve(text, |row| row.owner.uid == by.uid && is_below(row));
        found.map_err(|error| match error {
            crate::registry::ResolveError::NoSuch => Refused::NoSuchWorker(text.to_owned()),
            crate::registry::ResolveError::Ambiguous(candidates) => Refused::Ambiguous {
                worker: text.to_owned(),
                candidates,
            },
        })
    }

    fn children_json(&self, own: WorkerId) -> Vec<ChildJson> {
        self.registry
            .children_of(own)
            .take(CHILDREN_MAX)
            .filter_map(|id| self.registry.get(id))
            .map(|row| {
                let view = self.view(row);
                ChildJson {
                    worker: view.id,
                    node: view.node,
                    name: view.name,
                    label: view.kind,
                    status: view.status,
                    health: view.health,
                    outcome: view.outcome,
                    exit: view.exit,
                    settled: view.settled,
                    tokens: view.tokens,
                    reason: view.cancelled.map(|cancelled| cancelled.reason),
                }
            })
            .collect()
    }
}

fn json(value: &impl Serialize) -> Answer {
    to_raw_value(value).map_err(|error| Fault {
        name: "Failed".to_owned(),
        message: format!("the answer cannot be written: {error}"),
    })
}

/// A refusal by the last word of its D-Bus error name.
fn fault(refused: &Refused) -> Fault {
    Fault {
        name: refused.word().to_owned(),
        message: refused.to_string(),
    }
}
