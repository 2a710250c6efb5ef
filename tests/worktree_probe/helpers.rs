//! The helper processes: their number, their end, and which worktree a row owns.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use musterd::gc::worktree::{Owned, Probes, TreeState, owned_worktree};
use musterd::worker::{Owner, WorktreeChoice};

use crate::bench::{Bench, Launcher, ME, block_on, prober};
use crate::common::program;

#[track_caller]
pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn limit() -> Duration {
    Duration::from_secs(30)
}

#[test]
fn a_helper_that_breaks_its_word_is_replaced() {
    let bench = Bench::new();
    let w = bench.linked("w");
    for (body, why) in [
        ("exit 1", "went away"),
        ("head -c 1 >/dev/null", "without a whole answer"),
        ("echo nonsense; cat >/dev/null", "makes no sense"),
        (
            "head -c 1 >/dev/null; printf '{\"state\":\"clean\"}'",
            "without a whole answer",
        ),
        (
            "echo '{\"state\":\"none\"}'; cat >/dev/null",
            "another question",
        ),
        ("yes | tr -d '\\n'", "talks without end"),
    ] {
        let launcher = Launcher {
            program: Some(bench.script("helper", body)),
            ..Launcher::default()
        };
        let killed = launcher.killed.clone();
        block_on(async {
            let (prober, launcher) = prober(launcher, limit(), false);
            for round in 1..=2 {
                match prober.probe(ME, w.clone(), None).await {
                    // A helper that ended before it was asked shows itself by either.
                    TreeState::Unknown(what) if what.contains(why) || body == "exit 1" => {}
                    other => panic!("{body}: {other:?}"),
                }
                if why == "another question" {
                    break;
                }
                assert_eq!(launcher.started.load(Ordering::SeqCst), round, "{body}");
                assert_eq!(launcher.killed.load(Ordering::SeqCst), round, "{body}");
            }
        });
        assert!(killed.load(Ordering::SeqCst) > 0);
    }
}

#[test]
fn a_helper_that_ended_while_it_had_nothing_to_do_is_no_answer() {
    let bench = Bench::new();
    let w = bench.linked("w");
    // One request is three texts.
    let body = format!("head -z -n 3 | {} probe", program("musterd").display());
    let launcher = Launcher {
        program: Some(bench.script("helper", &body)),
        ..Launcher::default()
    };
    block_on(async {
        let (prober, launcher) = prober(launcher, limit(), false);
        for round in 1..=3 {
            assert_eq!(prober.probe(ME, w.clone(), None).await, TreeState::Clean);
            assert_eq!(launcher.started.load(Ordering::SeqCst), round);
        }
    });
}

#[test]
fn a_helper_that_hangs_is_killed_and_the_next_one_answers() {
    let bench = Bench::new();
    let w = bench.linked("w");
    let musterd = program("musterd");
    let flag = bench.path("hung");
    let body = format!(
        "if [ ! -e {0} ]; then : >{0}; exec sleep 1000; fi; exec {1} probe",
        flag.display(),
        musterd.display()
    );
    let launcher = Launcher {
        program: Some(bench.script("helper", &body)),
        ..Launcher::default()
    };
    block_on(async {
        let (prober, launcher) = prober(launcher, Duration::from_secs(3), false);
        let first = prober.probe(ME, w.clone(), None).await;
        assert_eq!(first, TreeState::Unknown("timed out after 3 s".into()));
        assert_eq!(launcher.killed.load(Ordering::SeqCst), 1);
        assert_eq!(prober.probe(ME, w.clone(), None).await, TreeState::Clean);
    });
}

#[test]
fn helpers_are_kept_for_their_owner_and_ended_with_the_prober() {
    let bench = Bench::new();
    let w = bench.linked("w");
    let launcher = Launcher::default();
    let killed = launcher.killed.clone();
    block_on(async {
        let (prober, launcher) = prober(launcher, limit(), false);
        let started = || launcher.started.load(Ordering::SeqCst);
        for uid in [0, 0, 1, 1, 2, 2] {
            let owner = Owner { uid, gid: uid };
            assert_eq!(prober.probe(owner, w.clone(), None).await, TreeState::Clean);
        }
        assert_eq!(started(), 3);
        assert_eq!(killed.load(Ordering::SeqCst), 1, "two are kept");
        let three = [ME; 3].map(|owner| Probes::probe(&prober, owner, w.clone(), None));
        let mut running = tokio::task::JoinSet::new();
        running.extend_spawn(three);
        while let Some(state) = running.join_next().await {
            assert_eq!(state.unwrap(), TreeState::Clean);
        }
        drop(prober);
        assert_eq!(killed.load(Ordering::SeqCst), started());
    });
}

trait ExtendSpawn<T> {
    fn extend_spawn(
        &mut self,
        futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
    );
}

impl<T: Send + 'static> ExtendSpawn<T> for tokio::task::JoinSet<T> {
    fn extend_spawn(
        &mut self,
        futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
    ) {
        for future in futures {
            self.spawn(future);
        }
    }
}

#[test]
fn a_tree_whose_file_system_is_not_mounted_is_unknown() {
    let bench = Bench::new();
    let gone = bench.path("gone");
    let empty = bench.path("empty");
    std::fs::create_dir(&empty).unwrap();
    block_on(async {
        let (prober, _) = prober(Launcher::default(), limit(), false);
        let owned = prober
            .owned_worktree(ME, &WorktreeChoice::Path(empty.clone()), Path::new("/"))
            .await
            .unwrap()
            .unwrap();
        for path in [gone, empty] {
            let here = prober
                .probe(ME, path.clone(), Some(owned.mount.clone()))
                .await;
            assert_eq!(here, TreeState::Clean);
            let away = prober.probe(ME, path, Some(bench.path("mnt"))).await;
            assert!(
                matches!(&away, TreeState::Unknown(w) if w.contains("not mounted")),
                "{away:?}"
            );
        }
    });
}

#[test]
fn a_row_owns_the_linked_worktree_it_runs_in_and_no_other() {
    let bench = Bench::new();
    let w = bench.linked("w");
    let main = bench.path("main");
    bench.git(&w, &["submodule", "add", "-q", "../main", "sub"]);
    std::fs::create_dir_all(bench.path("plain")).unwrap();
    std::fs::create_dir_all(w.join("clone")).unwrap();
    bench.git(&w.join("clone"), &["init", "-q"]);
    std::os::unix::fs::symlink(&w, bench.path("link")).unwrap();
    let real = std::fs::canonicalize(&w).unwrap();
    let auto = WorktreeChoice::Auto;
    let cases = [
        (&auto, w.clone(), Some(&real)),
        (&auto, w.join("dir"), Some(&real)),
        (&auto, bench.path("link/dir"), Some(&real)),
        (&auto, w.join("sub/dir"), Some(&real)),
        (&auto, w.join("clone"), None),
        (&auto, main.clone(), None),
        (&auto, main.join("dir"), None),
        (&auto, bench.path("plain"), None),
        (&WorktreeChoice::None, w.clone(), None),
        (
            &WorktreeChoice::Path(bench.path("link")),
            main.clone(),
            Some(&real),
        ),
    ];
    block_on(async {
        let (prober, _) = prober(Launcher::default(), limit(), false);
        for (choice, cwd, expected) in cases {
            let direct = owned_worktree(choice, &cwd).unwrap();
            let path = direct.as_ref().map(|owned: &Owned| &owned.path);
            assert_eq!(path, expected, "{choice:?} {cwd:?}");
            assert_eq!(
                prober.owned_worktree(ME, choice, &cwd).await.unwrap(),
                direct
            );
        }
        let gone = prober.owned_worktree(ME, &auto, &bench.path("gone")).await;
        assert_eq!(gone, Ok(None), "the worker's chdir tells of that");
    });
}

#[test]
fn a_directory_is_known_under_all_its_names() {
    let bench = Bench::new();
    let w = bench.linked("w");
    std::os::unix::fs::symlink(&w, bench.path("link")).unwrap();
    block_on(async {
        let (prober, _) = prober(Launcher::default(), limit(), false);
        let named = prober.identify(ME, w.join("dir")).await.unwrap();
        let linked = prober.identify(ME, bench.path("link")).await.unwrap();
        assert_eq!(named.0[1], linked.own().unwrap());
        assert_eq!(prober.identify(ME, bench.path("gone")).await, None);
    });
}
