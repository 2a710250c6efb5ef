//! The directory of row files: what survives, what is only read, what is put aside.

use std::fs;

use serde_json::Value;

use crate::support::rowfile::RowFile;
use crate::support::{World, hear, proc, text, wait_until};

fn names(world: &World) -> Vec<String> {
    let mut names: Vec<String> = world.rows().iter().map(|row| text(&row["name"])).collect();
    names.sort();
    names
}

#[test]
fn rows_say_the_same_after_a_restart() {
    let world = World::new();
    let argv = [
        "sh",
        "-c",
        "exit 4",
        "an arg with\nnewline \"quotes\" and ü",
    ];
    let id = world.run_to_end(
        &[
            "--name",
            "kept ü",
            "--kind",
            "subagent",
            "--kind-field",
            "handle=h1",
            "--memory-max",
            "512M",
        ],
        &argv,
    );
    let before = world.show(&id);
    world.stop_daemon();
    let after = world.show(&id);
    for (key, value) in before.as_object().unwrap() {
        if !matches!(key.as_str(), "node" | "generation" | "unenforced") {
            assert_eq!(&after[key], value, "{key}");
        }
    }
    assert_eq!(world.show("subagent:h1")["id"], before["id"]);
    world.end();
}

#[test]
fn unknown_keys_survive_a_rewrite() {
    let world = World::new();
    let id = world.run_to_end(&["--name", "old"], &["true"]);
    world.stop_daemon();
    let mut file = RowFile::read(&world.row_file(&id));
    file.table.insert("future".into(), "kept".into());
    let nested: toml::Table =
        "deep = { deeper = [1, 2, { x = 1.5 }] }\nwhen = 2026-11-30T12:00:00Z"
            .parse()
            .unwrap();
    file.table.insert("future-table".into(), nested.into());
    file.write();

    world.ctl(&["hold", &id]).ok();
    let rewritten = RowFile::read(&world.row_file(&id)).table;
    assert_eq!(rewritten["held"].as_bool(), Some(true));
    for key in ["future", "future-table"] {
        assert_eq!(rewritten[key], file.table[key], "{key}");
    }
    world.end();
}

#[test]
fn a_file_of_a_newer_schema_is_shown_and_never_changed() {
    let world = World::new();
    let id = world.run_to_end(&["--name", "from the future"], &["true"]);
    world.stop_daemon();
    let mut file = RowFile::read(&world.row_file(&id));
    file.set("schema", 999.into());
    file.table.insert("shape".into(), "unheard of".into());
    file.write();
    let bytes = fs::read(world.row_file(&id)).unwrap();

    assert_eq!(names(&world), ["from the future"]);
    assert!(!world.show(&id)["read_only"].is_null());
    let report = world.json(&["reap", "--grace", "0"]);
    assert_eq!(
        text(&report["rows"][0]["reason"]),
        "newer-schema",
        "{report}"
    );
    for verb in [
        &["hold", &id][..],
        &["forget", &id],
        &["forget", "--force", &id],
    ] {
        let said = world.ctl(verb);
        assert_ne!(said.code, 0, "{verb:?}: {said:?}");
    }
    world.stop_daemon();
    assert_eq!(fs::read(world.row_file(&id)).unwrap(), bytes);
    world.end();
}

/// Spoils the file of a live worker's row.
fn spoilt(file: &mut RowFile, how: &str) {
    match how {
        "pgid 0" => file.set("pgid", 0.into()),
        "pgid 1" => file.set("pgid", 1.into()),
        "pgid -1" => file.set("pgid", (-1).into()),
        "pid 1" => file.set("process.pid", 1.into()),
        "pid -1" => file.set("process.pid", (-1).into()),
        "a status nobody knows" => file.set("status", "dancing".into()),
        "another's id" => file.set("id", "zzzzzzzz".into()),
        _ => panic!("{how}"),
    }
}

#[test]
fn files_that_cannot_be_read_go_to_quarantine_and_the_rest_loads() {
    let world = World::new();
    let good = world.run_to_end(&["--name", "good"], &["true"]);
    let mut bad = Vec::new();
    let ways = [
        "pgid 0",
        "pgid 1",
        "pgid -1",
        "pid 1",
        "pid -1",
        "a status nobody knows",
        "another's id",
    ];
    for how in ways {
        let nap = world.helper("nap");
        bad.push((how, world.run(&[], &[&nap, "nap", world.mark()])));
    }
    for how in ["zero bytes", "empty", "half", "binary"] {
        bad.push((how, world.run_to_end(&[], &["true"])));
    }
    world.kill_daemon();
    wait_until("all of it is gone", || world.processes().is_empty());
    for (how, id) in &bad {
        let path = world.row_file(id);
        let text = fs::read(&path).unwrap();
        match *how {
            "zero bytes" => fs::write(&path, vec![0; text.len()]).unwrap(),
            "empty" => fs::write(&path, "").unwrap(),
            "half" => fs::write(&path, &text[..text.len() / 2]).unwrap(),
            "binary" => fs::write(&path, [0xff, 0xfe, 0x00, 0x80]).unwrap(),
            how => {
                let mut file = RowFile::read(&path);
                spoilt(&mut file, how);
                file.write();
            }
        }
    }

    assert_eq!(names(&world), ["good"]);
    assert_eq!(world.service()["n_quarantined"], bad.len());
    let status = world.ctl(&["status"]).stdout;
    for (how, id) in &bad {
        assert!(!world.row_file(id).exists(), "{how} is still a row");
        let kept = fs::read_dir(world.state().join("quarantine"))
            .unwrap()
            .any(|entry| {
                entry
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .contains(id.as_str())
            });
        assert!(kept, "{how} is not in quarantine");
        assert!(
            status.contains(id.as_str()),
            "{how} is not named:\n{status}"
        );
    }
    assert_eq!(text(&world.show(&good)["name"]), "good");
    world.end();
}

#[test]
fn what_is_no_row_file_harms_nobody() {
    let world = World::new();
    world.run_to_end(&["--name", "good"], &["true"]);
    world.stop_daemon();
    let rows = world.state().join("rows");
    fs::create_dir(rows.join("directory.toml")).unwrap();
    fs::write(rows.join("not an id.toml"), "schema = 1\n").unwrap();
    fs::write(rows.join("notes.txt"), "by hand\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", rows.join("abcdefgh.toml")).unwrap();
    let before = fs::read("/etc/passwd").unwrap();
    assert_eq!(names(&world), ["good"]);
    assert_eq!(fs::read("/etc/passwd").unwrap(), before);
    world.end();
}

#[test]
fn a_second_daemon_on_one_state_directory_fails_and_names_the_first() {
    let world = World::new();
    world.rows();
    let first = world.daemon_pid().unwrap();
    let (state, other) = (world.state(), world.path().join("r2"));
    let dirs = [
        "--state-dir",
        state.to_str().unwrap(),
        "--runtime-dir",
        other.to_str().unwrap(),
    ];
    for more in [&["--no-bus"][..], &["--embedded"]] {
        let said = hear(world.daemon_command(&[&dirs[..], more].concat()));
        assert_ne!(said.code, 0, "{said:?}");
        assert!(
            said.stderr.contains(&first.to_string()),
            "the holder {first} is not named: {said:?}"
        );
    }
    assert_eq!(world.daemon_pid(), Some(first));
    world.rows();
    world.end();
}

#[test]
fn of_racing_starts_one_daemon_remains_and_all_clients_are_served() {
    let world = World::new();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|n| {
                let world = &world;
                scope.spawn(move || world.run(&["--name", &format!("n{n}")], &["true"]))
            })
            .collect();
        for run in runs {
            run.join().unwrap();
        }
    });
    assert_eq!(world.rows().len(), 8);
    let daemon = world.daemon_pid().unwrap();
    // The daemon and its guardian.
    wait_until("the losers are gone", || {
        world
            .daemons()
            .iter()
            .all(|p| p.pid == daemon || Some(p.pid) == proc::Process::read(daemon).map(|d| d.ppid))
    });
    world.end();
}

#[test]
fn names_are_unique_among_rows_that_have_not_ended() {
    let world = World::new();
    let nap = world.helper("nap");
    let first = world.run(&["--name", "one"], &[&nap, "nap", world.mark()]);
    let said = world.ctl(&["run", "--name", "one", "--", "true"]);
    assert_eq!(said.code, 8, "{said:?}");
    assert!(
        said.stderr.contains("one") && said.stderr.contains(&first),
        "{said:?}"
    );
    assert_eq!(world.rows().len(), 1);
    world.ctl(&["cancel", "one"]).ok();
    let second = world.run_to_end(&["--name", "one"], &["true"]);
    let third = world.run(&["--name", "one"], &[&nap, "nap", world.mark()]);
    // The one that lives, then the newest that has ended; an exact id always.
    assert_eq!(text(&world.show("one")["id"]), third);
    world.ctl(&["cancel", "one"]).ok();
    assert_eq!(text(&world.show("one")["id"]), third);
    assert_eq!(text(&world.show(&second)["id"]), second);
    assert_eq!(text(&world.show(&first)["id"]), first);
    world.end();
}

#[test]
fn bytes_that_are_no_utf8_are_kept_losslessly() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let odd = OsStr::from_bytes(b"odd \xff\xfe \\x41 name");
    let dir = world.path().join(odd);
    fs::create_dir(&dir).unwrap();
    let args = [
        OsStr::new("run"),
        "--wait".as_ref(),
        "-d".as_ref(),
        dir.as_os_str(),
        "--".as_ref(),
        "sh".as_ref(),
        "-c".as_ref(),
        "pwd >../pwd; printf %s \"$1\" >../arg".as_ref(),
        "sh".as_ref(),
        odd,
    ];
    world.ctl(&args).ok();
    assert_eq!(fs::read(world.path().join("arg")).unwrap(), odd.as_bytes());
    let pwd = fs::read(world.path().join("pwd")).unwrap();
    assert_eq!(pwd.strip_suffix(b"\n").unwrap(), dir.as_os_str().as_bytes());
    let before = world.rows();
    world.stop_daemon();
    assert_eq!(rows_without_node(&world.rows()), rows_without_node(&before));
    world.end();
}

fn rows_without_node(rows: &[Value]) -> Vec<Value> {
    rows.iter().map(|row| row["argv"].clone()).collect()
}

#[test]
fn values_of_the_environment_are_written_nowhere() {
    let world = World::new();
    let secret = "hunter2-in-the-environment";
    let nap = world.helper("nap");
    let id = world.run(
        &["-E", &format!("TOKEN={secret}")],
        &[&nap, "nap", world.mark()],
    );
    fn files(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    files(&world.state(), &mut found);
    files(&world.runtime(), &mut found);
    assert!(found.contains(&world.row_file(&id)));
    for path in found {
        let bytes = fs::read(&path).unwrap();
        let hit = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!hit, "{}", path.display());
    }
    assert!(!world.ctl(&["show", &id]).stdout.contains(secret));
    world.ctl(&["cancel", &id]).ok();
    world.end();
}
