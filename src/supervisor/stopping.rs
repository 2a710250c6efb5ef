//! When the service ends: told to by a signal, with a bound for the workers, or for want of
//! anything to do.

use std::time::Duration;

use super::Supervisor;
use super::drain::Drain;
use super::handle::Change;
use super::reload::Handed;
use super::timers::Key;
use crate::service_event;
use crate::sys::systemd;
use crate::worker::Now;

/// What the disk gets to take the last changes: a sick one must not keep the service from ending.
const LAST_CHANGES: Duration = Duration::from_secs(10);

/// What that and the leaving take at most once all workers have ended.
const AFTER_DRAIN: Duration = Duration::from_secs(20);

/// Why the loop ended.
#[derive(Debug)]
pub enum Stopped {
    /// A stop signal, and everything has ended.
    Drained,
    /// A stop signal, and so many workers were left when time was up.
    Abandoned(u32),
    /// Nothing to do for long enough.
    Idle,
    /// The image is to be replaced; everything it held.
    Reload(Box<Handed>),
}

impl Supervisor {
    /// SIGTERM: closes admission for good and ends all; the second one forces.
    pub(super) fn stop(&mut self, now: Now) {
        // The next image would know nothing of it.
        self.give_up_reload("the service was told to stop");
        let before = self.drain.as_ref().filter(|drain| drain.for_good);
        let forced = before.is_some();
        let until = before
            .and_then(|drain| drain.until)
            .unwrap_or_else(|| now.mono.plus(self.set.config.ladder.drain_timeout));
        self.drain = Some(Drain {
            leave: true,
            until: Some(until),
            for_good: true,
            closed: self.closed("the service was told to stop"),
        });
        self.timers.set(Key::Drain, Some(until));
        let workers = match self.children.len_of_own() {
            1 => "1 worker".to_owned(),
            n => format!("{n} workers"),
        };
        service_event!(INFO, crate::log::id::STOPPING, "stopping: ending {workers}");
        if !forced {
            let bound = self.set.config.ladder.drain_timeout + AFTER_DRAIN;
            systemd::stopping(&format!("Ending {workers}."), bound);
        }
        self.end_all(self.set.me.uid, "the service is stopping", forced);
        if forced {
            self.end_hooks("was killed: the service was told again to stop");
        }
        let _ = self.changes.send(Change::Service);
    }

    pub(super) fn is_over(&mut self, now: Now) -> Option<Stopped> {
        if self.may_hand_over() {
            return Some(Stopped::Reload(Box::new(self.hand_over())));
        }
        let Some(drain) = &self.drain else {
            return self.has_left(now).then_some(Stopped::Idle);
        };
        // An idle exit would open admission again: the next start knows of no drain.
        if !drain.leave {
            return None;
        }
        // A worker stays in the table until its stop hook has ended; probe helpers change nothing
        // and are killed.
        // An adopted process goes on; the next start finds it by its identity.
        let left = self.children.len_of_own() + self.starting.len();
        if left == 0 {
            // Half a sweep that is carried out would be told to nobody; it takes no time.
            let done = !self.sweeps.carries_out();
            return done.then_some(Stopped::Drained);
        }
        if drain.until.is_none_or(|until| now.mono < until) {
            return None;
        }
        self.abandon(now);
        Some(Stopped::Abandoned(u32::try_from(left).unwrap_or(u32::MAX)))
    }

    pub(super) fn is_idle(&self, now: Now) -> bool {
        let Some(idle_exit) = self.set.idle_exit else {
            return false;
        };
        self.children.is_empty()
            && self.starting.is_empty()
            && self.again.pending() == 0
            && self.sweeps.is_quiet()
            && self.helpers.is_empty()
            && self.helpers_starting.is_empty()
            && self.commands.is_empty()
            && self.is_not_reloading()
            && self
                .activity
                .quiet_for(now.mono)
                .is_some_and(|quiet| quiet >= idle_exit)
    }

    pub(super) fn look_for_idleness(&mut self, now: Now) {
        let Some(idle_exit) = self.set.idle_exit else {
            return;
        };
        // Peers that come and go wake the loop by themselves; only quiet needs a timer.
        let wait = match self.activity.quiet_for(now.mono) {
            Some(quiet) if self.children.is_empty() => idle_exit.saturating_sub(quiet),
            _ => idle_exit,
        };
        if self.children.is_empty() && self.starting.is_empty() && self.again.pending() == 0 {
            let pause = wait.max(Duration::from_millis(10));
            self.timers.set(Key::Idle, Some(now.mono.plus(pause)));
        } else {
            self.timers.set(Key::Idle, None);
        }
    }

    pub(super) async fn close(&mut self) {
        self.kill_unknown_strangers();
        for helper in self.helpers.values() {
            helper.kill();
        }
        self.save_changed_rows();
        let flushed = self.writer.flush();
        if tokio::time::timeout(LAST_CHANGES, flushed).await.is_err() {
            tracing::error!("the state directory does not take the last changes; leaving");
        }
    }
}
