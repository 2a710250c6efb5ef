//! Admission and the row: from a Spawn to a row in `spawning`, or to the reason against it.

use super::Supervisor;
use super::admission::{Caps, Load, admit};
use super::handle::{Caller, Right};
use super::refused::Refused;
use crate::registry::writer::Health;
use crate::worker::{Control, Kind, Now, Owner, Row, Spec, WorkerId};

/// What a spawn frame holds besides payload and `extra`, bytes, generously.
const FRAME_ROOM: usize = 3072;

impl Supervisor {
    /// Admission, and the row if it is taken. Refusals are counted.
    pub(super) fn take(
        &mut self,
        by: &Caller,
        parent: Option<WorkerId>,
        spec: &Spec,
        now: Now,
    ) -> Result<Row, Refused> {
        let taken = self.try_take(by, parent, spec, now);
        if let Some(reason) = taken.as_ref().err().and_then(Refused::reason) {
            *self.counters.refused.entry(reason.into()).or_default() += 1;
        }
        taken
    }

    fn try_take(
        &mut self,
        by: &Caller,
        parent: Option<WorkerId>,
        spec: &Spec,
        now: Now,
    ) -> Result<Row, Refused> {
        self.allow(by, Right::Spawn)?;
        spec.check()?;
        let owner = self.owner_of(by, spec)?;
        self.check_frame(spec)?;
        let above = parent.and_then(|id| self.registry.get(id));
        let depth = above.map_or(0, |row| row.depth.saturating_add(1));
        let msg_depth = msg_depth(above, &spec.kind);
        let of_owner = self.registry.count_of_owner(owner.uid);
        let load = Load {
            draining: self.drain.is_some() || self.is_leaving(),
            disk: match &*self.writer.health().borrow() {
                Health::Ok => None,
                Health::Degraded(why) => Some(why.clone()),
            },
            workers: count(self.children.len() + self.starting.len() + self.again.pending()),
            workers_of_owner: u32::try_from(of_owner.active).unwrap_or(u32::MAX),
            rows_of_owner: u32::try_from(of_owner.rows).unwrap_or(u32::MAX),
            depth,
            msg_depth,
            parent: parent.and_then(|id| self.asker(id)),
            pressure: self.pressure(now),
        };
        let limits = &self.set.config.limits;
        let caps = Caps {
            workers: limits.max_workers,
            workers_per_owner: limits.max_workers_per_owner,
            rows_per_owner: limits.max_rows_per_owner,
            depth: limits.max_depth,
            msg_depth: limits.max_message_depth,
            memory_pressure: limits.memory_pressure,
            cpu_pressure: limits.cpu_pressure,
        };
        admit(&load, &caps, spec.priority)?;
        if let Some(id) = self.registry.name_taken(owner.uid, &spec.name) {
            return Err(Refused::NameTaken {
                name: spec.name.clone(),
                id,
            });
        }
        // Last: what is refused for another reason costs the worker nothing.
        if let Some(parent) = parent {
            self.take_from_bucket(parent, now)?;
        }
        let id = self
            .new_id()
            .map_err(|e| Refused::Io(format!("no random id: {e}")))?;
        let mut row = self.row(id, owner, spec, parent, depth, now);
        row.msg_depth = msg_depth;
        // What it claims may be more than what is known, never less.
        if let Kind::RootTurn {
            msg_depth: claimed, ..
        } = &mut row.kind
        {
            *claimed = msg_depth;
        }
        Ok(row)
    }

    /// The spawn frame has to be one that the worker takes.
    fn check_frame(&self, spec: &Spec) -> Result<(), Refused> {
        let max = self.set.config.limits.max_frame.0;
        let extra = match &spec.kind {
            Kind::Think { extra, .. } => extra.len(),
            _ => 0,
        };
        let size = spec.payload.as_ref().map_or(0, String::len) + extra;
        if spec.control == Control::Frames && (size + FRAME_ROOM) as u64 > max {
            return Err(Refused::InvalidArgs(format!(
                "payload: {size} bytes with the kind's fields do not fit a frame of {max} bytes \
                 (limits.max_frame); pass a path instead"
            )));
        }
        Ok(())
    }

    fn owner_of(&self, by: &Caller, spec: &Spec) -> Result<Owner, Refused> {
        let me = self.set.me;
        match spec.uid {
            Some(uid) if by.uid != 0 && uid != by.uid => Err(Refused::NotAuthorised(
                "only root may start a worker for another uid",
            )),
            // A user's daemon, or one without the capabilities, has no rights but its own user's.
            _ if !self.set.privileges.other_ids || (!self.set.system && me.uid != 0) => Ok(me),
            Some(uid) if uid != by.uid => Ok(Owner { uid, gid: uid }),
            _ => Ok(Owner {
                uid: by.uid,
                gid: by.gid,
            }),
        }
    }

    fn row(
        &self,
        id: WorkerId,
        owner: Owner,
        spec: &Spec,
        parent: Option<WorkerId>,
        depth: u32,
        now: Now,
    ) -> Row {
        let mut row = Row::new(id, owner, now.wall);
        row.name.clone_from(&spec.name);
        row.kind = spec.kind.clone();
        row.argv.clone_from(&spec.argv);
        row.cwd.clone_from(&spec.cwd);
        row.parent = parent;
        row.depth = depth;
        row.limits = spec.limits.into();
        row.timeouts = spec.timeouts.into();
        row.ending = spec.ending.clone().into();
        row.control = spec.control;
        row.restart = spec.restart;
        row.restart_max = spec.restart_max;
        row.leftovers_policy = spec.leftovers.unwrap_or(self.set.config.workers.leftovers);
        let above = parent.and_then(|id| self.registry.get(id));
        row.trace_id = match (spec.trace_id.as_str(), above) {
            ("", Some(above)) => above.trace_id.clone(),
            ("", None) => format!("{id}"),
            (given, _) => given.to_owned(),
        };
        row
    }

    fn new_id(&self) -> std::io::Result<WorkerId> {
        loop {
            let mut bits = [0; 8];
            rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())?;
            let id = WorkerId::from_bits(u64::from_ne_bytes(bits));
            if self.registry.get(id).is_none() {
                return Ok(id);
            }
        }
    }
}

/// Message hops behind a new worker: one more than its parent's. A turn may say that it has more,
/// since messages come by other ways too.
fn msg_depth(above: Option<&Row>, kind: &Kind) -> u32 {
    let known = above.map_or(0, |row| row.msg_depth.saturating_add(1));
    match kind {
        Kind::RootTurn { msg_depth, .. } => known.max(*msg_depth),
        _ => known,
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
