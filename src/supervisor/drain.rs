//! Closed admission: by a stop signal for good, by the Drain call until Resume. All ladders run
//! in parallel; what is left when a stop's time is up is killed, and its rows say so.

use super::handle::{Caller, Change, DrainOptions, Right};
use super::refused::Refused;
use super::timers::Key;
use super::{Stopped, Supervisor};
use crate::log::id;
use crate::service_event;
use crate::sys::clock;
use crate::worker::{Mono, Now};

/// Admission is closed.
#[derive(Debug)]
pub(super) struct Drain {
    /// The service ends once all workers have.
    leave: bool,
    /// What is left then is killed; none to wait as long as it takes.
    until: Option<Mono>,
    /// By a stop signal: no Resume.
    for_good: bool,
}

impl Supervisor {
    /// SIGTERM: closes admission for good and ends all; the second one forces.
    pub(super) fn stop(&mut self, now: Now) {
        let before = self.drain.as_ref().filter(|drain| drain.for_good);
        let forced = before.is_some();
        let until = before
            .and_then(|drain| drain.until)
            .unwrap_or_else(|| now.mono.plus(self.set.config.ladder.drain_timeout));
        self.drain = Some(Drain {
            leave: true,
            until: Some(until),
            for_good: true,
        });
        self.timers.set(Key::Drain, Some(until));
        let workers = self.children.len();
        service_event!(INFO, id::STOPPING, "stopping: ending {workers} workers");
        self.end_all(self.set.me.uid, "the service is stopping", forced);
        let _ = self.changes.send(Change::Service);
    }

    fn end_all(&mut self, by: u32, reason: &str, forced: bool) {
        for node in self.children.nodes() {
            self.cancel_node(node, by, reason, forced);
        }
        for starting in self.starting.values_mut() {
            starting.cancel = Some(starting.cancel.unwrap_or(false) || forced);
        }
    }

    pub(super) fn drain_verb(
        &mut self,
        by: &Caller,
        reason: &str,
        how: DrainOptions,
    ) -> Result<(), Refused> {
        self.allow(by, Right::ManageService)?;
        if self.drain.as_ref().is_some_and(|drain| drain.for_good) {
            return Err(Refused::ShuttingDown);
        }
        let timeout = self.set.config.ladder.drain_timeout;
        let until = (how.exit && !how.wait).then(|| clock::now().mono.plus(timeout));
        self.drain = Some(Drain {
            leave: how.exit,
            until,
            for_good: false,
        });
        self.timers.set(Key::Drain, until);
        let (workers, uid) = (self.children.len(), by.uid);
        let fate = if how.wait { "may finish" } else { "are ended" };
        let shown = crate::worker::row::clip(reason, 256);
        service_event!(
            WARN,
            id::DRAINING,
            "draining, as uid {uid} asked for ({shown:?}): no new workers; {workers} {fate}"
        );
        if !how.wait {
            let why = match reason {
                "" => "the service is draining".to_owned(),
                reason => format!("the service is draining: {reason}"),
            };
            self.end_all(uid, &why, false);
        }
        let _ = self.changes.send(Change::Service);
        Ok(())
    }

    pub(super) fn resume_verb(&mut self, by: &Caller) -> Result<(), Refused> {
        self.allow(by, Right::ManageService)?;
        match &self.drain {
            Some(drain) if drain.for_good => return Err(Refused::ShuttingDown),
            Some(_) => {}
            None => return Ok(()),
        }
        self.drain = None;
        self.timers.set(Key::Drain, None);
        service_event!(
            INFO,
            id::RESUMED,
            "admission is open again, as uid {} asked for",
            by.uid
        );
        let now = clock::now();
        self.activity.reset(now.mono);
        self.look_for_idleness(now);
        let _ = self.changes.send(Change::Service);
        Ok(())
    }

    pub(super) fn is_over(&mut self, now: Now) -> Option<Stopped> {
        let Some(drain) = &self.drain else {
            return self.is_idle(now).then_some(Stopped::Idle);
        };
        // An idle exit would open admission again: the next start knows of no drain.
        if !drain.leave {
            return None;
        }
        if self.children.is_empty() && self.starting.is_empty() {
            return Some(Stopped::Drained);
        }
        if drain.until.is_none_or(|until| now.mono < until) {
            return None;
        }
        let left = self.children.len() + self.starting.len();
        self.abandon(now);
        Some(Stopped::Abandoned(u32::try_from(left).unwrap_or(u32::MAX)))
    }
}
