//! Real groups, where this host lets us make them.

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::sys::process::{ProcessRef, exits_within, signal_group};
use crate::sys::spawn::Image;
use crate::sys::testing::{
    LONG, finish, image, in_own_process, is_own_process, kill as end, not_run, own_process, start,
    until,
};
use crate::sys::wait;
use crate::worker::{Exit, Limits};

/// Where trees may be made, or a printed reason for none.
pub(in crate::sys) fn place() -> Option<PathBuf> {
    let mounts = mount::all().ok();
    let Some(place) = mounts
        .iter()
        .flat_map(|m| m.iter())
        .find(|mount| mount.writable)
    else {
        not_run("no cgroup2 is mounted to be written");
        return None;
    };
    let place = place.point.clone();
    let probe = place.join(format!("musterd-probe-{}", std::process::id()));
    match fs::create_dir(&probe) {
        Ok(()) => {
            fs::remove_dir(&probe).unwrap();
            Some(place)
        }
        Err(e) => {
            let place = place.display();
            not_run(&format!("no cgroup can be made in {place}: {e}"));
            None
        }
    }
}

/// A tree that this process does not enter; removed by [`done`].
fn tree(name: &str) -> Option<Tree> {
    let run = format!("test-{name}-{}", std::process::id());
    Some(Tree::find(&Choice::Path(place()?), &run).unwrap())
}

fn done(tree: Tree) {
    let root = tree.root().to_owned();
    tree.kill_all().unwrap();
    until("the tree can be removed", || {
        remove(&root).unwrap() != Removed::Busy
    });
    assert!(!root.exists());
}

fn in_leaf(leaf: &Leaf, argv: &[&str]) -> Image {
    Image {
        leaf: Some(leaf.path().to_owned()),
        ..image(argv)
    }
}

#[test]
fn a_child_is_born_in_its_leaf_and_the_leaf_knows_when_it_is_empty() {
    let Some(tree) = tree("born") else { return };
    let leaf = tree.leaf("w-1").unwrap();
    assert!(!leaf.populated().unwrap());
    let started = start(in_leaf(&leaf, &["sleep", "inf"]));
    assert_eq!(of_process(started.pgid).unwrap(), leaf.rel());
    assert_eq!(leaf.pids().unwrap(), [started.pgid]);
    assert_eq!(Leaf::open(leaf.path()).unwrap(), leaf);
    assert_eq!(leaf.remove().unwrap(), Removed::Busy);
    assert!(tree.leaf("w-1").is_err(), "a leaf in use is not given away");
    let events = leaf.events().unwrap();
    assert!(read_populated(events.as_fd()).unwrap());
    leaf.kill().unwrap();
    poll(&mut [PollFd::new(&events, PollFlags::PRI)], None).unwrap();
    until("empty", || !read_populated(events.as_fd()).unwrap());
    assert_eq!(finish(&started), Exit::Signal(libc::SIGKILL));
    until("removed", || leaf.remove().unwrap() == Removed::Done);
    assert_eq!(leaf.remove().unwrap(), Removed::Gone);
    assert!(!leaf.populated().unwrap());
    leaf.kill().unwrap();
    done(tree);
}

#[test]
fn a_leaf_holds_what_leaves_its_group_and_its_session() {
    let Some(tree) = tree("escape") else { return };
    let leaf = tree.leaf("w-1").unwrap();
    let script = "setsid sh -c 'trap \"\" TERM; sleep inf & sleep inf' & exit 3";
    let started = start(in_leaf(&leaf, &["sh", "-c", script]));
    assert_eq!(finish(&started), Exit::Code(3));
    until("the escaped run", || leaf.pids().unwrap().len() == 3);
    let escaped: Vec<ProcessRef> = leaf
        .pids()
        .unwrap()
        .into_iter()
        .map(|pid| ProcessRef::of_pid(pid).unwrap())
        .collect();
    assert!(leaf.populated().unwrap());
    leaf.kill().unwrap();
    for process in &escaped {
        assert!(exits_within(process.as_fd(), LONG));
        // Ours to reap only if this process is a subreaper, which it is in other tests alone.
        let _ = wait::reap(process.as_fd());
    }
    until("empty", || !leaf.populated().unwrap());
    done(tree);
}

#[test]
fn a_frozen_leaf_stands_still_and_can_be_killed() {
    let Some(tree) = tree("freeze") else { return };
    let leaf = tree.leaf("w-1").unwrap();
    let started = start(in_leaf(&leaf, &["sleep", "inf"]));
    leaf.freeze(true).unwrap();
    until("frozen", || leaf.is_frozen().unwrap());
    leaf.freeze(false).unwrap();
    until("thawed", || !leaf.is_frozen().unwrap());
    started.process.signal(libc::SIGTERM).unwrap();
    assert_eq!(finish(&started), Exit::Signal(libc::SIGTERM));
    let started = start(in_leaf(&leaf, &["sleep", "inf"]));
    leaf.freeze(true).unwrap();
    leaf.kill().unwrap();
    assert_eq!(finish(&started), Exit::Signal(libc::SIGKILL));
    done(tree);
}

#[test]
fn groups_that_a_worker_made_go_with_its_leaf() {
    let Some(tree) = tree("nested") else { return };
    let leaf = tree.leaf("w-1").unwrap();
    fs::create_dir_all(leaf.path().join("a/b/c")).unwrap();
    fs::create_dir_all(leaf.path().join("d")).unwrap();
    let inner = Leaf::open(leaf.path().join("a/b")).unwrap();
    let started = start(in_leaf(&inner, &["sleep", "inf"]));
    assert_eq!(leaf.pids().unwrap(), [started.pgid]);
    assert_eq!(leaf.remove().unwrap(), Removed::Busy);
    signal_group(started.pgid, libc::SIGKILL).unwrap();
    finish(&started);
    until("removed", || leaf.remove().unwrap() != Removed::Busy);
    assert!(!leaf.path().exists());
    done(tree);
}

#[test]
fn a_leaf_that_is_not_there_is_an_error_of_the_start() {
    let Some(tree) = tree("missing") else { return };
    let mut image = image(&["true"]);
    image.leaf = Some(tree.workers().join("none"));
    let error = crate::sys::testing::start_with(crate::sys::testing::shared(), image).unwrap_err();
    assert_eq!(error.stage, crate::sys::spawn::Stage::OpenLeaf);
    assert!(tree.leaf("../x").is_err() && tree.leaf("").is_err() && tree.leaf("a/b").is_err());
    done(tree);
}

#[test]
fn limits_that_cannot_be_enforced_are_named() {
    let Some(tree) = tree("limits") else { return };
    let leaf = tree.leaf("w-1").unwrap();
    assert_eq!(leaf.set_limits(&Limits::default()), Vec::<String>::new());
    let all = Limits {
        memory_max: Some(1 << 30),
        tasks_max: Some(50),
        cpu_weight: Some(50),
        cpu_max_percent: Some(150),
        ..Limits::default()
    };
    // The tree was not entered, so no controller was handed down.
    let refused = leaf.set_limits(&all);
    assert_eq!(
        refused,
        ["memory-max", "tasks-max", "cpu-weight", "cpu-max-percent"]
    );
    assert!(leaf.cpu_usec().is_some());
    assert_eq!(leaf.oom_kills(), 0);
    done(tree);
}

const ENTER: &str = "sys::cgroup::tests::the_daemon_sits_in_a_leaf_of_its_own";

#[test]
fn the_daemon_sits_in_a_leaf_of_its_own() {
    let Some(place) = place() else { return };
    if is_own_process(ENTER) {
        let run = format!(
            "test-enter-{}",
            rustix::process::getppid().unwrap().as_raw_nonzero()
        );
        let mut tree = Tree::find(&Choice::Path(place), &run).unwrap();
        tree.enter().unwrap();
        assert_eq!(mount::own().unwrap().0, tree.root().join("supervisor"));
        let available = read(&tree.root().join("supervisor"), "cgroup.controllers").unwrap();
        for controller in tree.controllers() {
            assert!(available.contains(controller.as_str()));
        }
        let leaf = tree.leaf("w-1").unwrap();
        let started = start(in_leaf(&leaf, &["sleep", "inf"]));
        assert_eq!(of_process(started.pgid).unwrap(), leaf.rel());
        tree.kill_all().unwrap();
        assert_eq!(finish(&started), Exit::Signal(libc::SIGKILL));
        return;
    }
    assert!(own_process(ENTER).status().unwrap().success());
    let stale = leftovers_of_old_runs(&place, &format!("test-enter-{}", std::process::id()));
    assert_eq!(stale.len(), 1);
    until("removed", || remove(&stale[0]).unwrap() != Removed::Busy);
}

const JOIN: &str = "sys::cgroup::tests::without_clone3_the_leaf_is_joined_before_exec";

#[test]
fn without_clone3_the_leaf_is_joined_before_exec() {
    if place().is_none() || !in_own_process(JOIN) {
        return;
    }
    crate::sys::spawn::forget_clone3();
    let Some(tree) = tree("join") else { return };
    let leaf = tree.leaf("w-1").unwrap();
    let started = start(in_leaf(&leaf, &["sleep", "inf"]));
    assert_eq!(of_process(started.pgid).unwrap(), leaf.rel());
    let fds = format!("/proc/{}/fd", started.pgid);
    until("three descriptors", || {
        fs::read_dir(&fds).unwrap().count() == 3
    });
    end(&started);
    done(tree);
}
