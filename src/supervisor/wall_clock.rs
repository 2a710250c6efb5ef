//! The wall clock was set: graces are counted on as if it had not been.

use super::Supervisor;
use crate::gc::decide::{jump_correction, shifted_by_jump};
use crate::registry::store::ClockMark;
use crate::registry::writer::Job;
use crate::sys::process;
use crate::worker::{Now, Timestamp, WorkerId};

/// A wall clock that is slewed, or read a moment later than the other one, has not been set.
const CLOCK_NOISE: i64 = 1_000_000;

impl Supervisor {
    /// Notices that the wall clock was set, also between two lives of the daemon in one boot.
    /// After a jump forward of over an hour, rows within their grace get the jump added.
    pub(super) fn correct_clock(&mut self, now: Now) {
        let boot_usec = i64::try_from(now.boot.0 / 1000).unwrap_or(i64::MAX);
        let offset = now.wall.0.saturating_sub(boot_usec);
        let before = self.clock.replace(offset);
        if before.is_some_and(|before| (offset - before).abs() < CLOCK_NOISE) {
            self.clock = before;
            return;
        }
        if let Some(jump) = before.and_then(|before| jump_correction(before, offset)) {
            self.shift_rows(jump, now);
        }
        if let Ok(boot_id) = process::boot_id() {
            let mark = ClockMark {
                boot_id,
                wall_minus_boot_usec: offset,
            };
            drop(self.writer.submit(Job::Clock(mark)));
        }
    }

    fn shift_rows(&mut self, jump: i64, now: Now) {
        let grace = i64::try_from(self.set.config.gc.grace.as_secs()).unwrap_or(i64::MAX);
        let shifted: Vec<(WorkerId, Timestamp)> = self
            .registry
            .iter()
            .filter_map(|row| Some((row.id, shifted_by_jump(row.exited?, now.wall, grace, jump)?)))
            .collect();
        super::journal::clock_jumped(jump / 1_000_000, shifted.len());
        for (id, exited) in shifted {
            let _ = self.registry.update(id, |row| row.exited = Some(exited));
            drop(self.save(id));
        }
    }
}
