//! The control channels of the workers, seen from the loop.

#![allow(dead_code, reason = "the callers of these come one by one")]

use super::Supervisor;
use crate::worker::NodeId;

impl Supervisor {
    /// Asks a worker for a `pong`. `false`: it has no channel.
    pub(super) fn ping(&mut self, node: NodeId, seq: u64) -> bool {
        let _ = (node, seq);
        false
    }

    /// Tells a worker that its end was asked for. `false`: it has no channel.
    pub(super) fn tell_cancel(&mut self, node: NodeId, reason: &str) -> bool {
        let _ = (node, reason);
        false
    }
}
