//! What is refused, and how a client is told.

use crate::support::{Containment, World, text};

#[test]
fn a_program_that_cannot_be_started_is_told_with_path_and_reason() {
    let world = World::new();
    let plain = world.path().join("no-program");
    std::fs::write(&plain, "text").unwrap();
    let plain = plain.to_str().unwrap();
    for (argv0, why) in [
        ("/nonexistent/program", "No such file or directory"),
        ("nowhere-in-the-path", "No such file or directory"),
        (plain, "Permission denied"),
        ("/", "Permission denied"),
    ] {
        let said = world.ctl(&["run", "-E", "PATH=/usr/bin:/bin", "--", argv0]);
        assert!(said.code != 0 && said.code != 8, "{said:?}");
        assert!(
            said.stderr.contains(argv0) && said.stderr.contains(why),
            "{said:?}"
        );
    }
    for (flag, dir, why) in [
        ("-d", "/nonexistent/dir", "No such file or directory"),
        ("-d", plain, "Not a directory"),
        (
            "--worktree",
            "/nonexistent/dir",
            "No such file or directory",
        ),
        ("--worktree", plain, "is not a directory"),
    ] {
        let said = world.ctl(&["run", flag, dir, "--", "true"]);
        assert_ne!(said.code, 0);
        assert!(
            said.stderr.contains(dir) && said.stderr.contains(why),
            "{said:?}"
        );
        assert!(!said.stderr.contains("Success"), "{said:?}");
    }
    // No row claims to run; what was recorded of a failed start is terminal.
    for row in world.rows() {
        assert_eq!(text(&row["status"]), "exited", "{row}");
        let shown = world.show(&text(&row["id"]));
        assert_eq!(text(&shown["how_known"]), "start-failed", "{shown}");
        assert!(shown["pid"].is_null());
    }
    world.assert_no_worker_process();
    world.end();
}

#[test]
fn one_worker_more_than_allowed_is_refused_with_the_limit() {
    let world = World::with(Containment::Auto, "[limits]\nmax_workers = 2\n");
    let nap = world.helper("nap");
    for _ in 0..2 {
        world.run(&[], &[&nap, "nap", world.mark()]);
    }
    let said = world.ctl(&["run", "--no-wait", "--", "true"]);
    assert_eq!(said.code, 8, "{said:?}");
    assert!(said.stderr.contains('2'), "{said:?}");
    assert_eq!(world.rows().len(), 2);
    world.end();
}

#[test]
fn a_worker_asks_for_a_sibling_and_a_cancel_takes_it_along() {
    for containment in [Containment::Auto, Containment::None] {
        let world = World::with(containment, "");
        let (nap, mark) = (world.helper("nap"), world.mark().to_owned());
        let ctl = crate::common::program("musterctl");
        let script = format!(
            "{} run -q --name child -- {nap} nap {mark} && exec {nap} nap {mark} {mark}/ready",
            ctl.display()
        );
        let parent = world.run(&["--name", "parent"], &["sh", "-c", &script]);
        crate::support::wait_until("both run", || world.path().join("ready").exists());
        let child = world.show("child");
        assert_eq!(text(&child["parent"]), parent, "{child}");
        assert_eq!(child["depth"], 1);
        world.ctl(&["cancel", "parent"]).ok();
        assert_eq!(text(&world.ended("child")["outcome"]), "cancelled");
        world.assert_no_worker_process();
        world.end();
    }
}
