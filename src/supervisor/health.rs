//! What a worker shows of its life, from whichever side it comes: a frame, a notify message, a
//! report. The detectors (`liveness`) judge by it.

#![allow(dead_code, reason = "the sources of these facts come one by one")]

use super::Supervisor;
use crate::worker::{NodeId, Now};

impl Supervisor {
    /// The worker did something of substance.
    pub(super) fn progressed(&mut self, node: NodeId, now: Now) {
        let _ = (node, now);
    }

    /// The worker answered a ping, or said by itself that it is there.
    pub(super) fn ponged(&mut self, node: NodeId, now: Now) {
        let _ = (node, now);
    }

    /// The worker used so many tokens more. Counts as progress.
    pub(super) fn used(&mut self, node: NodeId, input: u64, output: u64, now: Now) {
        let _ = (node, input, output, now);
    }
}
