//! The one decision about a row, and the arithmetic of its clock. Pure: the caller brings the
//! facts and the time, and carries out what is answered. Specification section 3.

#![forbid(unsafe_code)]

use super::facts::{Decision, Facts, KeepReason, Live, Probe, Tree};
use crate::worker::{Status, Timestamp};

const MICROS: i64 = 1_000_000;

/// A forward jump of the wall clock up to this long is left alone, microseconds.
const JUMP_MIN: i64 = 3_600 * MICROS;

/// What is to be done with the row at `now`, with a grace of whole seconds. The order of the
/// questions is the policy: the first that keeps the row decides, and the dear one comes last.
pub fn decide(facts: &Facts, now: Timestamp, grace_secs: i64) -> Decision {
    use Decision::{Ask, Keep, Reap, StampExit};
    if facts.read_only {
        return Keep(KeepReason::NewerSchema);
    }
    if facts.held {
        return Keep(KeepReason::Held);
    }
    match &facts.live {
        Live::Yes => return Keep(KeepReason::Live),
        Live::Unknown(why) => return Keep(KeepReason::LivenessUnknown(why.clone())),
        Live::No => {}
    }
    // What is coming up has no process to be dead, whatever was recorded of an earlier one.
    let coming_up = matches!(facts.status, Status::Spawning | Status::Restarting);
    if !facts.status.is_terminal() && (coming_up || !facts.pid_confirmed_dead) {
        return Keep(KeepReason::NotTerminal);
    }
    let Some(exited_at) = facts.exited_at else {
        return StampExit;
    };
    if !past_grace(exited_at, now, grace_secs) {
        let left = seconds_left(exited_at, now, grace_secs);
        return Keep(KeepReason::WithinGrace { left });
    }
    match &facts.tree {
        Tree::NotOwned | Tree::Clean => Reap,
        Tree::NotAsked => Ask(Probe::Worktree),
        Tree::InUse(by) => Keep(KeepReason::WorktreeInUse(*by)),
        Tree::Dirty(what) => Keep(KeepReason::WorktreeDirty(what.clone())),
        Tree::Unknown(why) => Keep(KeepReason::WorktreeUnprobed(why.clone())),
    }
}

/// Strictly past: a row exactly `grace` old is not, nor is one that is yet to die, even where
/// the grace is negative.
fn past_grace(exited_at: Timestamp, now: Timestamp, grace_secs: i64) -> bool {
    let age = now.since(exited_at);
    age >= 0 && age > grace_secs.saturating_mul(MICROS)
}

/// Rounded up, never negative: `0` is said only of a row exactly at the end of its grace.
fn seconds_left(exited_at: Timestamp, now: Timestamp, grace_secs: i64) -> i64 {
    let grace = grace_secs.saturating_mul(MICROS);
    let left = grace.saturating_sub(now.since(exited_at)).max(0);
    left / MICROS + i64::from(left % MICROS != 0)
}

/// Must the caller set `exited_at` to `now`? A death in the future comes from a wall clock that
/// was set back, and would else keep the row until that time comes again.
pub fn needs_restamp(exited_at: Timestamp, now: Timestamp) -> bool {
    exited_at > now
}

/// How far the wall clock jumped forward between two readings, if by more than an hour.
///
/// An offset is wall-clock time less boot time (`CLOCK_BOOTTIME`, so that a suspend is no jump),
/// microseconds, both read at one moment.
pub fn jump_correction(prev_offset: i64, now_offset: i64) -> Option<i64> {
    let jump = now_offset.saturating_sub(prev_offset);
    (jump > JUMP_MIN).then_some(jump)
}

/// The death of a row moved along with a jump of the wall clock, so that the grace is waited for
/// in real time. `None` for a row that was past its grace before the jump. `now` is the time
/// after the jump.
pub fn shifted_by_jump(
    exited_at: Timestamp,
    now: Timestamp,
    grace_secs: i64,
    jump: i64,
) -> Option<Timestamp> {
    let before = now.plus(jump.saturating_neg());
    (!past_grace(exited_at, before, grace_secs)).then(|| exited_at.plus(jump))
}

#[cfg(test)]
mod tests;
