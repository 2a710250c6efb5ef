//! What admission asks of the world besides the roll: how the service's cgroup strains, and who
//! the worker is that asks.

use std::time::Duration;

use super::Supervisor;
use super::admission::{Asker, Pressure};
use super::refused::Refused;
use crate::worker::{Mono, Now, Status, WorkerId};

/// The kernel renews its averages every two seconds.
const FRESH: Duration = Duration::from_secs(1);

/// The last reading.
#[derive(Debug, Default)]
pub(super) struct Cache(Option<(Mono, Pressure)>);

impl Supervisor {
    /// Two files of the kernel, read at most once a second. Without a cgroup of our own there is
    /// no pressure of our own.
    pub(super) fn pressure(&mut self, now: Now) -> Pressure {
        if let Some((at, pressure)) = self.pressure.0
            && now.mono.since(at) < FRESH
        {
            return pressure;
        }
        let read = |what| {
            let tree = self.tree.as_ref().ok()?;
            tree.pressure(what)
        };
        let pressure = Pressure {
            memory: read("memory"),
            cpu: read("cpu"),
        };
        self.pressure = Cache(Some((now.mono, pressure)));
        pressure
    }

    pub(super) fn asker(&self, id: WorkerId) -> Option<Asker> {
        let row = self.registry.get(id)?;
        Some(Asker {
            id,
            ending: row.status == Status::Stopping
                || row.status.is_terminal()
                || row.cancelled.is_some(),
            spent: row.budget_is_spent(),
        })
    }

    pub(super) fn take_from_bucket(&mut self, id: WorkerId, now: Now) -> Result<(), Refused> {
        let limits = &self.set.config.limits;
        let (burst, per_second) = (limits.spawn_burst, limits.spawn_per_second);
        let child = self
            .children
            .node_of(id)
            .and_then(|node| self.children.get_mut(node));
        let Some(child) = child else { return Ok(()) };
        child
            .bucket
            .take(burst, per_second, now.mono)
            .map_err(|wait| Refused::SpawnRate { id, wait })
    }
}
