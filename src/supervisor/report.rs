//! What a program inside a worker reports of it (section 9): the same effects as frames, for
//! agents that speak none. Whose report it is, is told by where the caller's process sits.

use super::Supervisor;
use super::handle::{Caller, Command, Handle};
use super::refused::Refused;
use super::settling::Terminal;
use crate::sys::clock;
use crate::worker::WorkerId;

/// One report. Every one that says anything counts as progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Tokens into the model, added to the worker's.
    pub input: u64,
    /// Tokens out of the model, added to the worker's.
    pub output: u64,
    /// The turn is done.
    pub turn_done: bool,
    /// The work has failed, in words.
    pub failed: Option<String>,
    /// What it is doing, in words.
    pub status: Option<String>,
    /// It gets on.
    pub progress: bool,
}

impl Handle {
    /// The worker that the caller's process sits in.
    pub async fn inside(&self, by: Caller) -> Result<WorkerId, Refused> {
        self.ask(|r| Command::Inside(by, r)).await
    }

    /// Folds a report of this worker in.
    pub async fn report(&self, worker: WorkerId, facts: Facts) -> Result<(), Refused> {
        self.ask(|r| Command::Report(worker, facts, r)).await
    }
}

impl Supervisor {
    pub(super) fn inside(&self, by: &Caller) -> Result<WorkerId, Refused> {
        by.pid
            .and_then(|pid| self.worker_of_process(pid))
            .ok_or(Refused::NotInside)
    }

    pub(super) fn report(&mut self, id: WorkerId, facts: Facts) -> Result<(), Refused> {
        let Some(node) = self.children.node_of(id) else {
            let row = self.registry.get(id).ok_or(Refused::NotInside)?;
            return Err(Refused::WrongState {
                id,
                status: row.status,
                why: "only a running worker can report".to_owned(),
            });
        };
        let now = clock::now();
        if facts.input > 0 || facts.output > 0 {
            self.used(node, facts.input, facts.output, now);
        }
        self.progressed(node, now);
        if let Some(text) = facts.status {
            self.says(node, &text, now);
        }
        // Last: what ends a turn may end the worker.
        if let Some(text) = facts.failed {
            self.terminal(node, Terminal::Failed(text), now);
        } else if facts.turn_done {
            self.terminal(node, Terminal::TurnDone, now);
        }
        Ok(())
    }
}
