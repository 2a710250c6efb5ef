//! Real children, started by a dedicated thread that stands for the main thread.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::{Image, Rlimit, Stage, clone, search};
use crate::sys::process::{self, Liveness, OpenError, ProcessRef, exits_within};
use crate::sys::testing::{
    LONG, c, finish, forker, image, in_own_process, is_own_process, kill, output, own_process,
    shared, start, start_with, status_line, until,
};
use crate::worker::{Exit, Pid};

fn run(argv: &[&str]) -> Exit {
    finish(&start(image(argv)))
}

fn open_fds(pid: Pid) -> BTreeSet<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    entries
        .map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect()
}

fn script(dir: &Path, name: &str, text: &str, mode: u32) {
    fs::write(dir.join(name), text).unwrap();
    fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    assert_eq!(run(&["true"]), Exit::Code(0));
    for code in [1, 7, 127, 128, 137, 255] {
        assert_eq!(
            run(&["sh", "-c", &format!("exit {code}")]),
            Exit::Code(code)
        );
    }
    for signal in [1, 2, 3, 6, 9, 10, 13, 14, 15, 34, 64] {
        assert_eq!(
            run(&["sh", "-c", &format!("kill -{signal} $$")]),
            Exit::Signal(signal)
        );
    }
}

#[test]
fn the_open_descriptors_are_exactly_those_passed() {
    let dir = tempfile::tempdir().unwrap();
    let mut image = image(&["sleep", "inf"]);
    // More than there are low numbers free in this process, and in an order that overlaps.
    for target in [3, 0, 5, 1, 4] {
        let file = File::create(dir.path().join(format!("f{target}"))).unwrap();
        image.fds.push((file.into(), target));
    }
    let started = start(image);
    let pid = started.pgid;
    // The loader of a program just executed has a library open for a moment.
    until("exactly those", || {
        open_fds(pid) == BTreeSet::from([0, 1, 2, 3, 4, 5])
    });
    for target in [0, 1, 3, 4, 5] {
        let link = fs::read_link(format!("/proc/{pid}/fd/{target}")).unwrap();
        assert_eq!(link, dir.path().join(format!("f{target}")));
    }
    assert_eq!(
        fs::read_link(format!("/proc/{pid}/fd/2")).unwrap(),
        Path::new("/dev/null")
    );
    kill(&started);
}

#[test]
fn descriptor_numbers_that_cannot_be_are_refused() {
    let null = || OwnedFd::from(File::open("/dev/null").unwrap());
    for targets in [vec![3, 3], vec![-1], vec![4000], (3..40).collect()] {
        let mut image = image(&["true"]);
        image.fds = targets.iter().map(|target| (null(), *target)).collect();
        let error = start_with(shared(), image).unwrap_err();
        assert_eq!(error.stage, Stage::Prepare, "{targets:?}");
    }
    let empty = Image {
        argv: Vec::new(),
        ..image(&["true"])
    };
    assert_eq!(
        start_with(shared(), empty).unwrap_err().stage,
        Stage::Prepare
    );
}

#[test]
fn nothing_is_ignored_blocked_or_caught() {
    let started = start(image(&["sleep", "inf"]));
    for key in ["SigIgn", "SigBlk", "SigCgt"] {
        assert_eq!(status_line(started.pgid, key), "0000000000000000", "{key}");
    }
    kill(&started);
}

#[test]
fn group_and_session_are_its_own() {
    let started = start(image(&["sleep", "inf"]));
    let stat = process::stat(started.pgid).unwrap();
    assert_eq!(stat.pgrp, started.pgid.get());
    assert_ne!(stat.session, started.pgid.get());
    assert_eq!(stat.ppid, i32::try_from(std::process::id()).unwrap());
    assert_eq!(stat.start_ticks, started.process.id().start_ticks);
    kill(&started);
    let started = start(Image {
        new_session: true,
        ..image(&["sleep", "inf"])
    });
    assert_eq!(
        process::stat(started.pgid).unwrap().session,
        started.pgid.get()
    );
    kill(&started);
}

#[test]
fn the_environment_is_exactly_the_one_given() {
    let mut image = image(&["/usr/bin/env"]);
    image.env = vec![c("ONE=1"), c("EMPTY="), c("SPACED=a b\nc")];
    assert_eq!(output(image), "ONE=1\nEMPTY=\nSPACED=a b\nc\n");
}

#[test]
fn limits_priority_and_mask_are_set() {
    let mut image = image(&[
        "sh",
        "-c",
        "umask; ulimit -n; nice; cat /proc/self/oom_score_adj",
    ]);
    image.umask = Some(0o027);
    image.nice = Some(7);
    image.oom_score_adj = Some(613);
    image.rlimits = vec![Rlimit {
        resource: libc::RLIMIT_NOFILE,
        soft: 77,
        hard: 99,
    }];
    assert_eq!(output(image), "0027\n77\n7\n613\n");
}

#[test]
fn a_missing_directory_and_a_missing_program_are_named() {
    let mut there = image(&["true"]);
    there.cwd = Some(c("/nonexistent/dir"));
    let error = start_with(shared(), there).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Chdir, libc::ENOENT));
    assert_eq!(error.path, "/nonexistent/dir");
    let error = start_with(shared(), image(&["/nonexistent/agent"])).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Exec, libc::ENOENT));
    assert_eq!(error.path, "/nonexistent/agent");
    let error = start_with(shared(), image(&["no-such-agent"])).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Exec, libc::ENOENT));
    assert_eq!(error.path, "no-such-agent");
    assert!(
        error
            .to_string()
            .contains("cannot execute no-such-agent: No such file"),
        "{error}"
    );
}

#[test]
fn programs_are_looked_for_in_the_workers_own_path() {
    let dir = tempfile::tempdir().unwrap();
    for sub in ["first", "second"] {
        fs::create_dir(dir.path().join(sub)).unwrap();
    }
    let path = format!(
        "PATH=/nonexistent:{0}/first::{0}/second",
        dir.path().display()
    );
    let at_work = |name: &str| {
        let mut image = image(&[name]);
        image.env = vec![c(&path)];
        image.candidates = search(&c(name), &image.env);
        image.cwd = Some(c(dir.path().to_str().unwrap()));
        image
    };
    script(
        &dir.path().join("first"),
        "agent",
        "#!/bin/sh\necho first\n",
        0o644,
    );
    let denied = start_with(shared(), at_work("agent")).unwrap_err();
    assert_eq!((denied.stage, denied.errno), (Stage::Exec, libc::EACCES));
    assert_eq!(
        denied.path,
        dir.path().join("first/agent").to_str().unwrap()
    );
    script(
        &dir.path().join("second"),
        "agent",
        "#!/bin/sh\necho second\n",
        0o755,
    );
    assert_eq!(output(at_work("agent")), "second\n");
    script(dir.path(), "agent", "#!/bin/sh\necho here\n", 0o755);
    assert_eq!(output(at_work("agent")), "here\n");
    script(
        &dir.path().join("second"),
        "text",
        "echo no interpreter\n",
        0o755,
    );
    let error = start_with(shared(), at_work("text")).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Exec, libc::ENOEXEC));
}

const DEATH: &str = "sys::spawn::tests::a_child_dies_with_the_thread_that_forked_it";

#[test]
fn a_child_dies_with_the_thread_that_forked_it() {
    if is_own_process(DEATH) {
        let started = start(image(&["sleep", "inf"]));
        println!("\nPID {}", started.pgid);
        std::io::stdin().read_exact(&mut [0]).unwrap();
        return;
    }
    let command = &mut own_process(DEATH);
    let mut parent = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let pid = lines
        .map(Result::unwrap)
        .find_map(|line| line.strip_prefix("PID ")?.parse().ok());
    let child = ProcessRef::of_pid(Pid::new(pid.unwrap()).unwrap()).unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert!(exits_within(child.as_fd(), LONG));
}

#[test]
fn a_child_that_hangs_before_exec_is_killed_after_the_time_limit() {
    let forker = forker(Duration::from_millis(200));
    let hanging = Image {
        halt_before_exec: true,
        ..image(&["/bin/true"])
    };
    let error = start_with(&forker, hanging).unwrap_err();
    assert_eq!(
        (error.stage, error.path.as_str()),
        (Stage::TimedOut, "/bin/true")
    );
    // The main thread is free again, and what it reports is of the next child alone.
    let started = start_with(&forker, image(&["true"])).unwrap();
    assert_eq!(finish(&started), Exit::Code(0));
    // Its thread ends here; no child of it is left to be killed with it.
    forker.stop();
}

#[test]
fn a_child_that_somebody_kills_before_exec_was_not_started() {
    let forker = forker(LONG);
    let mut hanging = Image {
        halt_before_exec: true,
        ..image(&["/bin/true"])
    };
    hanging.nice = Some(13);
    let killer = std::thread::spawn(|| {
        let mut found = None;
        until("the child stops", || {
            let children = process::own_children().unwrap();
            let stats = children
                .into_iter()
                .filter_map(|pid| process::stat(pid).ok());
            let mut stats = stats.filter(|stat| stat.state == 'T' && stat.nice == 13);
            found = stats.next();
            found.is_some()
        });
        let child = ProcessRef::of_pid(found.unwrap().pid).unwrap();
        child.signal(libc::SIGKILL).unwrap();
        child.id()
    });
    let error = start_with(&forker, hanging).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Killed, 0));
    let id = killer.join().unwrap();
    assert!(
        matches!(process::check(&id), Liveness::Gone(_)),
        "it was reaped"
    );
    forker.stop();
}

#[test]
fn a_start_that_nobody_waits_for_leaves_no_process() {
    let mark = format!("MUSTERD_TEST_MARK={}", std::process::id());
    let mut unwanted = image(&["sleep", "inf"]);
    unwanted.env.push(c(&mark));
    let forker = forker(LONG);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let early = runtime.block_on(async {
        // Asked once, so that the job is queued, and dropped.
        tokio::select! {
            biased;
            started = forker.start(unwanted) => started.ok(),
            () = std::future::ready(()) => None,
        }
    });
    if let Some(started) = early {
        kill(&started);
    }
    assert_eq!(
        finish(&start_with(&forker, image(&["true"])).unwrap()),
        Exit::Code(0)
    );
    let marked = |stat: process::Stat| {
        process::environ_value(stat.pid, "MUSTERD_TEST_MARK")
            .is_some_and(|value| value == std::process::id().to_string().as_bytes())
    };
    assert!(!process::scan().unwrap().into_iter().any(marked));
    forker.stop();
}

const MANY: &str = "sys::spawn::tests::a_thousand_starts_leave_no_zombie_and_no_descriptor";

#[test]
fn a_thousand_starts_leave_no_zombie_and_no_descriptor() {
    if !in_own_process(MANY) {
        return;
    }
    // A runtime's own descriptors go when the forking thread lets go of its waker.
    let count = || {
        let entries = fs::read_dir("/proc/self/fd").unwrap();
        let links = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links
            .filter(|link| !link.to_string_lossy().contains("[event"))
            .count()
    };
    run(&["true"]);
    let before = count();
    for i in 0..1000 {
        match i % 3 {
            0 => assert!(start_with(shared(), image(&["/nonexistent"])).is_err()),
            _ => assert_eq!(run(&["true"]), Exit::Code(0)),
        }
    }
    assert_eq!(count(), before);
    assert_eq!(process::own_children().unwrap(), []);
    // The daemon must not keep an end of what it passed on.
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let started = start(Image {
        fds: vec![(write, 1)],
        ..image(&["true"])
    });
    finish(&started);
    assert_eq!(std::io::read_to_string(File::from(read)).unwrap(), "");
}

const FALLBACK: &str = "sys::spawn::tests::without_clone3_everything_is_the_same";

#[test]
fn without_clone3_everything_is_the_same() {
    if !in_own_process(FALLBACK) {
        return;
    }
    clone::forget_clone3();
    the_open_descriptors_are_exactly_those_passed();
    nothing_is_ignored_blocked_or_caught();
    exit_codes_and_signals_are_told_apart();
    a_missing_directory_and_a_missing_program_are_named();
    a_child_that_hangs_before_exec_is_killed_after_the_time_limit();
}

#[test]
fn a_pidfd_handed_over_is_the_same_process_until_it_is_reaped() {
    let started = start(image(&["sleep", "inf"]));
    let again = started.process.try_clone().unwrap().into_fd();
    assert!(again.as_raw_fd() > 2);
    assert_eq!(ProcessRef::adopt(again).unwrap().id(), started.process.id());
    let late = started.process.try_clone().unwrap().into_fd();
    kill(&started);
    assert!(matches!(ProcessRef::adopt(late), Err(OpenError::Gone(_))));
    let no_pidfd = File::open("/dev/null").unwrap().into();
    assert!(matches!(
        ProcessRef::adopt(no_pidfd),
        Err(OpenError::Unknown(_))
    ));
}
