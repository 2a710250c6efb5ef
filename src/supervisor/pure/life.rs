//! What was seen of one worker's life and what is to be done about it now. PURE (section 6).
//!
//! [`Life`] keeps the times of the last signs, [`super::liveness`] judges them. [`Life::look`]
//! names what it needs (a reading of the CPU time) or what is due (a ping, the end);
//! [`Life::due`] says when to look again.

#![forbid(unsafe_code)]

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::liveness::{Seen, Terms, classify, next_look, ping_interval, verdict};
use crate::worker::{Boot, Health, Mono, Now};

/// A channel closes a moment before its process is seen to have ended; one that is still closed
/// after this was lost by a process that lives.
const LOST_GRACE: Duration = Duration::from_secs(1);
/// One that has said how its work came out may take its time to leave.
const LEAVING_GRACE: Duration = Duration::from_secs(5);
/// A look that comes later than this was delayed by us (a stopped or starved daemon): whatever
/// the worker said meanwhile has not been read yet.
const LATE: Duration = Duration::from_secs(1);
/// CPU time counts as progress from a thousandth of the time passed: what an idle event loop
/// needs to wake now and then is less.
const IDLE_SHARE: u32 = 1000;
/// The least CPU time that counts.
const IDLE_LEAST: Duration = Duration::from_millis(1);

/// What a worker was given to keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Promise {
    /// B: how old the last progress may be.
    pub progress: Duration,
    /// C: how old the last pong may be; `None` if it promised no heartbeat.
    pub pong: Option<Duration>,
    /// It has a channel to be pinged on.
    pub pings: bool,
    /// CPU time counts as progress: it has no channel to show some on.
    pub by_cpu: bool,
    /// Ended when settled and quiet for so long.
    pub idle: Option<Duration>,
}

/// The signs of one worker's life.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Life {
    /// What it keeps to.
    pub promise: Promise,
    /// Last progress; its start at first.
    pub progress: Mono,
    /// Last pong; its start at first.
    pub pong: Mono,
    /// Quiet counts from here at the earliest.
    quiet: Mono,
    /// The last ping's number and time.
    ping: Option<(u64, Mono)>,
    /// CPU time in microseconds, as last read.
    cpu: Option<(u64, Mono)>,
    /// Its channel was lost.
    lost: Option<Mono>,
    /// When the next look was to be.
    due: Option<Mono>,
}

/// What the table and the row know besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// A: the hard deadline with its slack.
    pub deadline: Option<Boot>,
    /// The end of its process was seen.
    pub ended: bool,
    /// Frozen by us.
    pub frozen: bool,
    /// Its turn is settled.
    pub settled: bool,
    /// Held, or attended by somebody.
    pub kept: bool,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing until [`Life::due`].
    Nothing,
    /// Read its CPU time, say it by [`Life::used_cpu`], and look again.
    ReadCpu,
    /// Ping it with this number.
    Ping(u64),
    /// Start its ladder with this reason.
    End(&'static str),
}

impl Life {
    /// Of a worker whose program was executed at `now`.
    pub fn new(promise: Promise, now: Mono) -> Self {
        Self {
            promise,
            progress: now,
            pong: now,
            quiet: now,
            ping: None,
            cpu: promise.by_cpu.then_some((0, now)),
            lost: None,
            due: None,
        }
    }

    /// It did something of substance.
    pub fn progressed(&mut self, now: Mono) {
        self.progress = self.progress.max(now);
    }

    /// It answered, or said by itself that it is there.
    pub fn ponged(&mut self, now: Mono) {
        self.pong = self.pong.max(now);
    }

    /// It asked for so much more time: until then it counts as healthy.
    pub fn extended(&mut self, by: Duration, now: Mono) {
        let early = by.saturating_sub(self.promise.progress);
        self.progressed(now.plus(early));
        self.ponged(now);
    }

    /// Its channel was lost; the first loss counts.
    pub fn lost_channel(&mut self, now: Mono) {
        self.lost.get_or_insert(now);
    }

    /// It could not show anything until now (frozen): its clocks start again.
    pub fn thawed(&mut self, now: Mono) {
        self.progressed(now);
        self.ponged(now);
    }

    /// A reading of its CPU time. Enough of it since the last reading is progress.
    pub fn used_cpu(&mut self, usec: u64, now: Mono) {
        if let Some((before, at)) = self.cpu {
            let used = Duration::from_micros(usec.saturating_sub(before));
            if used >= (now.since(at) / IDLE_SHARE).max(IDLE_LEAST) {
                self.progressed(now);
            }
        }
        self.cpu = Some((usec, now));
    }

    /// Its leader has ended. What it left has promised no heartbeat and has no channel: it is
    /// judged as a worker without one.
    pub fn leader_ended(&mut self, now: Mono) {
        (self.lost, self.ping) = (None, None);
        self.promise.pings = false;
        self.promise.pong = None;
        self.promise.by_cpu = true;
        self.cpu.get_or_insert((0, now));
    }

    /// Would a reading of its CPU time, the last one being older than `age`, tell more?
    pub fn wants_cpu(&self, facts: &Facts, age: Duration, now: Now) -> bool {
        self.promise.by_cpu
            && self.cpu.is_none_or(|(_, at)| now.mono.since(at) > age)
            && matches!(self.health(facts, now), Health::Busy | Health::Stuck)
    }

    /// How it is.
    pub fn health(&self, facts: &Facts, now: Now) -> Health {
        classify(&self.terms(facts), &self.seen(facts), now)
    }

    fn terms(&self, facts: &Facts) -> Terms {
        Terms {
            deadline: facts.deadline,
            progress: self.promise.progress,
            pong: self.promise.pong,
        }
    }

    fn seen(&self, facts: &Facts) -> Seen {
        Seen {
            ended: facts.ended || self.lost.is_some(),
            progress: self.progress,
            pong: self.pong,
            frozen: facts.frozen,
        }
    }

    /// What is to be done. The hard deadline is somebody else's: it is on another clock.
    pub fn look(&mut self, facts: &Facts, now: Now) -> Look {
        let now = now.mono;
        if facts.ended {
            return Look::Nothing;
        }
        if let Some(at) = self.lost {
            return match now >= at.plus(lost_grace(facts)) {
                true => verdict(Health::Dead).map_or(Look::Nothing, Look::End),
                false => Look::Nothing,
            };
        }
        if self.due.take().is_some_and(|due| now.since(due) > LATE) {
            self.ponged(now);
        }
        if facts.frozen {
            return Look::Nothing;
        }
        let stuck = self.is_stuck(facts, now);
        let idle = self.is_idle(facts, now);
        if (stuck || idle) && self.promise.by_cpu && self.cpu.is_none_or(|(_, at)| at < now) {
            return Look::ReadCpu;
        }
        if stuck {
            return verdict(Health::Stuck).map_or(Look::Nothing, Look::End);
        }
        if idle {
            return Look::End("idle");
        }
        match self.ping_due() {
            Some(due) if due <= now => {
                let seq = self.ping.map_or(1, |(seq, _)| seq.wrapping_add(1));
                self.ping = Some((seq, now));
                Look::Ping(seq)
            }
            _ => Look::Nothing,
        }
    }

    fn is_stuck(&self, facts: &Facts, now: Mono) -> bool {
        let terms = Terms {
            deadline: None,
            ..self.terms(facts)
        };
        let now = Now {
            mono: now,
            ..Now::default()
        };
        classify(&terms, &self.seen(facts), now) == Health::Stuck
    }

    fn idle_due(&self) -> Option<Mono> {
        let idle = self.promise.idle?;
        Some(self.progress.max(self.quiet).plus(idle))
    }

    /// One that may not be retired yet has its quiet counted anew.
    fn is_idle(&mut self, facts: &Facts, now: Mono) -> bool {
        if self.idle_due().is_none_or(|due| now < due) {
            return false;
        }
        if facts.kept || !facts.settled {
            self.quiet = now;
            return false;
        }
        true
    }

    fn ping_due(&self) -> Option<Mono> {
        let pong = self.promise.pong.filter(|_| self.promise.pings)?;
        let last = self.ping.map_or(self.pong, |(_, at)| at);
        Some(last.plus(ping_interval(pong)))
    }

    /// When to look again; `None` if nothing can come of time alone.
    pub fn due(&mut self, facts: &Facts) -> Option<Mono> {
        self.due = if facts.ended {
            None
        } else if let Some(at) = self.lost {
            Some(at.plus(lost_grace(facts)))
        } else if facts.frozen {
            None
        } else {
            let (stuck, _) = next_look(&self.terms(facts), &self.seen(facts));
            [stuck, self.idle_due(), self.ping_due()]
                .into_iter()
                .flatten()
                .min()
        };
        self.due
    }
}

fn lost_grace(facts: &Facts) -> Duration {
    match facts.settled {
        true => LEAVING_GRACE,
        false => LOST_GRACE,
    }
}

#[cfg(test)]
mod tests;
