//! Workers that are started again: what a new generation is made from, the wait before it, and
//! who waits meanwhile. [`super::restart`] decides. A row holds no environment and no payload, so
//! these live here and in the hand-over of a reload, and no policy outlives the daemon.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Supervisor;
use super::handle::{CancelReply, Change, Ended, Reply, Stdio};
use super::refused::Refused;
use super::restart::{End, History, Rules, Verdict, decide};
use super::saving::Waiter;
use super::settle::Account;
use super::step::SAVE_WAIT;
use super::timers::Key;
use crate::config::show_duration;
use crate::registry::writer::Health as DiskHealth;
use crate::sys::clock;
use crate::worker::{
    Cancellation, Environment, Exit, HowKnown, Leftovers, Mono, Now, Outcome, Priority,
    RestartPolicy, Row, Spec, Status, WorkerId, WorktreeChoice,
};

/// A start that cannot be made at this moment is tried again after this.
const POSTPONED: std::time::Duration = std::time::Duration::from_millis(200);

/// What a new generation is made from, besides its row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    #[serde(with = "environment")]
    env: Environment,
    payload: Option<String>,
    own_no_worktree: bool,
    private_tmp: bool,
    priority: Priority,
    groups: Vec<u32>,
}

mod environment {
    use serde::{Deserializer, Serializer};

    use crate::worker::{Environment, row::bytes_list};

    pub(super) fn serialize<S: Serializer>(env: &Environment, to: S) -> Result<S::Ok, S::Error> {
        bytes_list::serialize(&env.0, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Environment, D::Error> {
        bytes_list::deserialize(from).map(Environment)
    }
}

impl Recipe {
    pub(super) fn new(spec: &Spec, groups: &[u32]) -> Self {
        Self {
            env: spec.env.clone(),
            payload: spec.payload.clone(),
            own_no_worktree: spec.worktree == WorktreeChoice::None,
            private_tmp: spec.private_tmp,
            priority: spec.priority,
            groups: groups.to_vec(),
        }
    }

    /// The spec of the next generation. The worktree that the row owns stays its own.
    fn spec(&self, row: &Row) -> Spec {
        Spec {
            argv: row.argv.clone(),
            name: row.name.clone(),
            cwd: row.cwd.clone(),
            env: self.env.clone(),
            kind: row.kind.clone(),
            timeouts: *row.timeouts,
            control: row.control,
            payload: self.payload.clone(),
            worktree: match &row.worktree {
                Some(path) => WorktreeChoice::Path(path.clone()),
                None if self.own_no_worktree => WorktreeChoice::None,
                None => WorktreeChoice::Auto,
            },
            uid: None,
            limits: *row.limits,
            restart: row.restart,
            restart_max: row.restart_max,
            leftovers: Some(row.leftovers_policy),
            ending: (*row.ending).clone(),
            priority: self.priority,
            trace_id: row.trace_id.clone(),
            private_tmp: self.private_tmp,
            tty: false,
        }
    }
}

/// One worker with a restart policy, from its Spawn to the end of its last generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    recipe: Recipe,
    history: History,
    /// The next generation begins then; `None` while one is there.
    due: Option<Mono>,
    /// Its end was asked for.
    stopped: bool,
}

/// All of them, and who waits for the end of those that wait for their next generation.
#[derive(Debug, Default)]
pub(super) struct State {
    all: HashMap<WorkerId, Again>,
    waiters: HashMap<WorkerId, Vec<Waiter>>,
}

impl State {
    /// How many wait out a back-off.
    pub(super) fn pending(&self) -> usize {
        self.all
            .values()
            .filter(|again| again.due.is_some())
            .count()
    }

    pub(super) fn is_pending(&self, id: WorkerId) -> bool {
        self.all.get(&id).is_some_and(|again| again.due.is_some())
    }

    /// When the next generation begins.
    pub(super) fn due(&self, id: WorkerId) -> Option<Mono> {
        self.all.get(&id)?.due
    }

    /// Who waits for the end of a worker that waits for its next generation.
    pub(super) fn waiters(&mut self, id: WorkerId) -> Option<&mut Vec<Waiter>> {
        self.is_pending(id)
            .then(|| self.waiters.entry(id).or_default())
    }

    /// No new generation, whatever the policy says.
    pub(super) fn stop(&mut self, id: WorkerId) {
        if let Some(again) = self.all.get_mut(&id) {
            again.stopped = true;
        }
    }
}

impl Supervisor {
    /// Can this be started again as it was?
    pub(super) fn check_restart(spec: &Spec, io: &Stdio) -> Result<(), Refused> {
        let passed = io.stdin.is_some() || io.stdout.is_some() || io.stderr.is_some();
        if spec.restart != RestartPolicy::No && (passed || spec.tty) {
            return Err(Refused::InvalidArgs(
                "restart: does not go with passed descriptors, which end with the first \
                 generation; leave the output to musterd"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Keeps what a next generation will need.
    pub(super) fn remember(&mut self, id: WorkerId, recipe: Recipe) {
        let again = Again {
            recipe,
            history: History::default(),
            due: None,
            stopped: false,
        };
        self.again.all.insert(id, again);
    }

    fn rules(&self, row: &Row) -> Rules {
        let restart = &self.set.config.restart;
        Rules {
            policy: row.restart,
            max: row.restart_max.unwrap_or(restart.max),
            window: restart.window,
            backoff_min: restart.backoff_min,
            backoff_max: restart.backoff_max,
            reset_after: restart.reset_after,
        }
    }

    /// Writes the end of a generation into its row. Answers who waits for the end of the worker
    /// if this was it; `None` if another generation follows.
    pub(super) fn end_generation(
        &mut self,
        id: WorkerId,
        lived: std::time::Duration,
        waiters: Vec<Waiter>,
        now: Now,
        end: impl FnOnce(&mut Row),
    ) -> Option<Vec<Waiter>> {
        let Some(row) = self.registry.get(id) else {
            return Some(waiters);
        };
        if Account::of(row).ended {
            // What was told once is not told again.
            let outcome = row.outcome.unwrap_or(Outcome::Unknown);
            let view = Box::new(self.view(row));
            for waiter in waiters {
                let view = view.clone();
                let _ = waiter.send(Ok(Ended { outcome, view }));
            }
            return None;
        }
        let mut ended = row.clone();
        end(&mut ended);
        let rules = self.rules(row);
        let verdict = self.verdict(&ended, &rules, lived, now);
        let how = last_exit(&ended);
        let lost = rules.policy != RestartPolicy::No && !self.again.all.contains_key(&id);
        match verdict {
            Verdict::Again(wait) => {
                ended.status = Status::Restarting;
                ended.exited = None;
                (ended.process, ended.pgid, ended.leaf) = (None, None, None);
                ended.note = Some(format!("{how}{STARTS_AGAIN}"));
                let _ = self.registry.update(id, |row| *row = ended);
                self.save_lazily(id, now);
                let due = now.mono.plus(wait);
                if let Some(again) = self.again.all.get_mut(&id) {
                    again.due = Some(due);
                }
                self.again.waiters.insert(id, waiters);
                self.timers.set(Key::Restart(id), Some(due));
                return None;
            }
            Verdict::Dead => {
                ended.status = Status::PermanentDead;
                ended.note = Some(format!(
                    "{how}; not started again: {} within {}",
                    match rules.max {
                        1 => "1 restart".to_owned(),
                        n => format!("{n} restarts"),
                    },
                    show_duration(rules.window)
                ));
            }
            Verdict::Ended if ended.budget_is_spent() && asks_to(&rules, &ended) => {
                ended.note = Some(format!("{how}; not started again: its tokens are spent"));
            }
            Verdict::Ended if self.drain.is_some() && asks_to(&rules, &ended) => {
                ended.note = Some(format!("{how}; not started again: the service is draining"));
            }
            Verdict::Ended if lost && asks_to(&rules, &ended) => {
                ended.note = Some(format!("{how}; not started again: {FORGOTTEN}"));
            }
            Verdict::Ended => {}
        }
        self.again.all.remove(&id);
        if let Err(error) = self.registry.finish(id, |row| *row = ended) {
            tracing::error!(%error, "cannot settle a row");
        }
        Some(waiters)
    }

    fn verdict(
        &mut self,
        ended: &Row,
        rules: &Rules,
        lived: std::time::Duration,
        now: Now,
    ) -> Verdict {
        let closed = self.drain.is_some() || self.is_leaving();
        let Some(again) = self.again.all.get_mut(&ended.id) else {
            return Verdict::Ended;
        };
        let end = End {
            outcome: ended.outcome.unwrap_or(Outcome::Unknown),
            lived,
            stopped: again.stopped
                || closed
                || ended.cancelled.is_some()
                || ended.budget_is_spent(),
        };
        let mut jitter = [0; 2];
        // Without random bytes they come back together: no harm that this could prevent.
        let _ = rustix::rand::getrandom(&mut jitter, rustix::rand::GetRandomFlags::empty());
        let jitter = u16::from_ne_bytes(jitter);
        decide(rules, &mut again.history, end, jitter, now.mono)
    }

    /// The last generation of a worker has ended: its directory goes, then the world hears of it.
    pub(super) fn settle_for_good(&mut self, id: WorkerId, waiters: Vec<Waiter>, now: Now) {
        let mut dir = None;
        let mut owner = self.set.me;
        let _ = self.registry.update(id, |row| {
            dir = row.runtime_dir.take();
            owner = row.owner;
        });
        if let Some(dir) = dir {
            self.remove_runtime_dir(owner, dir);
        }
        self.settle(id, waiters);
        self.activity.reset(now.mono);
        self.schedule_sweep(now);
        self.look_for_idleness(now);
    }

    /// The wait of a worker is over.
    pub(super) fn restart_due(&mut self, id: WorkerId, now: Now) {
        let sick = matches!(&*self.writer.health().borrow(), DiskHealth::Degraded(_));
        let unremoved = self
            .stale_leaves
            .iter()
            .any(|(leaf, _)| leaf.path().ends_with(format!("w-{id}")));
        if self.is_reloading() || sick || unremoved {
            let again = now.mono.plus(POSTPONED);
            self.timers.set(Key::Restart(id), Some(again));
            return;
        }
        self.start_again(id);
    }

    fn start_again(&mut self, id: WorkerId) {
        let Some(again) = self.again.all.get_mut(&id) else {
            return;
        };
        again.due = None;
        let recipe = again.recipe.clone();
        let waiters = self.again.waiters.remove(&id).unwrap_or_default();
        let changed = self.registry.update(id, |row| {
            row.status = Status::Spawning;
            (row.started, row.frames_skipped) = (None, 0);
            row.restarts = row.restarts.saturating_add(1);
            (row.outcome, row.how_known, row.exit) = (None, None, None);
            (row.rung, row.took, row.processes) = (None, None, 0);
            (row.oom_killed, row.note) = (false, None);
            row.failure = String::new().into();
            row.leftovers = Leftovers::default();
        });
        let Some(row) = self.registry.get(id).filter(|_| changed.is_ok()) else {
            return;
        };
        let row = row.clone();
        let saved = self.save(id);
        let _ = self.changes.send(Change::Changed(id));
        let spec = recipe.spec(&row);
        let job = self
            .preparation(&row, spec, Stdio::default(), recipe.groups)
            .again();
        self.launch(id, job, waiters, saved, None);
    }

    /// Ends a worker that waits for its next generation. `false`: it does not.
    pub(super) fn cancel_restarting(&mut self, id: WorkerId, by: u32, reason: &str) -> bool {
        if !self.again.is_pending(id) {
            return false;
        }
        let now = clock::now();
        self.timers.set(Key::Restart(id), None);
        self.again.all.remove(&id);
        let waiters = self.again.waiters.remove(&id);
        let _ = self.registry.finish(id, |row| {
            row.status = Status::Exited;
            row.outcome = Some(Outcome::Cancelled);
            row.how_known = Some(HowKnown::Waited);
            row.exited = Some(now.wall);
            row.cancelled = Some(Cancellation::new(by, reason, now.wall));
            if let Some(how) = row
                .note
                .as_deref()
                .and_then(|n| n.strip_suffix(STARTS_AGAIN))
            {
                row.note = Some(how.to_owned());
            }
        });
        if let Some(row) = self.registry.get(id) {
            super::journal::worker_exited(row);
        }
        self.settle_for_good(id, waiters.unwrap_or_default(), now);
        true
    }

    /// Answers a cancel once what it changed is on disk.
    pub(super) fn answer_saved(
        &mut self,
        id: WorkerId,
        found: CancelReply,
        reply: Reply<CancelReply>,
    ) {
        let saved = self.save(id);
        tokio::spawn(async move {
            let saved = tokio::time::timeout(SAVE_WAIT, saved).await;
            let _ = reply.send(Ok(CancelReply {
                durable: matches!(saved, Ok(Ok(Ok(())))),
                ..found
            }));
        });
    }

    pub(super) fn end_restarting(&mut self, by: u32, reason: &str) {
        let pending: Vec<WorkerId> = self
            .again
            .all
            .iter()
            .filter(|(_, again)| again.due.is_some())
            .map(|(id, _)| *id)
            .collect();
        for id in pending {
            self.cancel_restarting(id, by, reason);
        }
    }

    /// For the hand-over.
    pub(super) fn agains(&self) -> Vec<(WorkerId, Again)> {
        let all = self.again.all.iter();
        all.map(|(id, again)| (*id, again.clone())).collect()
    }

    pub(super) fn resume_again(&mut self, agains: Vec<(WorkerId, Again)>) {
        for (id, again) in agains {
            self.timers.set(Key::Restart(id), again.due);
            self.again.all.insert(id, again);
        }
    }

    /// Those that wait are to ask the next image.
    pub(super) fn refuse_restart_waiters(&mut self) {
        for (_, waiters) in self.again.waiters.drain() {
            for waiter in waiters {
                let _ = waiter.send(Err(Refused::Reloading));
            }
        }
    }
}

/// Ends the note of a row that waits.
const STARTS_AGAIN: &str = "; starts again";

/// Why a row that claims a policy is not started again.
pub(super) const FORGOTTEN: &str =
    "its environment was known to an earlier daemon only and is stored nowhere";

fn asks_to(rules: &Rules, ended: &Row) -> bool {
    let end = End {
        outcome: ended.outcome.unwrap_or(Outcome::Unknown),
        lived: std::time::Duration::ZERO,
        stopped: ended.cancelled.is_some(),
    };
    let verdict = decide(rules, &mut History::default(), end, 0, Mono(0));
    !matches!(verdict, Verdict::Ended)
}

fn last_exit(row: &Row) -> String {
    let outcome = row.outcome.map_or("ended", Outcome::as_str);
    match (row.exit, &row.note) {
        (Some(Exit::Code(code)), _) => format!("{outcome}, exit code {code}"),
        (Some(Exit::Signal(_)), _) if row.oom_killed => format!("{outcome}, out of memory"),
        (Some(Exit::Signal(signal)), _) => format!("{outcome}, signal {signal}"),
        (None, Some(note)) if row.how_known == Some(HowKnown::StartFailed) => note.clone(),
        (None, _) => outcome.to_owned(),
    }
}
