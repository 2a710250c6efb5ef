//! Closed admission: by a stop signal for good ([`super::stopping`]), by the Drain call until
//! Resume. All ladders run in parallel.

use serde::{Deserialize, Serialize};

use super::Supervisor;
use super::handle::{Caller, Change, DrainOptions, Right};
use super::refused::Refused;
use super::timers::Key;
use crate::log::id;
use crate::service_event;
use crate::sys::clock;
use crate::worker::row::clip;
use crate::worker::{Mono, Timestamp, WorkerId};

/// Admission is closed.
#[derive(Debug)]
pub(super) struct Drain {
    /// The service ends once all workers have.
    pub leave: bool,
    /// What is left then is killed; none to wait as long as it takes.
    pub until: Option<Mono>,
    /// By a stop signal: no Resume.
    pub for_good: bool,
    /// When and why admission was closed.
    pub closed: Closed,
}

/// When and why admission was closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// By the first of several calls.
    pub since: Timestamp,
    /// In the words of the last one; at most 256 bytes.
    pub reason: String,
}

/// Most of a reason that is kept, bytes.
const REASON_MAX: usize = 256;

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
        // What the next image was tried with does not say it.
        self.give_up_reload("admission was closed meanwhile");
        let timeout = self.set.config.ladder.drain_timeout;
        let until = (how.exit && !how.wait).then(|| clock::now().mono.plus(timeout));
        let shown = clip(reason, REASON_MAX);
        self.drain = Some(Drain {
            leave: how.exit,
            until,
            for_good: false,
            closed: self.closed(&shown),
        });
        self.timers.set(Key::Drain, until);
        let (workers, uid) = (self.children.len_of_own(), by.uid);
        let fate = if how.wait { "may finish" } else { "are ended" };
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

    /// Closed now, or longer ago by an earlier call.
    pub(super) fn closed(&self, reason: &str) -> Closed {
        let before = self.drain.as_ref().map(|drain| drain.closed.since);
        Closed {
            since: before.unwrap_or_else(|| clock::now().wall),
            reason: reason.to_owned(),
        }
    }

    /// Admission is closed until Resume and the service stays; its next image must know of it.
    pub(super) fn closed_until_resume(&self) -> Option<Closed> {
        let drain = self.drain.as_ref().filter(|drain| !drain.leave)?;
        Some(drain.closed.clone())
    }

    /// Is the service to end once its workers have?
    pub(super) fn is_to_leave(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.leave)
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
