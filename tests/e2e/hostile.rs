//! Repositories that try to run code in whoever looks at them, or to show him another tree. In
//! each the tree holds work that the trick hides, so that being fooled would reap the row.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::git::{Repo, git, try_git};
use crate::support::{World, text};

/// A script that leaves a trace where it ran, then does `more`.
fn trap(dir: &Path, name: &str, more: &str) -> (PathBuf, PathBuf) {
    let (script, trace) = (dir.join(name), dir.join(format!("{name}.ran")));
    let body = format!("#!/bin/sh\necho ran >>'{}'\n{more}\n", trace.display());
    fs::write(&script, body).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    (script, trace)
}

/// Makes a dead row over a tree, spoils it, shows that plain git falls for the trick (`fires`),
/// and then that the probe does not.
fn try_trick(fires: bool, spoil: impl Fn(&Path, &Path, &Path) -> PathBuf) {
    let world = World::new();
    let repo = Repo::new(world.path());
    let tree = repo.worktree("tree");
    let id = world.run_to_end(&["-d", tree.to_str().unwrap()], &["true"]);
    let trace = spoil(world.path(), &repo.main, &tree);
    try_git(&tree, &["status"]);
    assert_eq!(
        trace.exists(),
        fires,
        "the trick does not work even on plain git"
    );
    let _ = fs::remove_file(&trace);

    for args in [
        &["reap", "--dry-run", "--grace", "0"][..],
        &["reap", "--grace", "0"],
    ] {
        let report = world.json(args);
        assert_eq!(text(&report["rows"][0]["action"]), "keep", "{report}");
    }
    assert!(!trace.exists(), "code of the repository ran");
    assert_eq!(world.ctl(&["status", &id]).code, 3);
    world.end();
}

#[test]
fn a_file_monitor_of_the_repository_does_not_run() {
    try_trick(true, |base, main, tree| {
        // Says that nothing has changed.
        let (script, trace) = trap(base, "monitor", "printf 'token\\0'");
        fs::write(tree.join("file"), "edited\n").unwrap();
        git(
            main,
            &["config", "core.fsmonitor", script.to_str().unwrap()],
        );
        trace
    });
}

/// Gives `file` the filter `x`, and other contents of the same length: only then does git have
/// to read it through the filter.
fn filtered(main: &Path, tree: &Path) {
    let info = main.join(".git/info");
    fs::create_dir_all(&info).unwrap();
    fs::write(info.join("attributes"), "file filter=x\n").unwrap();
    fs::write(tree.join("file"), "wrk\n").unwrap();
}

#[test]
fn a_clean_filter_of_the_repository_does_not_run() {
    try_trick(true, |base, main, tree| {
        // Gives back what was committed.
        let (script, trace) = trap(base, "filter", "printf 'one\\n'");
        git(
            main,
            &["config", "filter.x.clean", script.to_str().unwrap()],
        );
        git(main, &["config", "filter.x.required", "true"]);
        filtered(main, tree);
        trace
    });
}

#[test]
fn a_process_filter_of_the_repository_does_not_run() {
    try_trick(true, |base, main, tree| {
        let (script, trace) = trap(base, "process", "exit 1");
        git(
            main,
            &["config", "filter.x.process", script.to_str().unwrap()],
        );
        filtered(main, tree);
        trace
    });
}

#[test]
fn a_hook_of_the_repository_does_not_run() {
    try_trick(true, |base, main, tree| {
        let hooks = base.join("hooks");
        fs::create_dir(&hooks).unwrap();
        let (_, trace) = trap(&hooks, "post-index-change", "");
        git(main, &["config", "core.hooksPath", hooks.to_str().unwrap()]);
        // Same contents, other times: plain git refreshes the index and calls the hook.
        fs::write(tree.join("other"), "two\n").unwrap();
        fs::write(tree.join("untracked"), "work\n").unwrap();
        trace
    });
}

#[test]
fn a_redirected_work_tree_is_not_followed() {
    try_trick(false, |base, main, tree| {
        let elsewhere = base.join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        for name in ["file", "other"] {
            fs::copy(main.join(name), elsewhere.join(name)).unwrap();
        }
        git(main, &["config", "extensions.worktreeConfig", "true"]);
        git(
            tree,
            &[
                "config",
                "--worktree",
                "core.worktree",
                elsewhere.to_str().unwrap(),
            ],
        );
        fs::write(tree.join("untracked"), "work\n").unwrap();
        assert_eq!(git(tree, &["status", "--porcelain"]), "");
        base.join("nothing-to-run")
    });
}

#[test]
fn a_git_file_that_points_to_another_tree_is_not_believed() {
    try_trick(false, |base, main, tree| {
        // The administrative files of another, clean tree.
        let other = base.join("decoy");
        git(
            main,
            &[
                "worktree",
                "add",
                "-q",
                "-b",
                "decoy",
                other.to_str().unwrap(),
            ],
        );
        fs::copy(other.join(".git"), tree.join(".git")).unwrap();
        fs::write(tree.join("untracked"), "work\n").unwrap();
        base.join("nothing-to-run")
    });
}

#[test]
fn commands_in_the_configuration_of_the_repository_do_not_run() {
    try_trick(false, |base, main, tree| {
        let (script, trace) = trap(base, "command", "");
        let script = script.to_str().unwrap();
        for key in [
            "core.pager",
            "core.editor",
            "core.sshCommand",
            "core.askPass",
            "diff.external",
            "gpg.program",
            "interactive.diffFilter",
            "pager.status",
        ] {
            git(main, &["config", key, script]);
        }
        git(main, &["config", "alias.status", &format!("!{script}")]);
        git(main, &["config", "diff.x.textconv", script]);
        git(main, &["config", "core.excludesFile", "/dev/stdin"]);
        fs::write(tree.join("untracked"), "work\n").unwrap();
        trace
    });
}
