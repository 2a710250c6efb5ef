//! Closed admission: by a stop signal for good ([`super::stopping`]), by the Drain call until
//! Resume. All ladders run in parallel.

use super::Supervisor;
use super::handle::{Caller, Change, DrainOptions, Right};
use super::refused::Refused;
use super::timers::Key;
use crate::log::id;
use crate::service_event;
use crate::sys::clock;
use crate::worker::{Mono, WorkerId};

/// Admission is closed.
#[derive(Debug)]
pub(super) struct Drain {
    /// The service ends once all workers have.
    pub leave: bool,
    /// What is left then is killed; none to wait as long as it takes.
    pub until: Option<Mono>,
    /// By a stop signal: no Resume.
    pub for_good: bool,
}

impl Supervisor {
    /// Begins every ladder.
    pub(super) fn end_all(&mut self, by: u32, reason: &str, forced: bool) {
        for node in self.children.nodes() {
            self.cancel_node(node, by, reason, forced);
        }
        let starting: Vec<WorkerId> = self.starting.keys().copied().collect();
        for id in starting {
            self.cancel_starting(id, by, reason, forced);
        }
        self.end_restarting(by, reason);
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
        let (workers, uid) = (self.children.len_of_own(), by.uid);
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
        } else {
            self.end_restarting(uid, "the service is draining");
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
}
