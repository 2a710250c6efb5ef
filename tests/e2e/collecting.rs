//! Which rows go, which stay and why; and that nothing in a worktree is touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::support::git::{Repo, fingerprint, git, try_git};
use crate::support::rowfile::RowFile;
use crate::support::{World, text, wait_for, wait_until};

/// Action and reason of each row of a report, by name.
fn verdicts(report: &Value) -> BTreeMap<String, (String, String)> {
    report["rows"]
        .as_array()
        .unwrap_or_else(|| panic!("{report}"))
        .iter()
        .map(|row| {
            (
                text(&row["name"]),
                (text(&row["action"]), text(&row["reason"])),
            )
        })
        .collect()
}

/// A dead row for each sort of tree.
fn sorts_of_trees(world: &World) -> Vec<PathBuf> {
    let repo = Repo::new(world.path());
    let mut trees = vec![repo.main.clone()];
    let mut row = |name: &str, spoil: &dyn Fn(&Path)| {
        let tree = repo.worktree(name);
        let dir = tree.to_str().unwrap().to_owned();
        world.run_to_end(&["--name", name, "-d", &dir], &["true"]);
        spoil(&tree);
        trees.push(tree);
    };
    row("clean", &|_| ());
    row("dirty", &|tree| {
        fs::write(tree.join("file"), "edited\n").unwrap()
    });
    row("staged", &|tree| {
        fs::write(tree.join("new"), "new\n").unwrap();
        git(tree, &["add", "new"]);
    });
    row("hidden", &|tree| {
        git(tree, &["config", "status.showUntrackedFiles", "no"]);
        fs::write(tree.join("untracked"), "work\n").unwrap();
        assert_eq!(git(tree, &["status", "--porcelain"]), "");
    });
    row("assumed", &|tree| {
        git(tree, &["update-index", "--assume-unchanged", "file"]);
        fs::write(tree.join("file"), "edited in secret\n").unwrap();
    });
    row("skipped", &|tree| {
        git(tree, &["update-index", "--skip-worktree", "file"]);
        fs::write(tree.join("file"), "edited in secret\n").unwrap();
    });
    row("rebase", &|tree| {
        fs::write(tree.join("file"), "theirs\n").unwrap();
        git(tree, &["commit", "-qam", "theirs"]);
        git(tree, &["checkout", "-q", "-b", "mine", "HEAD~1"]);
        fs::write(tree.join("file"), "mine\n").unwrap();
        git(tree, &["commit", "-qam", "mine"]);
        assert!(!try_git(tree, &["rebase", "-q", "rebase"]).status.success());
        // In the middle of it, with nothing else to be seen.
        git(tree, &["reset", "-q", "--hard"]);
        assert_eq!(git(tree, &["status", "--porcelain", "-uall"]), "");
    });
    row("detached", &|tree| {
        git(tree, &["checkout", "-q", "--detach"]);
        git(tree, &["commit", "-q", "--allow-empty", "-m", "only here"]);
    });
    row("ahead", &|tree| {
        git(
            tree,
            &["commit", "-q", "--allow-empty", "-m", "safe on its branch"],
        );
    });
    row("locked", &|tree| {
        git(
            tree,
            &[
                "worktree",
                "lock",
                "--reason",
                "mine",
                tree.to_str().unwrap(),
            ],
        );
    });
    row("broken", &|tree| {
        fs::write(tree.join(".git"), "gitdir: /nowhere\n").unwrap()
    });
    world.run_to_end(&["--name", "plain"], &["true"]);
    trees
}

const EXPECTED: [(&str, &str, &str); 12] = [
    ("ahead", "reap", "past-grace"),
    ("assumed", "keep", "worktree-dirty"),
    ("broken", "keep", "worktree-unprobed"),
    ("clean", "reap", "past-grace"),
    ("detached", "keep", "worktree-dirty"),
    ("dirty", "keep", "worktree-dirty"),
    ("hidden", "keep", "worktree-dirty"),
    ("locked", "keep", "worktree-dirty"),
    ("plain", "reap", "past-grace"),
    ("rebase", "keep", "worktree-dirty"),
    ("skipped", "keep", "worktree-dirty"),
    ("staged", "keep", "worktree-dirty"),
];

#[test]
fn rows_go_past_grace_unless_their_tree_holds_work() {
    let world = World::new();
    let trees = sorts_of_trees(&world);
    let before: Vec<_> = trees.iter().map(|tree| fingerprint(tree)).collect();

    let report = world.json(&["reap"]);
    for (name, verdict) in verdicts(&report) {
        assert_eq!(verdict, ("keep".into(), "within-grace".into()), "{name}");
    }
    assert_eq!(report["counts"]["reap"], 0, "{report}");
    assert_eq!(world.rows().len(), EXPECTED.len());

    let expected: BTreeMap<String, (String, String)> = EXPECTED
        .iter()
        .map(|(name, action, reason)| ((*name).into(), ((*action).into(), (*reason).into())))
        .collect();
    let dry = world.json(&["reap", "--dry-run", "--grace", "0"]);
    assert_eq!(dry["dry_run"], true);
    assert_eq!(verdicts(&dry), expected, "{dry:#}");
    assert_eq!(dry["counts"]["reap"], 3);
    assert_eq!(world.rows().len(), EXPECTED.len());

    let real = world.json(&["reap", "--grace", "0"]);
    assert_eq!(real["dry_run"], false);
    assert_eq!(verdicts(&real), expected, "{real:#}");
    assert_eq!(world.rows().len(), EXPECTED.len() - 3);

    let again = world.json(&["reap", "--grace", "0"]);
    assert_eq!(again["counts"]["reap"], 0, "{again}");

    let after: Vec<_> = trees.iter().map(|tree| fingerprint(tree)).collect();
    for ((tree, before), after) in trees.iter().zip(before).zip(after) {
        assert_eq!(before, after, "{} was touched", tree.display());
    }
    world.end();
}

#[test]
fn a_reap_is_a_rename_and_restore_undoes_it() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new();
    let id = world.run_to_end(&["--name", "gone"], &["true"]);
    // A wait is answered when the end is true; that it is on disk follows.
    wait_until("the end is on disk", || {
        fs::read_to_string(world.row_file(&id))
            .is_ok_and(|text| text.contains("status = \"exited\""))
    });
    let before = (
        fs::read(world.row_file(&id)).unwrap(),
        fs::metadata(world.row_file(&id)).unwrap().ino(),
    );
    let shown = world.show(&id);
    world.ctl(&["reap", "--grace", "0"]).ok();
    assert!(world.rows().is_empty());
    assert!(!world.row_file(&id).exists());
    let reaped = world.state().join("reaped").join(format!("{id}.toml"));
    let after = (
        fs::read(&reaped).unwrap(),
        fs::metadata(&reaped).unwrap().ino(),
    );
    assert_eq!(before, after);

    assert_eq!(world.ctl(&["status", &id]).code, 4);
    world.ctl(&["restore", &id]).ok();
    assert!(!reaped.exists());
    let row = world.show(&id);
    for key in ["name", "argv", "exit", "outcome", "created"] {
        assert_eq!(row[key], shown[key], "{key}");
    }
    // It has its whole grace again, or the next sweep would take it back.
    let report = world.json(&["reap"]);
    assert_eq!(
        verdicts(&report)["gone"],
        ("keep".into(), "within-grace".into())
    );
    // Over a restart too.
    world.ctl(&["reap", "--grace", "0"]).ok();
    world.stop_daemon();
    world.ctl(&["restore", &id]).ok();
    assert_eq!(text(&world.show(&id)["name"]), "gone");
    world.end();
}

#[test]
fn held_rows_stay_and_forget_asks_before_work_is_forgotten() {
    let world = World::new();
    let repo = Repo::new(world.path());
    let tree = repo.worktree("work");
    let dir = tree.to_str().unwrap().to_owned();
    let id = world.run_to_end(&["--name", "work", "-d", &dir], &["true"]);
    world.ctl(&["hold", "work"]).ok();
    let report = world.json(&["reap", "--grace", "0"]);
    assert_eq!(verdicts(&report)["work"], ("keep".into(), "held".into()));
    world.ctl(&["release", "work"]).ok();

    fs::write(tree.join("untracked"), "work\n").unwrap();
    let said = world.ctl(&["forget", &id]);
    assert_ne!(said.code, 0, "{said:?}");
    assert_eq!(world.rows().len(), 1);
    world.ctl(&["forget", "--force", &id]).ok();
    assert!(world.rows().is_empty());
    world.ctl(&["restore", &id]).ok();
    assert_eq!(world.rows().len(), 1);

    let live = world.run(&[], &[&world.helper("alive"), "nap", world.mark()]);
    for verb in [&["forget", &live][..], &["forget", "--force", &live]] {
        assert_ne!(world.ctl(verb).code, 0);
    }
    assert_eq!(world.status_of(&live), "live");
    world.ctl(&["cancel", &live]).ok();
    world.end();
}

#[test]
fn a_tree_is_protected_while_another_row_lives_in_it() {
    let world = World::new();
    let repo = Repo::new(world.path());
    let dir = repo.worktree("shared").to_str().unwrap().to_owned();
    let dead = world.run_to_end(&["--name", "dead", "-d", &dir], &["true"]);
    let live = world.run(
        &["-d", &dir],
        &[&world.helper("alive"), "nap", world.mark()],
    );
    let report = world.json(&["reap", "--grace", "0"]);
    assert_eq!(verdicts(&report)["dead"].0, "keep", "{report}");
    world.ctl(&["cancel", &live]).ok();
    world.ctl(&["reap", "--grace", "0"]).ok();
    assert_eq!(world.ctl(&["status", &dead]).code, 4);
    world.end();
}

#[test]
fn a_dead_row_goes_once_its_configured_grace_is_over() {
    let world = World::with(crate::support::Containment::Auto, "[gc]\ngrace = \"2s\"\n");
    world.run_to_end(&["--name", "short"], &["true"]);
    let report = world.json(&["reap"]);
    assert_eq!(
        verdicts(&report)["short"],
        ("keep".into(), "within-grace".into())
    );
    assert!(report["rows"][0]["seconds_left"].as_i64().unwrap() <= 2);
    wait_for("it goes", || {
        let report = world.json(&["reap"]);
        (report["counts"]["reap"] == 1).then_some(())
    });
    assert!(world.rows().is_empty());
    world.end();
}

#[test]
fn a_gone_tree_is_clean_and_a_tree_gone_with_its_parent_is_unknown() {
    let world = World::new();
    let repo = Repo::new(world.path());
    let nest = world.path().join("nest");
    fs::create_dir(&nest).unwrap();
    let tree = repo.worktree("gone");
    let inner = nest.join("inner");
    git(
        &repo.main,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "inner",
            inner.to_str().unwrap(),
        ],
    );
    world.run_to_end(&["--name", "gone", "-d", tree.to_str().unwrap()], &["true"]);
    world.run_to_end(
        &["--name", "inner", "-d", inner.to_str().unwrap()],
        &["true"],
    );
    fs::remove_dir_all(&tree).unwrap();
    fs::remove_dir_all(&nest).unwrap();
    let report = verdicts(&world.json(&["reap", "--grace", "0"]));
    assert_eq!(report["gone"].0, "reap");
    assert_eq!(report["inner"], ("keep".into(), "worktree-unprobed".into()));
    world.end();
}

#[test]
fn a_commit_loop_beside_200_probes_never_meets_a_lock() {
    let world = World::new();
    let repo = Repo::new(world.path());
    let tree = repo.worktree("busy");
    let dir = tree.to_str().unwrap().to_owned();
    let id = world.run_to_end(&["--name", "busy", "-d", &dir], &["true"]);
    let over = AtomicBool::new(false);
    let mut probed = 0;
    let commits = std::thread::scope(|scope| {
        let commits = scope.spawn(|| {
            let mut commits = 0;
            while !over.load(Ordering::Relaxed) {
                fs::write(tree.join("file"), format!("{commits}\n")).unwrap();
                let out = try_git(&tree, &["commit", "-qam", "one more"]);
                assert!(
                    out.status.success(),
                    "{}",
                    String::from_utf8_lossy(&out.stderr)
                );
                commits += 1;
            }
            commits
        });
        while probed < 200 && !commits.is_finished() {
            let report = world.json(&["reap", "--dry-run", "--grace", "0", &id]);
            let (action, reason) = verdicts(&report)["busy"].clone();
            assert!(
                matches!(
                    (action.as_str(), reason.as_str()),
                    ("reap", _) | ("keep", "worktree-dirty" | "worktree-unprobed")
                ),
                "{report}"
            );
            probed += 1;
        }
        over.store(true, Ordering::Relaxed);
        commits.join().unwrap()
    });
    assert_eq!(probed, 200);
    assert!(commits >= 50, "only {commits} commits");
    let lock = git(&tree, &["rev-parse", "--git-path", "index.lock"]);
    assert!(!tree.join(lock.trim()).exists());
    world.end();
}

#[test]
fn a_row_that_claims_life_is_not_forgotten_before_its_worktree_was_looked_at() {
    let world = World::new();
    let tree = Repo::new(world.path()).worktree("tree");
    let id = world.run_to_end(&["-d", tree.to_str().unwrap()], &["true"]);
    fs::write(tree.join("untracked"), "work\n").unwrap();
    world.stop_daemon();
    // What another daemon of this user adopted, and whose process is gone.
    let mut file = RowFile::read(&world.row_file(&id));
    file.set("status", "live".into());
    file.table.insert("adopted".into(), true.into());
    for key in ["outcome", "how_known", "exited", "exit"] {
        file.table.remove(key);
    }
    file.write();

    let said = world.ctl(&["forget", &id]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("not clean"), "{said:?}");
    assert_eq!(world.status_of(&id), "exited");
    world.ctl(&["forget", "--force", &id]).ok();
    assert!(world.rows().is_empty());
    world.end();
}
