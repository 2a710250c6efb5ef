//! Bad input is told clearly, with the exit code for it, and loses nothing.

use std::fs;

use crate::support::{Containment, World, wait_until};

#[test]
fn every_flag_refuses_bad_values_and_names_itself() {
    let world = World::new();
    let long = "x".repeat(129);
    let cases: &[(&str, &[&str])] = &[
        ("--name", &["a/b", "a\nb", &long]),
        ("--kind", &["", "nosuch", "root-turn "]),
        ("--kind-field", &["", "noequals", "=x"]),
        ("--deadline", &["", "x", "5x", "-1s", "1e999s"]),
        ("--idle-timeout", &["", "x", "-1s"]),
        ("--grace", &["", "x", "-1s"]),
        ("--kill-grace", &["", "x", "-1s"]),
        ("--stop-signal", &["", "0", "65", "SIGNOSUCH", "-1"]),
        ("--leftovers", &["", "keep"]),
        ("--restart", &["", "maybe"]),
        ("--restart-max", &["", "-1", "x", "99999999999"]),
        (
            "--memory-max",
            &["", "x", "-1", "1X", "0", "99999999999999999999"],
        ),
        ("--tasks-max", &["", "x", "-1", "0"]),
        ("--cpu-weight", &["", "0", "10001", "x"]),
        ("--cpu-max", &["", "x", "-1%"]),
        ("--nice", &["", "x", "20", "-21"]),
        ("--tokens-max", &["", "x", "-1"]),
        ("--priority", &["", "urgent"]),
        ("--control", &["", "telepathy"]),
        ("--payload", &["{", "{}", "@/nonexistent"]),
        ("--trace-id", &["a b", "\u{fc}", &long]),
        ("--uid", &["", "x", "-1", "4294967296"]),
        ("--working-directory", &["", "/nonexistent/dir"]),
        ("--worktree", &["", "/nonexistent/dir"]),
        ("--setenv", &["", "=x"]),
        ("--color", &["", "red"]),
        ("--json", &["", "xml"]),
    ];
    let mut wrong = Vec::new();
    for (flag, values) in cases {
        for value in *values {
            let said = world.ctl(&["run", &format!("{flag}={value}"), "--", "true"]);
            // Names the flag, or shows the value that is not liked.
            let clear = said.stderr.contains(flag.trim_start_matches('-'))
                || !value.is_empty() && said.stderr.contains(value);
            let short = said.stderr.len() < 4000 && !said.stderr.contains("panicked");
            if !matches!(said.code, 1 | 2) || !clear || !short {
                wrong.push(format!("{flag}={value:?}: {said:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let rows: Vec<_> = world
        .rows()
        .into_iter()
        .filter(|row| row["status"] != "exited")
        .collect();
    assert!(rows.is_empty(), "{rows:?}");
    world.end();
}

#[test]
fn other_verbs_refuse_bad_flags_as_usage_errors() {
    let world = World::new();
    let mut wrong = Vec::new();
    for args in [
        &["nosuch"][..],
        &["run"],
        &["run", "--"],
        &["run", "--nosuch", "--", "true"],
        &["list", "--nosuch"],
        &["list", "--status=nosuch"],
        &["cancel"],
        &["cancel", "--reason"],
        &["wait"],
        &["wait", "--timeout=x", "a"],
        &["reap", "--grace=x"],
        &["reap", "--grace=-1s"],
        &["logs"],
        &["logs", "-n", "x", "a"],
        &["hold"],
        &["release"],
        &["forget"],
        &["restore"],
        &["status", "-n", "-1"],
        &["--system", "--user", "list"],
    ] {
        let said = world.ctl(args);
        if said.code != 2 || said.stderr.is_empty() {
            wrong.push(format!("{args:?}: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        world.daemon_pid().is_none(),
        "a usage error starts no daemon"
    );
    world.end();
}

#[test]
fn a_worker_nobody_knows_has_its_exit_code_in_every_verb() {
    let world = World::new();
    let odd = ["nosuch", "", "../../etc/passwd", "a\nb", "\u{fc}", "%s%n"];
    let mut wrong = Vec::new();
    for worker in odd {
        for (verb, code) in [
            ("status", 4),
            ("show", 5),
            ("cancel", 5),
            ("wait", 5),
            ("logs", 5),
            ("hold", 5),
            ("release", 5),
            ("forget", 5),
            ("restore", 5),
        ] {
            let said = world.ctl(&[verb, "--", worker]);
            if said.code != code || said.stderr.is_empty() {
                wrong.push(format!("{verb} {worker:?}: {said:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    world.end();
}

#[test]
fn an_ambiguous_beginning_of_an_id_lists_the_candidates() {
    let world = World::new();
    // Of 33 ids two begin alike.
    let ids: Vec<String> = (0..33).map(|_| world.run(&[], &["true"])).collect();
    let twin = |a: &&String| ids.iter().filter(|b| b[..1] == a[..1]).count() > 1;
    let first = ids.iter().find(twin).unwrap();
    let said = world.ctl(&["cancel", &first[..1]]);
    assert!(!matches!(said.code, 0 | 7), "{said:?}");
    for id in ids.iter().filter(|id| id[..1] == first[..1]).take(16) {
        assert!(said.stderr.contains(id.as_str()), "{id}: {said:?}");
    }
    let unique = (1..=8)
        .map(|n| &first[..n])
        .find(|begin| ids.iter().filter(|id| id.starts_with(begin)).count() == 1)
        .unwrap();
    assert_eq!(world.show(unique)["id"], first.as_str());
    world.end();
}

#[test]
fn check_config_lists_all_faults_at_once_with_line_and_nearest_key() {
    let world = World::with(
        Containment::Auto,
        "[gc]\ngrce = \"1h\"\nprobe_timeout = \"soon\"\n\n[nosuch]\nx = 1\n\n[limits]\nmax_workers = -5\n",
    );
    let said = world.ctl(&["check-config"]);
    assert_eq!(said.code, 6, "{said:?}");
    let text = format!("{}{}", said.stdout, said.stderr);
    for part in [
        "musterd.toml:2",
        "grce",
        "grace",
        "musterd.toml:3",
        "probe_timeout",
        "musterd.toml:5",
        "nosuch",
        "musterd.toml:9",
        "max_workers",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    let said = world.ctl(&["run", "--", "true"]);
    assert!(matches!(said.code, 6 | 7), "{said:?}");
    assert!(said.stderr.contains("grce"), "the start says why: {said:?}");
    wait_until("no daemon is left", || world.daemons().is_empty());

    world.write_config("");
    assert_eq!(world.ctl(&["check-config"]).code, 0);
    world.run_to_end(&[], &["true"]);
    world.end();
}

#[test]
fn a_socket_without_a_daemon_is_told_as_unreachable() {
    let world = World::new();
    let nowhere = world.path().join("nowhere");
    let said = world.ctl(&["list", "--socket", nowhere.to_str().unwrap()]);
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.stderr.contains("nowhere"), "{said:?}");
    assert!(world.daemon_pid().is_none());
    world.end();
}

#[test]
fn a_dead_socket_file_is_replaced_by_a_new_daemon() {
    let world = World::new();
    world.rows();
    world.kill_daemon_and_guardian();
    let left = fs::read_dir(world.runtime()).unwrap().count();
    assert!(left > 0, "the killed daemon leaves its socket");
    world.run_to_end(&[], &["true"]);
    world.end();
}

#[test]
fn waiting_is_bounded_by_its_timeout() {
    let world = World::new();
    let id = world.run(&[], &[&world.helper("nap"), "nap", world.mark()]);
    assert_eq!(world.ctl(&["wait", "--timeout", "100ms", &id]).code, 124);
    assert_eq!(world.ctl(&["status", &id]).code, 0);
    world.ctl(&["cancel", &id]).ok();
    assert_eq!(world.ctl(&["status", &id]).code, 3);
    world.end();
}
