//! What is clean, what is not, and what cannot be told.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use musterd::gc::worktree::TreeState;

use crate::bench::{Bench, probe, probe_with};

#[track_caller]
fn is_clean(path: impl Into<PathBuf>) {
    let path = path.into();
    assert_eq!(probe(&path), TreeState::Clean, "{path:?}");
}

#[track_caller]
fn is_dirty(path: impl Into<PathBuf>, why: &str) {
    match probe(&path.into()) {
        TreeState::Dirty(what) if what.contains(why) => {}
        other => panic!("{other:?} is not dirty for {why:?}"),
    }
}

#[track_caller]
fn is_unknown(path: impl Into<PathBuf>, why: &str) {
    match probe(&path.into()) {
        TreeState::Unknown(what) if what.contains(why) => {}
        other => panic!("{other:?} is not unknown for {why:?}"),
    }
}

#[test]
fn fresh_checkouts_are_clean() {
    let bench = Bench::new();
    is_clean(bench.path("main"));
    is_clean(bench.linked("w"));
}

#[test]
fn every_kind_of_change_is_seen() {
    let bench = Bench::new();
    let w = bench.linked("w");
    bench.write("w/a", "changed\n");
    is_dirty(&w, "1 unstaged");
    bench.git(&w, &["add", "a"]);
    is_dirty(&w, "1 staged");
    bench.git(&w, &["commit", "-qm", "second"]);
    is_clean(&w);
    bench.write("w/new/file", "");
    is_dirty(&w, "1 untracked");
    std::fs::remove_file(bench.path("w/a")).unwrap();
    is_dirty(&w, "1 unstaged, 1 untracked");
}

#[test]
fn commits_on_a_branch_are_safe_in_it() {
    let bench = Bench::new();
    let w = bench.linked("w");
    for n in 0..5 {
        bench.write("w/a", &format!("{n}\n"));
        bench.git(&w, &["commit", "-qam", "more"]);
    }
    is_clean(&w);
}

#[test]
fn no_setting_of_the_repository_hides_a_change() {
    let bench = Bench::new();
    let w = bench.linked("w");
    let all = bench.path("all");
    std::fs::write(&all, "*\n").unwrap();
    for (key, value) in [
        ("status.showUntrackedFiles", "no"),
        ("core.excludesFile", all.to_str().unwrap()),
        ("core.untrackedCache", "true"),
    ] {
        bench.git(&w, &["config", key, value]);
        bench.write("w/new", "");
        is_dirty(&w, "1 untracked");
        std::fs::remove_file(bench.path("w/new")).unwrap();
    }
    is_clean(&w);
    bench.git(&w, &["config", "core.fileMode", "false"]);
    let file = bench.path("w/a");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    is_dirty(&w, "1 unstaged");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    is_clean(&w);
    bench.git(&w, &["config", "core.ignoreCase", "true"]);
    bench.write("w/A", "another file\n");
    is_dirty(&w, "1 untracked");
}

#[test]
fn assume_unchanged_and_skip_worktree_are_no_excuse() {
    let bench = Bench::new();
    for (name, flag) in [("w1", "--assume-unchanged"), ("w2", "--skip-worktree")] {
        let w = bench.linked(name);
        bench.git(&w, &["update-index", flag, "a"]);
        is_clean(&w);
        bench.write(&format!("{name}/a"), "uno\n");
        is_dirty(&w, "1 unstaged");
        // The index of the tree itself still has its flag.
        let before = std::fs::read(bench.path(&format!("main/.git/worktrees/{name}/index")));
        assert!(before.unwrap().windows(2).any(|w| w[0] & 0xc0 != 0));
    }
}

#[test]
fn both_flags_and_a_split_index_are_seen_through() {
    let bench = Bench::new();
    let w = bench.linked("w");
    bench.git(&w, &["update-index", "--split-index"]);
    is_clean(&w);
    bench.git(&w, &["update-index", "--assume-unchanged", "a"]);
    bench.git(&w, &["update-index", "--skip-worktree", "a"]);
    is_clean(&w);
    bench.write("w/a", "uno\n");
    is_dirty(&w, "1 unstaged");
}

#[test]
fn a_sparse_checkout_is_clean_until_a_file_it_left_out_differs() {
    let bench = Bench::new();
    let w = bench.linked("w");
    bench.git(&w, &["sparse-checkout", "set", "--no-cone", "/a"]);
    assert!(!bench.path("w/dir/b").exists());
    is_clean(&w);
    bench.write("w/dir/b", "other\n");
    is_dirty(&w, "1 unstaged");
    let x = bench.linked("x");
    bench.git(
        &x,
        &["sparse-checkout", "set", "--cone", "--sparse-index", "none"],
    );
    is_clean(&x);
    bench.write("x/dir/b", "other\n");
    is_dirty(&x, "1 unstaged");
}

#[test]
fn something_half_done_is_dirty_also_when_the_files_look_clean() {
    let bench = Bench::new();
    let main = bench.path("main");
    bench.git(&main, &["checkout", "-qb", "side"]);
    bench.write("main/a", "side\n");
    bench.git(&main, &["commit", "-qam", "side"]);
    bench.git(&main, &["checkout", "-q", "trunk"]);
    bench.git(
        &main,
        &["format-patch", "-q", "-o", "../patch", "trunk..side"],
    );
    for (name, args) in [
        ("merge", vec!["merge", "side"]),
        ("rebase", vec!["rebase", "side"]),
        ("cherry-pick", vec!["cherry-pick", "side"]),
        ("revert", vec!["revert", "trunk"]),
        ("am", vec!["am", "../patch/0001-side.patch"]),
    ] {
        let w = bench.linked(name);
        bench.write(&format!("{name}/a"), "mine\n");
        bench.git(&w, &["commit", "-qam", "mine"]);
        assert!(!bench.try_git(&w, &args), "{name} meets a conflict");
        is_dirty(&w, "in progress");
        // The conflict settled in favour of what was there.
        bench.try_git(&w, &["checkout", "HEAD", "--", "a"]);
        is_dirty(&w, "in progress");
    }
    let w = bench.linked("bisect");
    bench.git(&w, &["bisect", "start"]);
    is_dirty(&w, "a bisect is in progress");
}

#[test]
fn a_conflict_without_a_marker_is_seen() {
    let bench = Bench::new();
    let w = bench.linked("w");
    bench.write("w/a", "mine\n");
    bench.git(&w, &["stash", "-q"]);
    bench.write("w/a", "theirs\n");
    bench.git(&w, &["commit", "-qam", "theirs"]);
    assert!(!bench.try_git(&w, &["stash", "pop"]));
    is_dirty(&w, "1 conflicted");
}

#[test]
fn a_locked_worktree_is_kept_with_the_reason() {
    let bench = Bench::new();
    let w = bench.linked("w");
    bench.git(&bench.path("main"), &["worktree", "lock", "../w"]);
    is_dirty(&w, "locked by git worktree lock: no reason given");
    bench.git(&bench.path("main"), &["worktree", "unlock", "../w"]);
    is_clean(&w);
    bench.git(
        &bench.path("main"),
        &["worktree", "lock", "--reason", "agent 4711", "../w"],
    );
    is_dirty(&w, "locked by git worktree lock: agent 4711");
}

#[test]
fn a_commit_that_no_ref_reaches_keeps_the_tree() {
    let bench = Bench::new();
    let w = bench.linked("w");
    bench.git(&w, &["checkout", "-q", "--detach"]);
    is_clean(&w);
    bench.git(&w, &["commit", "-q", "--allow-empty", "-m", "lost"]);
    is_dirty(&w, "which no ref reaches");
    bench.git(&w, &["update-ref", "refs/worktree/mine", "HEAD"]);
    is_dirty(&w, "which no ref reaches");
    bench.git(&w, &["tag", "kept"]);
    is_clean(&w);
}

#[test]
fn a_repository_without_a_commit_is_clean_while_it_is_empty() {
    let bench = Bench::new();
    let w = bench.path("unborn");
    std::fs::create_dir(&w).unwrap();
    bench.git(&w, &["init", "-q"]);
    is_clean(&w);
    bench.write("unborn/x", "");
    is_dirty(&w, "1 untracked");
}

#[test]
fn other_formats_of_a_repository_are_read() {
    for init in ["--object-format=sha256", "--ref-format=reftable"] {
        let probe = tempfile::tempdir().unwrap();
        let bench = Bench::new();
        if !bench.try_git(probe.path(), &["init", "-q", init]) {
            eprintln!("not run, because this git has no {init}");
            continue;
        }
        let bench = Bench::with(&[init]);
        let w = bench.linked("w");
        is_clean(&w);
        bench.git(&w, &["checkout", "-q", "--detach"]);
        bench.git(&w, &["commit", "-q", "--allow-empty", "-m", "lost"]);
        is_dirty(&w, "which no ref reaches");
        bench.git(&w, &["update-index", "--assume-unchanged", "a"]);
        bench.git(&w, &["branch", "kept"]);
        is_clean(&w);
        bench.write("w/a", "uno\n");
        is_dirty(&w, "1 unstaged");
    }
}

#[test]
fn a_cherry_pick_in_a_reftable_is_seen() {
    let bench = Bench::new();
    let dir = tempfile::tempdir().unwrap();
    if !bench.try_git(dir.path(), &["init", "-q", "--ref-format=reftable"]) {
        let _ = writeln!(
            std::io::stderr(),
            "reftable: not run, because this git does not have it"
        );
        return;
    }
    let bench = Bench::with(&["--ref-format=reftable"]);
    let w = bench.linked("w");
    bench.git(&w, &["update-ref", "CHERRY_PICK_HEAD", "HEAD"]);
    is_dirty(&w, "a cherry-pick is in progress");
}

#[test]
fn submodules_are_looked_into_whatever_the_configuration_says() {
    let bench = Bench::new();
    let outer = bench.path("outer");
    std::fs::create_dir(&outer).unwrap();
    bench.git(&outer, &["init", "-q"]);
    bench.git(&outer, &["submodule", "add", "-q", "../main", "sub"]);
    bench.git(
        &outer,
        &["config", "-f", ".gitmodules", "submodule.sub.ignore", "all"],
    );
    bench.git(&outer, &["config", "diff.ignoreSubmodules", "all"]);
    bench.git(&outer, &["add", "."]);
    bench.git(&outer, &["commit", "-qm", "sub"]);
    is_clean(&outer);
    bench.write("outer/sub/new", "");
    is_dirty(&outer, "submodule sub: 1 untracked");
    std::fs::remove_file(bench.path("outer/sub/new")).unwrap();
    bench.git(
        &bench.path("outer/sub"),
        &["update-index", "--assume-unchanged", "a"],
    );
    bench.write("outer/sub/a", "uno\n");
    is_dirty(&outer, "submodule sub: 1 unstaged");
    bench.git(
        &bench.path("outer/sub"),
        &["update-index", "--no-assume-unchanged", "a"],
    );
    bench.git(&bench.path("outer/sub"), &["checkout", "-q", "a"]);
    is_clean(&outer);
    bench.git(&bench.path("outer/sub"), &["bisect", "start"]);
    is_dirty(&outer, "submodule sub: a bisect");
    bench.git(&bench.path("outer/sub"), &["bisect", "reset"]);
    bench.git(
        &bench.path("outer/sub"),
        &["commit", "-q", "--allow-empty", "-m", "x"],
    );
    is_dirty(&outer, "1 unstaged");
    bench.git(&outer, &["submodule", "deinit", "-f", "sub"]);
    is_clean(&outer);
    bench.write("outer/sub/stray", "");
    is_dirty(&outer, "submodule sub: not a git worktree; 1 entries");
}

#[test]
fn a_nested_repository_counts_also_when_it_is_empty() {
    let bench = Bench::new();
    let w = bench.linked("w");
    std::fs::create_dir(bench.path("w/nested")).unwrap();
    bench.git(&bench.path("w/nested"), &["init", "-q"]);
    is_dirty(&w, "1 untracked");
}

#[test]
fn ignored_files_count_only_if_asked_for() {
    let bench = Bench::new();
    bench.write("main/.gitignore", "*.log\n");
    bench.git(&bench.path("main"), &["add", "."]);
    bench.git(&bench.path("main"), &["commit", "-qm", "ignore"]);
    let w = bench.linked("w");
    bench.write("w/x.log", "");
    is_clean(&w);
    assert_eq!(
        probe_with(&w, None, true),
        TreeState::Dirty("1 ignored".into())
    );
}

#[test]
fn any_bytes_in_a_path_are_taken_as_they_are() {
    let bench = Bench::new();
    for name in [
        &b"new\nline"[..],
        b"quo\"te'",
        b"\xff\xfe",
        b"-lead",
        b"trail ",
        b"back\\slash",
        b"cr\r",
    ] {
        let w = bench.linked(OsString::from_vec(name.to_vec()));
        is_clean(&w);
        std::fs::write(w.join(OsString::from_vec(b"\xff \n1 x".to_vec())), "").unwrap();
        is_dirty(&w, "1 untracked");
    }
}

#[test]
fn a_link_is_not_followed() {
    let bench = Bench::new();
    let w = bench.linked("w");
    symlink(&w, bench.path("link")).unwrap();
    is_unknown(bench.path("link"), "is a symbolic link");
    is_unknown("relative", "is no plain absolute path");
    is_unknown(w.join("../w"), "is no plain absolute path");
}

#[test]
fn a_tree_that_is_gone_is_clean_only_beside_a_parent() {
    let bench = Bench::new();
    let w = bench.linked("w");
    std::fs::remove_dir_all(&w).unwrap();
    is_clean(&w);
    is_unknown(bench.path("w/deeper"), "so is its parent");
}

#[test]
fn a_plain_directory_is_clean_only_if_it_is_empty() {
    let bench = Bench::new();
    let plain = bench.path("plain");
    std::fs::create_dir(&plain).unwrap();
    is_clean(&plain);
    bench.write("plain/file", "");
    is_dirty(&plain, "not a git worktree; 1 entries in it");
}

#[test]
fn a_damaged_repository_is_unknown() {
    let bench = Bench::new();
    let w = bench.linked("w");
    let git_dir = bench.path("main/.git/worktrees/w");
    let index = std::fs::read(git_dir.join("index")).unwrap();
    std::fs::write(git_dir.join("index"), &index[..40]).unwrap();
    is_unknown(&w, "git status");
    std::fs::write(git_dir.join("index"), b"garbage").unwrap();
    is_unknown(&w, "git status");
    std::fs::write(git_dir.join("index"), &index).unwrap();
    is_clean(&w);
    std::fs::write(git_dir.join("HEAD"), "garbage").unwrap();
    is_unknown(&w, "git");
    std::fs::remove_dir_all(&git_dir).unwrap();
    is_unknown(&w, "its git directory cannot be used");
}

#[test]
fn a_work_tree_that_belongs_elsewhere_is_unknown() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("else")).unwrap();
    let main = bench.path("main");
    bench.git(
        &main,
        &[
            "config",
            "core.worktree",
            bench.path("else").to_str().unwrap(),
        ],
    );
    is_unknown(&main, "core.worktree");
    bench.git(&main, &["config", "core.worktree", main.to_str().unwrap()]);
    is_clean(&main);
    // A copy of a linked worktree is known to its repository under the first one's name.
    let w = bench.linked("w");
    std::fs::create_dir(bench.path("copy")).unwrap();
    std::fs::copy(w.join(".git"), bench.path("copy/.git")).unwrap();
    is_unknown(bench.path("copy"), "its repository knows it as");
}

#[test]
fn a_directory_that_may_not_be_read_is_no_clean_one() {
    let bench = Bench::new();
    let w = bench.linked("w");
    bench.write("w/closed/file", "");
    let closed = bench.path("w/closed");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    let state = probe(&w);
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Root reads it all the same.
    assert_ne!(state, TreeState::Clean);
}
