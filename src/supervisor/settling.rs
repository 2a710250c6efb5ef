//! Terminal frames folded into the record: what a worker says of the end of its work.

#![allow(dead_code, reason = "the sources of these facts come one by one")]

use super::Supervisor;
use crate::worker::{NodeId, Now};

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

impl Supervisor {
    /// Folds a terminal frame in. The first one counts.
    pub(super) fn terminal(&mut self, node: NodeId, terminal: Terminal, now: Now) {
        let _ = (node, terminal, now);
    }

    /// What the worker says it is doing, for `status`. One line, at most 256 bytes are kept.
    pub(super) fn says(&mut self, node: NodeId, text: &str, now: Now) {
        let _ = (node, text, now);
    }
}
