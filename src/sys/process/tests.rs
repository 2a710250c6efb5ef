//! Identity and liveness on real processes.
#![allow(unsafe_code)]

use std::os::fd::AsFd;

use super::*;
use crate::sys::testing::{finish, image, in_own_process, kill, start, until};
use crate::sys::wait;
use crate::worker::Exit;

#[test]
fn a_process_is_alive_only_with_its_own_ticks_and_boot() {
    let started = start(image(&["sleep", "inf"]));
    let id = started.process.id();
    assert_eq!(check(&id), Liveness::Alive);
    let other = ProcessId {
        start_ticks: id.start_ticks + 1,
        ..id
    };
    assert_eq!(check(&other), Liveness::Gone(HowKnown::PidRecycled));
    let boot_id = "0b6bd4c2-5b4c-4f2e-9d3f-1c1f6a1c2f3a".parse().unwrap();
    assert_eq!(
        check(&ProcessId { boot_id, ..id }),
        Liveness::Gone(HowKnown::Rebooted)
    );
    kill(&started);
    assert_eq!(check(&id), Liveness::Gone(HowKnown::PidGone));
    assert_eq!(
        started.process.signal(libc::SIGTERM).unwrap(),
        Delivery::Gone
    );
}

#[test]
fn a_signal_with_the_group_reaches_the_group_that_a_process_leads_and_no_other() {
    let leader = start(image(&["sh", "-c", "sleep 1000 & exec sleep 1001"]));
    let group = leader.process.id().pid.get();
    let members = || {
        let all = scan().unwrap().into_iter();
        all.filter(|s| s.pgrp == group && !s.has_ended()).count()
    };
    until("both run", || members() == 2);
    let follower = scan().unwrap().into_iter();
    let follower = follower
        .filter(|s| s.pgrp == group)
        .find(|s| s.pid != leader.process.id().pid);
    let follower = ProcessRef::of_pid(follower.unwrap().pid).unwrap();
    assert_eq!(
        follower.signal_with_group(libc::SIGTERM).unwrap(),
        Delivery::Sent
    );
    until("the follower ends", || members() == 1);
    assert!(!leader.process.has_exited(), "the follower leads no group");
    assert_eq!(
        leader.process.signal_with_group(libc::SIGTERM).unwrap(),
        Delivery::Sent
    );
    until("the group ends", || members() == 0);
    kill(&leader);
}

#[test]
fn a_zombie_is_gone_but_its_pid_and_its_end_stay_until_it_is_reaped() {
    let started = start(image(&["sh", "-c", "exit 9"]));
    assert!(exits_within(
        started.process.as_fd(),
        crate::sys::testing::LONG
    ));
    for _ in 0..2 {
        assert_eq!(
            wait::peek(started.process.as_fd()).unwrap(),
            Some(Exit::Code(9))
        );
    }
    assert_eq!(
        check(&started.process.id()),
        Liveness::Gone(HowKnown::PidGone)
    );
    // A child of ours that nobody waited for can still be opened by its pid.
    let again = ProcessRef::of_pid(started.pgid).unwrap();
    assert_eq!(again.id(), started.process.id());
    assert_eq!(finish(&started), Exit::Code(9));
    assert!(wait::reap(started.process.as_fd()).is_err());
    assert!(matches!(
        ProcessRef::of_pid(started.pgid),
        Err(OpenError::Gone(_))
    ));
}

#[test]
fn a_running_child_has_no_end_yet() {
    let started = start(image(&["sleep", "inf"]));
    assert_eq!(wait::peek(started.process.as_fd()).unwrap(), None);
    assert_eq!(wait::reap(started.process.as_fd()).unwrap(), None);
    assert!(own_children().unwrap().contains(&started.pgid));
    // The start is answered when the old memory is let go, an instant before the new is there.
    until("its environment is there", || {
        environ_value(started.pgid, "PATH").as_deref() == Some(&b"/usr/bin:/bin"[..])
    });
    assert!(
        scan()
            .unwrap()
            .iter()
            .any(|s| s.pid == started.pgid && s.comm == "sleep")
    );
    assert_eq!(environ_value(started.pgid, "PAT"), None);
    kill(&started);
}

#[test]
fn a_group_is_signalled_whole_and_never_our_own() {
    let started = start(image(&["sh", "-c", "sleep inf & sleep inf & wait"]));
    until("helpers run", || {
        let all = scan().unwrap();
        let comm = |stat: &&Stat| stat.pgrp == started.pgid.get() && stat.comm == "sleep";
        all.iter().filter(comm).count() == 2
    });
    assert_eq!(
        signal_group(started.pgid, libc::SIGKILL).unwrap(),
        Delivery::Sent
    );
    assert_eq!(finish(&started), Exit::Signal(libc::SIGKILL));
    until("the group is empty", || {
        !scan()
            .unwrap()
            .iter()
            .any(|s| s.pgrp == started.pgid.get() && s.state != 'Z')
    });
    if let Ok(own) = Pid::new(nix::unistd::getpgrp().as_raw().into()) {
        assert_eq!(
            signal_group(own, 0).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}

extern "C" fn pause_for_ever(_: *mut libc::c_void) -> libc::c_int {
    loop {
        // SAFETY: waits for a signal, touches nothing.
        unsafe { libc::syscall(libc::SYS_ppoll, 0, 0, 0, 0, 0) };
    }
}

const LEADER: &str = "sys::process::tests::a_leader_that_ended_before_its_threads_is_alive";

#[test]
fn a_leader_that_ended_before_its_threads_is_alive() {
    if !in_own_process(LEADER) {
        return;
    }
    let mut stack = vec![0_u8; 1 << 16];
    // SAFETY: the child of the fork makes raw system calls only: a thread on a stack that stays
    // as long as the process, then the end of the leader.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let flags = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND;
            let top = stack.as_mut_ptr().wrapping_add(1 << 15).cast();
            libc::clone(pause_for_ever, top, flags, std::ptr::null_mut());
            libc::syscall(libc::SYS_exit, 0);
        }
        pid
    };
    let pid = Pid::new(pid.into()).unwrap();
    let process = ProcessRef::of_pid(pid).unwrap();
    until("the leader is a zombie", || stat(pid).unwrap().state == 'Z');
    assert!(!process.has_exited());
    assert_eq!(check(&process.id()), Liveness::Alive);
    assert_eq!(wait::peek(process.as_fd()).unwrap(), None);
    process.signal(libc::SIGKILL).unwrap();
    until("the process has ended", || process.has_exited());
    assert_eq!(check(&process.id()), Liveness::Gone(HowKnown::PidGone));
    wait::reap(process.as_fd()).unwrap().unwrap();
}
