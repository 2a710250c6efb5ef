//! Who looks into users' directories before a start: helpers under the user's ids. They are kept
//! for a moment, since starting one costs more than starting the worker, and starts come in
//! bursts and one after the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::Supervisor;
use super::timers::Key;
use crate::gc::worktree::{Owned, ProbeOptions, Prober};
use crate::worker::{Mono, Now, Owner, WorktreeChoice};

/// A user's helpers are ended when nothing was asked of them for so long.
const KEPT: Duration = Duration::from_secs(2);
/// Users whose helpers are kept; the one who asked longest ago goes first.
const USERS_MAX: usize = 16;
/// Helpers of one user that look at the same time. A look is over in an instant.
const AT_ONCE: usize = 2;
/// Where they all hang (a dead mount), another one is started after this.
const TURN: Duration = Duration::from_millis(100);

/// Looks with one user's rights. Cheap to clone.
#[derive(Clone)]
pub(super) struct Looker {
    prober: Prober,
    turns: Arc<Semaphore>,
}

impl Looker {
    /// The worktree that a row of this user owns.
    pub(super) async fn owned_worktree(
        &self,
        owner: Owner,
        choice: &WorktreeChoice,
        cwd: &std::path::Path,
    ) -> Result<Option<Owned>, String> {
        let _turn = tokio::time::timeout(TURN, self.turns.acquire()).await;
        self.prober.owned_worktree(owner, choice, cwd).await
    }
}

/// The helpers that are kept, the user who asked last at the end.
#[derive(Default)]
pub(super) struct Lookers(Vec<Kept>);

impl std::fmt::Debug for Lookers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lookers").field(&self.0.len()).finish()
    }
}

struct Kept {
    owner: Owner,
    groups: Vec<u32>,
    looker: Looker,
    asked: Mono,
}

impl Lookers {
    /// Ends all of them, once they have answered.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Supervisor {
    /// Who looks with the rights of this owner and these supplementary groups.
    pub(super) fn looker(&mut self, owner: Owner, groups: &[u32], now: Now) -> Looker {
        let mut kept = self.lookers.0.iter();
        let at = kept.position(|k| k.owner == owner && k.groups == groups);
        let looker = match at.map(|at| self.lookers.0.remove(at)) {
            Some(kept) => kept.looker,
            None => self.new_looker(groups.to_vec()),
        };
        if self.lookers.0.len() >= USERS_MAX {
            self.lookers.0.remove(0);
        }
        self.lookers.0.push(Kept {
            owner,
            groups: groups.to_vec(),
            looker: looker.clone(),
            asked: now.mono,
        });
        self.timers
            .at_latest(Key::Lookers, now.mono.plus(self.kept_for()));
        looker
    }

    /// One that is not kept.
    pub(super) fn new_looker(&self, groups: Vec<u32>) -> Looker {
        let options = ProbeOptions {
            ignored: false,
            limit: self.set.config.gc.probe_timeout,
            keep: AT_ONCE,
        };
        Looker {
            prober: Prober::new(Arc::new(self.launcher(groups)), options),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// They must not keep an idle service from leaving.
    fn kept_for(&self) -> Duration {
        self.set.idle_exit.map_or(KEPT, |idle| KEPT.min(idle / 2))
    }

    /// Ends the helpers of users who have asked for nothing lately.
    pub(super) fn end_lookers(&mut self, now: Now) {
        let kept_for = self.kept_for();
        self.lookers
            .0
            .retain(|kept| now.mono.since(kept.asked) < kept_for);
        let next = self.lookers.0.first().map(|k| k.asked.plus(kept_for));
        self.timers.set(Key::Lookers, next);
    }
}
