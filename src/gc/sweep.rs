//! One pass over the roll: gather, decide, answer what was asked, decide again. The same code
//! serves the dry run and the real run, for it changes nothing. Specification section 4.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

use super::decide::{decide, needs_restamp};
use super::facts::{Decision, Facts, KeepReason, Live, Tree};
use super::gather::{Gathered, Look, gather};
use super::report::ReportRow;
use super::shared::{Named, Users};
use super::worktree::{Identity, Inode, Probes, TreeState};
use crate::worker::{HowKnown, Owner, ProcessId, Status, Timestamp, WorkerId};

/// Rows looked at in one go on a blocking thread: enough to make the hand-over cheap, few enough
/// that other blocking work gets its turn.
const CHUNK: usize = 512;

/// Errors named one by one; a broken `/proc` must not make a report of 100,000 lines.
const ERRORS_MAX: usize = 100;

/// An owned snapshot of one row, with what the supervisor alone knows of it.
#[derive(Debug, Clone)]
pub struct RowFacts {
    /// Which.
    pub id: WorkerId,
    /// Its generation; a verdict is void once the row has another.
    pub generation: u64,
    /// Its name, for the report.
    pub name: String,
    /// Whom it belongs to.
    pub owner: Owner,
    /// Where it stands.
    pub status: Status,
    /// Kept by hand.
    pub held: bool,
    /// Written by a newer version.
    pub read_only: bool,
    /// A child of ours that has not been reaped, or a control channel that can be reached.
    pub known_live: bool,
    /// When it was seen dead.
    pub exited: Option<Timestamp>,
    /// The leader.
    pub process: Option<ProcessId>,
    /// Recorded descendants (where there are no control groups).
    pub descendants: Vec<ProcessId>,
    /// Its leaf, a path below the cgroup2 mount.
    pub leaf: Option<PathBuf>,
    /// The worktree it owns.
    pub worktree: Option<PathBuf>,
    /// Where the file system of the worktree was mounted when the row was made
    /// ([`Owned::mount`](super::worktree::Owned::mount)), if that was recorded.
    pub worktree_mount: Option<PathBuf>,
    /// Where it runs; a living row protects the tree it runs in, whoever owns it.
    pub cwd: PathBuf,
    /// Any number that grows with each judgement ([`Verdict::judged`]); 0 for never. The least
    /// is probed first.
    pub last_judged: u64,
    /// Is a verdict wanted? A row out of scope only protects trees.
    pub in_scope: bool,
}

/// What a sweep works on.
#[derive(Debug)]
pub struct SweepInput {
    /// The whole roll, also where only some rows are in scope.
    pub rows: Vec<RowFacts>,
    /// Wall clock, read once for the whole sweep.
    pub now: Timestamp,
    /// Whole seconds.
    pub grace_secs: i64,
    /// Probes at a time; at least 1 is run.
    pub parallel: usize,
    /// Probes begin until this much time has passed; 0 lets none begin.
    pub budget: Duration,
}

/// What is to be done with one row.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Which.
    pub id: WorkerId,
    /// The generation that was judged.
    pub generation: u64,
    /// Never `Ask`.
    pub decision: Decision,
    /// The row claims life, is no child of ours and is dead: it becomes `exited`, outcome
    /// `unknown`, known by this.
    pub found_dead: Option<HowKnown>,
    /// `exited_at` lies in the future: set it to now.
    pub restamp: bool,
    /// The row is alive and carries an `exited_at`: clear it.
    pub clear_exited: bool,
    /// Nothing was left out for lack of time.
    pub judged: bool,
    /// Its line of the report.
    pub report: ReportRow,
}

/// What a sweep answers.
#[derive(Debug, Default)]
pub struct SweepOutcome {
    /// One for each row in scope, sorted by id.
    pub verdicts: Vec<Verdict>,
    /// What could not be looked at, each a sentence.
    pub errors: Vec<String>,
    /// How long each probe took.
    pub probe_times: Vec<Duration>,
    /// How long all of it took.
    pub took: Duration,
}

/// Judges every row in scope. Changes nothing.
pub async fn sweep(
    input: SweepInput,
    look: Arc<dyn Look>,
    probes: Arc<dyn Probes>,
) -> SweepOutcome {
    let began = Instant::now();
    let SweepInput {
        rows,
        now,
        grace_secs,
        parallel,
        budget,
    } = input;
    let rows = Arc::new(rows);
    let mut outcome = SweepOutcome::default();
    let (theirs, found) = (Arc::clone(&rows), gather_all(&rows, look).await);
    let asking = spawn_blocking(move || (asking(&theirs, &found, now, grace_secs), found));
    let (asking, mut found) = match asking.await {
        Ok(both) => both,
        Err(error) => {
            outcome.errors.push(format!("the sweep failed: {error}"));
            return outcome;
        }
    };
    let mut skipped = Vec::new();
    if !asking.is_empty() {
        let mut round = Round {
            rows: &rows,
            probes,
            parallel: parallel.max(1),
            began,
            budget,
            outcome: &mut outcome,
        };
        let unused = round.leave_out_used(&mut found, asking).await;
        skipped = round.probe(&mut found, unused).await;
    }
    let judge = move || {
        let mut left_out = vec![false; rows.len()];
        for index in skipped {
            left_out[index] = true;
        }
        let mut verdicts: Vec<Verdict> = (0..rows.len())
            .filter(|i| rows[*i].in_scope)
            .map(|i| verdict(&rows[i], &found[i], now, grace_secs, !left_out[i]))
            .collect();
        verdicts.sort_by_key(|v| v.id);
        verdicts
    };
    match spawn_blocking(judge).await {
        Ok(verdicts) => outcome.verdicts = verdicts,
        Err(error) => outcome.errors.push(format!("the sweep failed: {error}")),
    }
    for v in &outcome.verdicts {
        if let Decision::Keep(reason @ KeepReason::LivenessUnknown(_)) = &v.decision {
            outcome
                .errors
                .push(format!("{}: {}", v.id, reason.sentence()));
        }
    }
    cap(&mut outcome.errors);
    outcome.took = began.elapsed();
    outcome
}

fn cap(errors: &mut Vec<String>) {
    if errors.len() > ERRORS_MAX {
        let more = errors.len() - ERRORS_MAX;
        errors.truncate(ERRORS_MAX);
        errors.push(format!("and {more} more like these"));
    }
}

/// The cheap facts of all rows, a chunk at a time on a blocking thread.
async fn gather_all(rows: &Arc<Vec<RowFacts>>, look: Arc<dyn Look>) -> Vec<Gathered> {
    let mut all = Vec::with_capacity(rows.len());
    for start in (0..rows.len()).step_by(CHUNK) {
        let end = rows.len().min(start + CHUNK);
        let (theirs, look) = (Arc::clone(rows), Arc::clone(&look));
        let chunk = spawn_blocking(move || {
            theirs[start..end]
                .iter()
                .map(|row| gather(row, &*look))
                .collect::<Vec<_>>()
        });
        match chunk.await {
            Ok(chunk) => all.extend(chunk),
            Err(error) => all.extend(
                rows[start..end]
                    .iter()
                    .map(|row| Gathered::failed(row, &error.to_string())),
            ),
        }
    }
    all
}

/// The rows whose decision needs their worktree, least recently judged first.
fn asking(rows: &[RowFacts], found: &[Gathered], now: Timestamp, grace: i64) -> Vec<usize> {
    let mut asking: Vec<usize> = (0..rows.len())
        .filter(|i| rows[*i].in_scope)
        .filter(|i| matches!(decide(&found[*i].facts, now, grace), Decision::Ask(_)))
        .collect();
    asking.sort_by_key(|i| (rows[*i].last_judged, rows[*i].id));
    asking
}

/// May the row still be at work? What cannot be told counts as at work here.
pub(super) fn may_live(facts: &Facts) -> bool {
    facts.live != Live::No || !(facts.status.is_terminal() || facts.pid_confirmed_dead)
}

fn verdict(row: &RowFacts, found: &Gathered, now: Timestamp, grace: i64, judged: bool) -> Verdict {
    let decision = match decide(&found.facts, now, grace) {
        // What was asked has been answered, so this is a slip in here, not a fact of the row.
        Decision::Ask(_) => Decision::Keep(KeepReason::WorktreeUnprobed("not looked at".into())),
        decided => decided,
    };
    let alive = found.facts.live == Live::Yes;
    Verdict {
        id: row.id,
        generation: row.generation,
        found_dead: found.found_dead,
        restamp: !alive && !row.read_only && row.exited.is_some_and(|at| needs_restamp(at, now)),
        clear_exited: alive && !row.read_only && row.exited.is_some(),
        judged,
        report: ReportRow::new(row.id, &row.name, &decision, &found.facts),
        decision,
    }
}

/// The second half of a sweep: what was asked, answered.
struct Round<'a> {
    rows: &'a Arc<Vec<RowFacts>>,
    probes: Arc<dyn Probes>,
    parallel: usize,
    began: Instant,
    budget: Duration,
    outcome: &'a mut SweepOutcome,
}

impl Round<'_> {
    /// Marks the trees that another row works in, by path and then by device and inode, and
    /// answers the rows that are left with the identity of their tree where it is known.
    async fn leave_out_used(
        &mut self,
        found: &mut [Gathered],
        asking: Vec<usize>,
    ) -> Vec<(usize, Option<Identity>)> {
        let users = Users::new(self.rows, found);
        let mut left = Vec::new();
        for index in asking {
            match users.by_path(&self.rows[index]) {
                Some(by) => found[index].facts.tree = Tree::InUse(by),
                None => left.push(index),
            }
        }
        if left.is_empty() || users.is_empty() {
            return left.into_iter().map(|i| (i, None)).collect();
        }
        // A quarter of the budget at most: a sick file system under one living row must not eat
        // the time of everybody's probes.
        let limit = self.budget / 4;
        let mut named = Named::default();
        let wanted = users
            .paths()
            .chain(left.iter().filter_map(|i| tree_of(&self.rows[*i])));
        let wanted = Named::wanted(wanted);
        let probes = Arc::clone(&self.probes);
        let ask = move |_, (owner, path)| {
            let probes = Arc::clone(&probes);
            async move { probes.identify(owner, path).await }
        };
        for ((owner, path), answer) in self.run(wanted, limit, ask).await {
            named.insert(owner, path, answer);
        }
        let users = users.by_identity(&named);
        let mut unused = Vec::new();
        for index in left {
            let tree = tree_of(&self.rows[index]);
            let identity = tree.and_then(|(owner, path)| named.get(owner, &path).cloned());
            match identity.as_ref().and_then(|i| users.user_of(i)) {
                Some(by) => found[index].facts.tree = Tree::InUse(by),
                None => unused.push((index, identity)),
            }
        }
        unused
    }

    /// Probes each tree once, however many rows name it. Answers the rows that were left out
    /// because the budget was spent.
    async fn probe(
        &mut self,
        found: &mut [Gathered],
        rows: Vec<(usize, Option<Identity>)>,
    ) -> Vec<usize> {
        let mut jobs: Vec<(Owner, PathBuf)> = Vec::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        let mut by_tree: HashMap<(u32, TreeKey), usize> = HashMap::new();
        for (index, identity) in rows {
            let Some((owner, path)) = tree_of(&self.rows[index]) else {
                continue;
            };
            let key = match identity.and_then(|i| i.own()) {
                Some(own) => TreeKey::Inode(own),
                None => TreeKey::Path(path.clone()),
            };
            let group = *by_tree.entry((owner.uid, key)).or_insert(jobs.len());
            match members.get_mut(group) {
                Some(members) => members.push(index),
                None => {
                    jobs.push((owner, path));
                    members.push(vec![index]);
                }
            }
        }
        let mounts: Vec<Option<PathBuf>> = members
            .iter()
            .map(|m| m.first().and_then(|i| self.rows[*i].worktree_mount.clone()))
            .collect();
        let probes = Arc::clone(&self.probes);
        let ask = move |place: usize, (owner, path)| {
            let (probes, mount) = (Arc::clone(&probes), mounts[place].clone());
            async move {
                let began = Instant::now();
                let state = probes.probe(owner, path, mount).await;
                (state, began.elapsed())
            }
        };
        let mut skipped = Vec::new();
        let answers = self.run(jobs, self.budget, ask).await;
        for ((key, answer), theirs) in answers.into_iter().zip(&members) {
            let tree = match answer {
                Some((state, took)) => {
                    self.outcome.probe_times.push(took);
                    if let TreeState::Unknown(why) = &state {
                        self.outcome
                            .errors
                            .push(format!("{}: {why}", key.1.display()));
                    }
                    state.into()
                }
                None => {
                    skipped.extend_from_slice(theirs);
                    Tree::Unknown("sweep budget spent".to_owned())
                }
            };
            for index in theirs {
                found[*index].facts.tree = tree.clone();
            }
        }
        skipped
    }

    /// Runs `ask` over the keys in their order, so many at a time; none begins once `limit` has
    /// passed since the sweep began, and those answer `None`.
    async fn run<T, F>(
        &self,
        keys: Vec<(Owner, PathBuf)>,
        limit: Duration,
        ask: impl Fn(usize, (Owner, PathBuf)) -> F,
    ) -> Vec<((Owner, PathBuf), Option<T>)>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let mut answers: Vec<Option<T>> = keys.iter().map(|_| None).collect();
        let mut running = JoinSet::new();
        let mut next = 0;
        loop {
            while next < keys.len() && running.len() < self.parallel && self.began.elapsed() < limit
            {
                let (place, future) = (next, ask(next, keys[next].clone()));
                running.spawn(async move { (place, future.await) });
                next += 1;
            }
            match running.join_next().await {
                Some(Ok((place, answer))) => answers[place] = Some(answer),
                Some(Err(_)) => {}
                None => break,
            }
        }
        keys.into_iter().zip(answers).collect()
    }
}

#[derive(PartialEq, Eq, Hash)]
enum TreeKey {
    Inode(Inode),
    Path(PathBuf),
}

fn tree_of(row: &RowFacts) -> Option<(Owner, PathBuf)> {
    row.worktree.clone().map(|path| (row.owner, path))
}

#[cfg(test)]
mod tests;
