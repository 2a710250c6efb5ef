//! Sweeps over a system and trees that say what the test wants.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::report::{Action, Counts, Report, ReportRow};
use super::*;
use crate::gc::Process;
use crate::gc::worktree::Later;
use crate::worker::{BootId, Pid};

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

#[derive(Default)]
struct System {
    alive: Vec<i32>,
    unreadable: Vec<i32>,
    populated: Vec<PathBuf>,
    looks: AtomicUsize,
}

impl Look for System {
    fn process(&self, id: &ProcessId) -> Process {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let pid = id.pid.get();
        if self.unreadable.contains(&pid) {
            Process::Unknown("/proc: permission denied".into())
        } else if self.alive.contains(&pid) {
            Process::Alive
        } else {
            Process::Gone(HowKnown::PidGone)
        }
    }

    fn leaf_populated(&self, leaf: &Path) -> Result<Option<bool>, String> {
        Ok(Some(self.populated.iter().any(|p| p == leaf)))
    }
}

#[derive(Default)]
struct Trees {
    states: HashMap<PathBuf, TreeState>,
    inodes: HashMap<PathBuf, Vec<Inode>>,
    asked: Mutex<Vec<PathBuf>>,
    running: AtomicUsize,
    most: AtomicUsize,
    takes: Duration,
}

impl Probes for Arc<Trees> {
    fn probe(&self, _: Owner, path: PathBuf, _: Option<PathBuf>) -> Later<TreeState> {
        let trees = Arc::clone(self);
        Box::pin(async move {
            let running = trees.running.fetch_add(1, Ordering::SeqCst) + 1;
            trees.most.fetch_max(running, Ordering::SeqCst);
            tokio::time::sleep(trees.takes).await;
            trees.running.fetch_sub(1, Ordering::SeqCst);
            let state = trees.states.get(&path).cloned().unwrap_or(TreeState::Clean);
            trees.asked.lock().unwrap().push(path);
            state
        })
    }

    fn identify(&self, _: Owner, path: PathBuf) -> Later<Option<Identity>> {
        let found = self.inodes.get(&path).cloned().map(Identity);
        Box::pin(async move { found })
    }
}

/// A row long dead.
fn row(number: u64) -> RowFacts {
    RowFacts {
        id: WorkerId::from_bits(number),
        generation: number,
        name: format!("row-{number}"),
        owner: Owner { uid: 1, gid: 1 },
        status: Status::Exited,
        held: false,
        read_only: false,
        known_live: false,
        exited: Some(NOW.plus(-1_000_000_000_000)),
        process: None,
        descendants: Vec::new(),
        leaf: None,
        worktree: None,
        worktree_mount: None,
        cwd: "/elsewhere".into(),
        last_judged: 0,
        in_scope: true,
    }
}

fn tree(number: u64, path: &str) -> RowFacts {
    RowFacts {
        worktree: Some(path.into()),
        ..row(number)
    }
}

fn process(pid: i32) -> Option<ProcessId> {
    let boot_id: BootId = "0b6bd4c2-5b4c-4f2e-9d3f-1c1f6a1c2f3a".parse().unwrap();
    Some(ProcessId {
        pid: Pid::new(i64::from(pid)).unwrap(),
        start_ticks: 1,
        boot_id,
    })
}

fn input(rows: Vec<RowFacts>) -> SweepInput {
    SweepInput {
        rows,
        now: NOW,
        grace_secs: 3600,
        parallel: 2,
        budget: Duration::from_secs(300),
    }
}

fn run(input: SweepInput, system: System, trees: &Arc<Trees>) -> SweepOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(sweep(input, Arc::new(system), Arc::new(Arc::clone(trees))))
}

fn reasons(outcome: &SweepOutcome) -> Vec<&str> {
    outcome.verdicts.iter().map(|v| &*v.report.reason).collect()
}

#[test]
fn only_rows_whose_decision_needs_it_are_probed_and_each_tree_once() {
    let young = RowFacts {
        exited: Some(NOW),
        ..tree(1, "/w/young")
    };
    let held = RowFacts {
        held: true,
        ..tree(2, "/w/held")
    };
    let out_of_scope = RowFacts {
        in_scope: false,
        ..tree(3, "/w/other")
    };
    let rows = vec![
        young,
        held,
        out_of_scope,
        row(4),
        tree(5, "/w/a"),
        tree(6, "/w/a"),
        tree(7, "/w/b"),
    ];
    let trees = Arc::new(Trees {
        states: HashMap::from([("/w/b".into(), TreeState::Dirty("1 untracked".into()))]),
        ..Trees::default()
    });
    let outcome = run(input(rows), System::default(), &trees);
    assert_eq!(
        reasons(&outcome),
        [
            "within-grace",
            "held",
            "past-grace",
            "past-grace",
            "past-grace",
            "worktree-dirty"
        ]
    );
    assert_eq!(outcome.probe_times.len(), 2);
    let mut asked = trees.asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(asked, [PathBuf::from("/w/a"), "/w/b".into()]);
}

fn counts(rows: &[ReportRow]) -> BTreeMap<String, u64> {
    let mut counts = Counts::default();
    rows.iter().for_each(|row| counts.add(row));
    counts.named()
}

#[test]
fn one_unsafe_row_keeps_nobody_else() {
    let rows = (0..10).map(|n| tree(n, &format!("/w/{n}"))).collect();
    let trees = Arc::new(Trees {
        states: HashMap::from([
            ("/w/4".into(), TreeState::Dirty("1 staged".into())),
            ("/w/7".into(), TreeState::Unknown("timed out".into())),
        ]),
        ..Trees::default()
    });
    let outcome = run(input(rows), System::default(), &trees);
    let rows: Vec<_> = outcome.verdicts.into_iter().map(|v| v.report).collect();
    let report = Report::page(&rows, counts(&rows), 0, None);
    assert_eq!(report.counts["reap"], 8);
    assert_eq!(report.counts["stamp"], 0);
    assert_eq!(report.counts["keep:worktree-dirty"], 1);
    assert_eq!(report.counts["keep:worktree-unprobed"], 1);
    assert_eq!(outcome.errors, ["/w/7: timed out"]);
}

#[test]
fn life_is_seen_in_the_process_the_leaf_and_the_descendants() {
    let by_process = RowFacts {
        process: process(10),
        ..row(1)
    };
    let by_leaf = RowFacts {
        process: process(11),
        leaf: Some("m/leaf".into()),
        status: Status::Stopping,
        ..row(2)
    };
    let by_descendant = RowFacts {
        process: process(12),
        descendants: vec![process(13).unwrap(), process(10).unwrap()],
        ..row(3)
    };
    let ours = RowFacts {
        known_live: true,
        ..row(4)
    };
    let system = System {
        alive: vec![10],
        populated: vec!["m/leaf".into()],
        ..System::default()
    };
    let rows = vec![by_process, by_leaf, by_descendant, ours];
    let outcome = run(input(rows), system, &Arc::default());
    assert_eq!(reasons(&outcome), ["live"; 4]);
    assert!(
        outcome
            .verdicts
            .iter()
            .all(|v| v.clear_exited && v.found_dead.is_none())
    );
}

#[test]
fn a_row_that_claims_life_and_is_dead_is_found_and_stamped() {
    let lost = RowFacts {
        status: Status::Live,
        process: process(20),
        exited: None,
        ..row(1)
    };
    let coming_up = RowFacts {
        status: Status::Spawning,
        exited: None,
        ..row(2)
    };
    let outcome = run(
        input(vec![lost, coming_up]),
        System::default(),
        &Arc::default(),
    );
    assert_eq!(reasons(&outcome), ["first-seen-dead", "not-terminal"]);
    assert_eq!(outcome.verdicts[0].found_dead, Some(HowKnown::PidGone));
    assert_eq!(outcome.verdicts[1].found_dead, None);
    assert_eq!(outcome.verdicts[0].report.action, Action::Stamp);
}

#[test]
fn what_cannot_be_read_is_an_error_and_calls_nobody_dead() {
    let rows = (0..300)
        .map(|n| RowFacts {
            process: process(30),
            ..row(n)
        })
        .collect();
    let system = System {
        unreadable: vec![30],
        ..System::default()
    };
    let outcome = run(input(rows), system, &Arc::default());
    assert!(reasons(&outcome).iter().all(|r| *r == "liveness-unknown"));
    assert_eq!(outcome.errors.len(), ERRORS_MAX + 1);
    assert!(outcome.errors[0].contains("permission denied"));
}

#[test]
fn a_tree_that_a_living_row_uses_is_protected_under_every_name() {
    let alive = |number, worktree: Option<&str>, cwd: &str| RowFacts {
        known_live: true,
        status: Status::Live,
        exited: None,
        worktree: worktree.map(PathBuf::from),
        cwd: cwd.into(),
        ..row(number)
    };
    let rows = vec![
        tree(1, "/w/same"),
        tree(2, "/w/outer"),
        tree(3, "/w/inner/x"),
        tree(4, "/w/cwd"),
        tree(5, "/link"),
        tree(6, "/w/free"),
        tree(7, "/w/samename-not"),
        alive(11, Some("/w/same"), "/"),
        alive(12, Some("/w/outer/in"), "/"),
        alive(13, Some("/w/inner"), "/"),
        alive(14, None, "/w/cwd/deep/down"),
        alive(15, None, "/real/sub"),
        alive(16, None, "/w"),
    ];
    let trees = Arc::new(Trees {
        inodes: HashMap::from([
            ("/link".into(), vec![(1, 50), (1, 2)]),
            ("/real/sub".into(), vec![(1, 51), (1, 50), (1, 2)]),
            ("/w".into(), vec![(1, 60), (1, 2)]),
            ("/w/free".into(), vec![(1, 61), (1, 60), (1, 2)]),
            ("/".into(), vec![(1, 2)]),
        ]),
        ..Trees::default()
    });
    let outcome = run(input(rows), System::default(), &trees);
    let words = reasons(&outcome);
    assert_eq!(&words[..5], ["worktree-in-use"; 5]);
    assert_eq!(&words[5..7], ["past-grace"; 2]);
}

#[test]
fn a_row_coming_up_protects_its_tree_too() {
    let coming = RowFacts {
        status: Status::Restarting,
        exited: None,
        ..tree(2, "/w/a")
    };
    let outcome = run(
        input(vec![tree(1, "/w/a"), coming]),
        System::default(),
        &Arc::default(),
    );
    assert_eq!(reasons(&outcome), ["worktree-in-use", "not-terminal"]);
}

#[test]
fn the_least_recently_judged_come_first_and_the_rest_waits_for_the_next_sweep() {
    let rows = (0..20_u64)
        .map(|n| RowFacts {
            last_judged: 100 - n,
            ..tree(n, &format!("/w/{n:02}"))
        })
        .collect();
    let trees = Arc::new(Trees {
        takes: Duration::from_millis(50),
        ..Trees::default()
    });
    let outcome = run(
        SweepInput {
            budget: Duration::from_millis(120),
            ..input(rows)
        },
        System::default(),
        &trees,
    );
    let asked = trees.asked.lock().unwrap().clone();
    assert!(!asked.is_empty() && asked.len() < 20, "{asked:?}");
    assert!(asked.contains(&"/w/19".into()) && !asked.contains(&"/w/00".into()));
    assert!(trees.most.load(Ordering::SeqCst) <= 2);
    let waiting: Vec<_> = outcome.verdicts.iter().filter(|v| !v.judged).collect();
    assert_eq!(waiting.len(), 20 - asked.len());
    assert!(
        waiting
            .iter()
            .all(|v| v.report.detail.contains("sweep budget spent"))
    );
}

#[test]
fn a_death_in_the_future_is_to_be_stamped_anew() {
    let future = RowFacts {
        exited: Some(NOW.plus(1)),
        ..row(1)
    };
    let outcome = run(input(vec![future]), System::default(), &Arc::default());
    assert!(outcome.verdicts[0].restamp);
    assert_eq!(reasons(&outcome), ["within-grace"]);
}

#[test]
fn a_report_is_paged_and_counts_all() {
    let outcome = run(
        input((0..10).map(row).collect()),
        System::default(),
        &Arc::default(),
    );
    let rows: Vec<_> = outcome.verdicts.into_iter().map(|v| v.report).collect();
    let after = Some(rows[2].id);
    let report = Report::page(&rows, counts(&rows), 4, after);
    assert_eq!((report.rows.len(), report.more), (4, true));
    assert_eq!(report.rows[0].id, rows[3].id);
    assert_eq!(report.counts["reap"], 10);
    let last = Report::page(&rows, counts(&rows), 4, Some(rows[5].id));
    assert_eq!((last.rows.len(), last.more), (4, false));
    assert_eq!(rows[0].clone().changed().reason, "changed");
}

#[test]
fn a_hundred_thousand_rows_are_looked_at_once_each() {
    let rows = (0..100_000)
        .map(|n| RowFacts {
            process: process(40),
            ..row(n)
        })
        .collect();
    let outcome = run(input(rows), System::default(), &Arc::default());
    assert_eq!(outcome.verdicts.len(), 100_000);
    assert!(
        outcome
            .verdicts
            .iter()
            .all(|v| v.decision == Decision::Reap)
    );
}
