//! Children with other ids, and what they cost.
#![allow(unsafe_code)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::{Ids, Image, Stage};
use crate::sys::testing::{
    LONG, c, finish, forker, image, is_root, kill, not_run, shared, start, start_with, status_line,
    until,
};
use crate::worker::Exit;

#[test]
fn ids_groups_and_rights_are_the_owners() {
    if !is_root() {
        return not_run("only root may take other ids");
    }
    let ids = Ids {
        uid: 54_321,
        gid: 54_322,
        groups: vec![54_323, 54_324],
    };
    let started = start(Image {
        ids: Some(ids.clone()),
        ..image(&["sleep", "inf"])
    });
    let pid = started.pgid;
    assert_eq!(status_line(pid, "Uid"), "54321\t54321\t54321\t54321");
    assert_eq!(status_line(pid, "Gid"), "54322\t54322\t54322\t54322");
    assert_eq!(status_line(pid, "Groups"), "54323 54324");
    for key in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status_line(pid, key), "0000000000000000", "{key}");
    }
    kill(&started);
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    let cwd = Some(c(dir.path().to_str().unwrap()));
    let private = Image {
        cwd,
        ids: Some(ids.clone()),
        ..image(&["true"])
    };
    let error = start_with(shared(), private).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Chdir, libc::EACCES));
    let bounded = Image {
        ids: Some(ids),
        drop_bounding: true,
        ..image(&["sleep", "inf"])
    };
    let started = start(bounded);
    assert_eq!(status_line(started.pgid, "CapBnd"), "0000000000000000");
    kill(&started);
}

#[test]
fn an_id_that_means_no_change_is_refused() {
    for (uid, gid, group) in [(u32::MAX, 1, 1), (1, u32::MAX, 1), (1, 1, u32::MAX)] {
        let groups = vec![group];
        let image = Image {
            ids: Some(Ids { uid, gid, groups }),
            ..image(&["true"])
        };
        let error = start_with(shared(), image).unwrap_err();
        assert_eq!((error.stage, error.errno), (Stage::Prepare, libc::EINVAL));
    }
}

#[test]
fn the_daemon_is_as_traceable_as_before() {
    if !is_root() {
        return not_run("only root may take other ids");
    }
    let ids = Ids {
        uid: 54_321,
        gid: 54_322,
        groups: Vec::new(),
    };
    let forker = forker(LONG);
    let started = start_with(
        &forker,
        Image {
            ids: Some(ids),
            ..image(&["true"])
        },
    )
    .unwrap();
    // SAFETY: no pointers.
    until(
        "dumpable",
        || unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) } == 1,
    );
    finish(&started);
    forker.stop();
}

#[test]
fn an_ordinary_daemon_may_name_its_own_ids_and_no_others() {
    if is_root() {
        return not_run("it is about an ordinary user");
    }
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let ids = |uid| {
        Some(Ids {
            uid,
            gid,
            groups: Vec::new(),
        })
    };
    assert_eq!(
        finish(&start(Image {
            ids: ids(uid),
            ..image(&["true"])
        })),
        Exit::Code(0)
    );
    let error = start_with(
        shared(),
        Image {
            ids: ids(0),
            ..image(&["true"])
        },
    )
    .unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Groups, libc::EPERM));
}

/// `cargo test --release --lib spawning_is -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn spawning_is_as_fast_as_posix_spawn() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let rounds = 500;
    for _ in 0..5 {
        let begin = std::time::Instant::now();
        for _ in 0..rounds {
            finish(
                &runtime
                    .block_on(shared().start(image(&["/bin/true"])))
                    .unwrap(),
            );
        }
        let ours = begin.elapsed() / rounds;
        let begin = std::time::Instant::now();
        for _ in 0..rounds {
            let argv = [c"/bin/true".as_ptr().cast_mut(), std::ptr::null_mut()];
            let env = [std::ptr::null_mut()];
            let (none, mut pid) = (std::ptr::null(), 0);
            let path = c"/bin/true".as_ptr();
            // SAFETY: all pointers are to what lives in this frame.
            unsafe {
                let (argv, env) = (argv.as_ptr(), env.as_ptr());
                libc::posix_spawn(&raw mut pid, path, none, none.cast(), argv, env);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
        println!("ours {ours:?}, posix_spawn {:?}", begin.elapsed() / rounds);
    }
}
