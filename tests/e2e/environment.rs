//! What a worker is given, and what not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use crate::support::{Containment, World, hear, text, wait_until};

/// Runs a script that writes to `out`, and returns what it wrote.
fn told(world: &World, options: &[&str], script: &str) -> String {
    let out = world.path().join("out");
    let whole = format!("( {script} ) > '{}' 2>&1", out.display());
    world.run_to_end(options, &["sh", "-c", &whole]);
    fs::read_to_string(out).unwrap()
}

#[test]
fn a_worker_has_the_callers_environment_without_the_services_own() {
    let world = World::new();
    let out = world.path().join("out");
    let mut command = world.command(&["run", "--wait", "-E", "GIVEN=yes", "-E", "PASSED", "--"]);
    command.args(["sh", "-c", &format!("env > '{}'", out.display())]);
    for name in [
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
        "LISTEN_PID",
        "WATCHDOG_USEC",
        "MUSTER_WORKER_X",
        "PASSED",
        "KEPT",
    ] {
        command.env(name, "callers");
    }
    hear(command).ok();
    let text = fs::read_to_string(out).unwrap();
    let env: BTreeMap<&str, &str> = text.lines().filter_map(|l| l.split_once('=')).collect();
    for (name, value) in [("GIVEN", "yes"), ("PASSED", "callers"), ("KEPT", "callers")] {
        assert_eq!(env.get(name), Some(&value), "{name}");
    }
    for name in [
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
        "LISTEN_PID",
        "WATCHDOG_USEC",
        "MUSTER_WORKER_X",
    ] {
        assert_eq!(env.get(name), None, "{name}");
    }
    for name in ["MUSTER_WORKER", "MUSTER_SOCKET", "MUSTER_RUNTIME_DIR"] {
        assert!(env.contains_key(name), "{name} in {text}");
    }
    world.end();
}

#[test]
fn a_worker_leads_its_group_with_clean_descriptors_and_signals() {
    for containment in [Containment::Auto, Containment::None] {
        let world = World::with(containment, "");
        let fds = told(&world, &[], "exec ls /proc/self/fd");
        // The fourth is the directory that ls itself reads.
        assert_eq!(
            fds.split_whitespace().collect::<Vec<_>>(),
            ["0", "1", "2", "3"]
        );
        let status = told(&world, &[], "exec cat /proc/self/status");
        let value = |name: &str| {
            status
                .lines()
                .find_map(|l| l.strip_prefix(name)?.strip_prefix(":\t"))
                .unwrap_or_else(|| panic!("{name} in {status}"))
                .to_owned()
        };
        for mask in ["SigBlk", "SigIgn"] {
            assert_eq!(u64::from_str_radix(&value(mask), 16), Ok(0), "{mask}");
        }
        let stat = told(&world, &[], "exec cut -d' ' -f1,5 /proc/$$/stat");
        let ids: Vec<&str> = stat.split_whitespace().collect();
        assert_eq!(ids[0], ids[1], "it does not lead its group");
        world.end();
    }
}

#[test]
fn a_private_runtime_directory_goes_with_its_worker() {
    let world = World::new();
    let script = "echo $MUSTER_RUNTIME_DIR; mkdir $MUSTER_RUNTIME_DIR/deep; \
        touch $MUSTER_RUNTIME_DIR/deep/file $TMPDIR/x; chmod 0 $MUSTER_RUNTIME_DIR/deep; stat -c %a $MUSTER_RUNTIME_DIR; \
        case $TMPDIR in $MUSTER_RUNTIME_DIR*) echo inside;; esac";
    let text = told(&world, &["--private-tmp"], script);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1..], ["700", "inside"], "{text}");
    assert!(!PathBuf::from(lines[0]).exists(), "{} is left", lines[0]);
    world.end();
}

#[test]
fn a_worker_lives_in_a_leaf_of_its_own_and_the_leaf_goes() {
    let test = "a_worker_lives_in_a_leaf_of_its_own_and_the_leaf_goes";
    let Some(world) = World::in_leaves(test, "") else {
        return;
    };
    let mount = crate::support::means::writable_cgroup2().unwrap();
    let nap = world.helper("nap");
    let one = world.run(&[], &[&nap, "nap", world.mark()]);
    let two = world.run(&[], &[&nap, "nap", world.mark()]);
    let daemon =
        fs::read_to_string(format!("/proc/{}/cgroup", world.daemon_pid().unwrap())).unwrap();
    let mut leaves = Vec::new();
    for id in [&one, &two] {
        let row = world.show(id);
        let pid = row["pid"].as_i64().unwrap();
        let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let own = cgroups.lines().find_map(|l| l.strip_prefix("0::")).unwrap();
        assert_eq!(
            text(&row["control_group"]).trim_start_matches('/'),
            own.trim_start_matches('/')
        );
        assert!(!daemon.lines().any(|l| l == format!("0::{own}")));
        leaves.push(mount.join(own.trim_start_matches('/')));
    }
    assert_ne!(leaves[0], leaves[1]);
    world.ctl(&["cancel", &one, &two]).ok();
    for leaf in &leaves {
        wait_until("its leaf is removed", || !leaf.exists());
    }
    let top = leaves[0].parent().unwrap().to_owned();
    world.stop_daemon();
    assert!(!top.exists(), "{} is left", top.display());
    world.end();
}

#[test]
fn the_directories_of_a_private_daemon_are_for_its_user_alone() {
    let world = World::new();
    world.rows();
    for dir in [world.state(), world.state().join("rows"), world.runtime()] {
        let mode = fs::metadata(&dir).unwrap().permissions().mode() & 0o077;
        assert_eq!(mode, 0, "{} is open to others ({mode:o})", dir.display());
    }
    for entry in fs::read_dir(world.runtime()).unwrap() {
        let entry = entry.unwrap();
        let meta = fs::symlink_metadata(entry.path()).unwrap();
        if std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) {
            assert_eq!(meta.mode() & 0o777, 0o600, "{}", entry.path().display());
        }
    }
    world.end();
}
