//! Reload: the image is replaced in place. Same daemon, same workers, no lost exit; a new image
//! that cannot take over is refused and the old one serves on.

use std::fs;
use std::io::{BufRead, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::program;
use crate::support::control::{python, speak};
use crate::support::{Containment, World, code, hear, text, wait_until};

fn pids(world: &World, ids: &[String]) -> Vec<i64> {
    ids.iter()
        .map(|id| world.show(id)["pid"].as_i64().unwrap())
        .collect()
}

fn reloads_keep_everything(world: World) {
    let nap = world.helper("nap");
    let mark = world.mark().to_owned();
    let go = format!("{mark}/go");
    let napping: Vec<String> = (0..5)
        .map(|_| world.run(&[], &[&nap, "nap", &mark]))
        .collect();
    let script = format!("until [ -e {go} ]; do sleep 0.05; done; exit $1");
    let ending: Vec<String> = (0..8)
        .map(|n| {
            world.run(
                &[],
                &["sh", "-c", &script, "sh", &(40 + n).to_string(), &mark],
            )
        })
        .collect();
    let stubborn = world.run(
        &["--kill-grace", "60s"],
        &[
            "sh",
            "-c",
            &format!("trap '' TERM; while :; do sleep 1; done # {mark}"),
        ],
    );
    world.ctl(&["cancel", "--no-block", &stubborn]).ok();
    wait_until("its ladder is under way", || {
        world.status_of(&stubborn) == "stopping"
    });

    let daemon = world.daemon_pid().unwrap();
    let before = pids(&world, &napping);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut calls = 0;
            while !done.load(Ordering::Relaxed) {
                world.ctl(&["list"]).ok();
                calls += 1;
            }
            calls
        });
        for round in 0..10 {
            world.ctl(&["reload"]).ok();
            if round == 4 {
                fs::write(&go, "").unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(caller.join().unwrap() > 0);
    });
    assert_eq!(world.daemon_pid(), Some(daemon));
    assert_eq!(world.service()["generation"].as_i64(), Some(11));
    assert_eq!(pids(&world, &napping), before);
    for (n, id) in ending.iter().enumerate() {
        let row = world.ended(id);
        assert_eq!(code(&row), Some(40 + i64::try_from(n).unwrap()), "{row}");
        assert_eq!(text(&row["how_known"]), "waited", "{row}");
    }
    assert_eq!(
        world.status_of(&stubborn),
        "stopping",
        "the ladder goes on where it was"
    );
    world.ctl(&["cancel", "--now", &stubborn]).ok();
    assert_eq!(text(&world.ended(&stubborn)["rung"]), "kill");
    let late = world.run_to_end(&[], &["sh", "-c", "ls -l /proc/self/fd; exit 6"]);
    assert_eq!(
        code(&world.show(&late)),
        Some(6),
        "new workers start as before"
    );
    world.end();
}

#[test]
fn ten_reloads_in_leaves_lose_no_worker_no_call_and_no_exit() {
    let test = "ten_reloads_in_leaves_lose_no_worker_no_call_and_no_exit";
    if let Some(world) = World::in_leaves(test, "") {
        reloads_keep_everything(world);
    }
}

#[test]
fn ten_reloads_without_a_cgroup_lose_no_worker_no_call_and_no_exit() {
    reloads_keep_everything(World::without_cgroup(""));
}

#[test]
fn a_wait_goes_on_over_a_reload() {
    let world = World::new();
    let go = format!("{}/go", world.mark());
    let script = format!("until [ -e {go} ]; do sleep 0.05; done; exit 9");
    let id = world.run(&[], &["sh", "-c", &script]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| world.ctl(&["wait", &id]));
        world.ctl(&["reload"]).ok();
        fs::write(&go, "").unwrap();
        assert_eq!(waiting.join().unwrap().code, 9);
    });
    world.end();
}

#[test]
fn a_broken_configuration_is_refused_and_the_old_image_serves_on() {
    let world = World::with(Containment::Auto, "");
    let nap = world.helper("nap");
    let id = world.run(&[], &[&nap, "nap", world.mark()]);
    let before = fs::read_to_string(world.config_root().join("musterd/musterd.toml"));
    world.write_config("[gc]\ngarce = \"1h\"\n");
    let said = world.ctl(&["reload"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr.contains("garce") && said.stderr.contains("grace"),
        "{said:?}"
    );
    assert_eq!(world.status_of(&id), "live");
    assert_eq!(world.service()["generation"].as_i64(), Some(1));
    world.write_config(&before.unwrap_or_default());
    world.ctl(&["reload"]).ok();
    assert_eq!(world.service()["generation"].as_i64(), Some(2));
    world.end();
}

#[test]
fn an_image_that_cannot_run_is_refused_and_the_old_one_serves_on() {
    let world = World::new();
    let image = world.path().join("musterd");
    fs::copy(program("musterd"), &image).unwrap();
    let mut start = world.command(&["run", "-q", "--", "sleep", "1000"]);
    start.env("MUSTERD_BIN", &image);
    let id = hear(start).ok().stdout.trim().to_owned();
    let bytes = fs::read(&image).unwrap();
    let spoil: [(&str, Vec<u8>); 3] = [
        ("truncated", bytes[..64 * 1024].to_vec()),
        (
            "panicking",
            b"#!/bin/sh\necho 'thread main panicked' >&2\nexit 101\n".to_vec(),
        ),
        ("silent", b"#!/bin/sh\nexit 0\n".to_vec()),
    ];
    for (what, bytes) in spoil {
        // A running image may not be written to, only replaced.
        fs::remove_file(&image).unwrap();
        fs::write(&image, bytes).unwrap();
        fs::set_permissions(&image, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let said = world.ctl(&["reload"]);
        assert_eq!(said.code, 1, "{what}: {said:?}");
        assert_eq!(world.service()["generation"].as_i64(), Some(1), "{what}");
        assert_eq!(world.status_of(&id), "live", "{what}");
    }
    fs::remove_file(&image).unwrap();
    fs::copy(program("musterd"), &image).unwrap();
    world.ctl(&["reload"]).ok();
    assert_eq!(world.service()["generation"].as_i64(), Some(2));
    assert_eq!(world.status_of(&id), "live");
    world.ctl(&["cancel", &id]).ok();
    world.end();
}

/// A message bus of this test's own, ended by its pid.
struct Bus {
    daemon: Child,
    address: String,
}

impl Bus {
    fn in_world(world: &World) -> Bus {
        let address = format!("unix:path={}/bus", world.path().display());
        let config = world.path().join("bus.conf");
        let text = format!(
            "<busconfig><type>session</type><listen>{address}</listen><auth>EXTERNAL</auth>\
             <policy context=\"default\"><allow user=\"*\"/><allow own=\"*\"/>\
             <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/></policy>\
             </busconfig>"
        );
        fs::write(&config, text).unwrap();
        let mut daemon = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--nopidfile", "--print-address"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon (Debian package dbus-daemon) is needed for this test");
        let mut line = String::new();
        let out = daemon.stdout.take().unwrap();
        std::io::BufReader::new(out).read_line(&mut line).unwrap();
        assert!(line.starts_with("unix:"), "{line:?}");
        Bus { daemon, address }
    }

    fn busctl(&self, world: &World, args: &[&str]) -> String {
        let mut command = Command::new("busctl");
        let at = format!("--address={}", self.address);
        command.arg(at).args(args).current_dir(world.home());
        hear(command).ok().stdout
    }

    fn owner(&self, world: &World) -> String {
        let bus = "org.freedesktop.DBus";
        let args = ["call", bus, "/org/freedesktop/DBus", bus, "GetNameOwner"];
        self.busctl(world, &[&args[..], &["s", "org.muster1"]].concat())
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Nobody on the bus sees the name change hands, so nobody asks for a start of the service.
#[test]
fn a_reload_keeps_the_connection_to_the_bus_and_the_name_on_it() {
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid());
    if me.is_ok_and(|user| user.is_none()) {
        let why = "dbus-daemon turns away a user it cannot look up";
        return crate::support::means::not_mine("a reload keeps the name", why);
    }
    let world = World::without_cgroup("");
    let bus = Bus::in_world(&world);
    let mut daemon = world
        .daemon_command(&["--user", "--address", &bus.address])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the name is taken", || {
        let names = bus.busctl(&world, &["list", "--acquired"]);
        names.contains("org.muster1")
    });
    let before = bus.owner(&world);
    let id = world.run(&[], &["sleep", "1000"]);
    for _ in 0..3 {
        world.ctl(&["reload"]).ok();
        assert_eq!(bus.owner(&world), before);
        let call = ["call", "org.muster1", "/org/muster1", "org.muster1.Manager"];
        let said = bus.busctl(&world, &[&call[..], &["GetWorker", "s", &id]].concat());
        assert!(said.contains(&id), "{said}");
    }
    assert_eq!(world.service()["generation"].as_i64(), Some(4));
    world.ctl(&["cancel", &id]).ok();
    world.stop_daemon();
    assert!(daemon.wait().unwrap().success());
    drop(bus);
    world.end();
}

#[test]
fn a_client_that_does_not_read_holds_up_no_reload() {
    let world = World::without_cgroup("");
    let id = world.run(&[], &["sleep", "1000"]);
    let mut deaf = UnixStream::connect(world.runtime().join("sock")).unwrap();
    deaf.write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")
        .unwrap();
    deaf.set_nonblocking(true).unwrap();
    // Until neither answers nor further calls fit anywhere.
    let mut refused = 0;
    while refused < 20 {
        let call = zbus::Message::method_call("/org/muster1", "Status")
            .interface("org.muster1.Manager")
            .build(&("",))
            .unwrap();
        match deaf.write(call.data()) {
            Ok(sent) => assert_eq!(sent, call.data().len(), "a part of a message was sent"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refused += 1;
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
    world.ctl(&["reload"]).ok();
    assert_eq!(world.service()["generation"].as_i64(), Some(2));
    assert_eq!(world.status_of(&id), "live");
    world.ctl(&["cancel", &id]).ok();
    world.end();
}

#[test]
fn a_stop_while_an_image_is_tried_is_not_forgotten_by_it() {
    let world = World::with(Containment::Auto, "[ladder]\nkill_grace = \"4s\"\n");
    let image = world.path().join("musterd");
    fs::copy(program("musterd"), &image).unwrap();
    let mut start = world.command(&["run", "-q", "--", "sh", "-c", "trap '' TERM; sleep 1000"]);
    start.env("MUSTERD_BIN", &image);
    let id = hear(start).ok().stdout.trim().to_owned();
    // An image that takes its time, but less than the worker.
    let tried = world.path().join("tried");
    let script = format!(
        "#!/bin/sh\n: >'{}'\nsleep 1\nexec '{}' \"$@\"\n",
        tried.display(),
        program("musterd").display()
    );
    fs::remove_file(&image).unwrap();
    fs::write(&image, script).unwrap();
    fs::set_permissions(&image, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut reload = world.command(&["reload"]);
    reload.stdin(Stdio::null()).stderr(Stdio::piped());
    let reload = reload.spawn().unwrap();
    wait_until("the image is tried", || tried.exists());
    world.stop_daemon();
    let said = reload.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("the service was told to end"), "{said}");
    assert_eq!(text(&world.ended(&id)["outcome"]), "cancelled");
    world.end();
}

/// Hooks are not handed over, so a reload waits for them; nobody else does.
#[test]
fn a_stop_hook_holds_up_the_reload_and_nobody_else() {
    if !python("a_stop_hook_holds_up_the_reload_and_nobody_else") {
        return;
    }
    let world = World::new();
    let (began, go) = (world.path().join("began"), world.path().join("go"));
    let hook = format!(
        "touch {}; until [ -e {} ]; do sleep 0.02; done",
        began.display(),
        go.display()
    );
    let id = speak(
        &world,
        &[],
        &format!(
            "spawned(); ask(1, 'spawn', argv=['true'], name='hooked', \
             **{{'stop-hook': ['sh', '-c', {hook:?}]}}); wait()"
        ),
    );
    wait_until("the hook runs", || began.exists());
    let row = world.show("hooked");
    assert_eq!(text(&row["status"]), "stopping", "{row}");
    assert!(row["health"].is_null(), "{row}");
    assert!(text(&row["note"]).contains("its stop hook runs"), "{row}");
    let said = world.ctl(&["cancel", "--no-block", "hooked"]).ok();
    assert!(said.stdout.contains("being ended already"), "{said:?}");
    let mut reload = world.command(&["reload"]);
    reload.stdin(Stdio::null()).stdout(Stdio::null());
    let mut reload = reload.spawn().unwrap();
    for _ in 0..50 {
        let victim = world.run(&[], &["sleep", "1000"]);
        world.ctl(&["cancel", "--now", &victim]).ok();
    }
    assert_eq!(world.service()["generation"], 1, "it waits");
    assert!(reload.try_wait().unwrap().is_none());
    fs::write(&go, "").unwrap();
    assert!(reload.wait().unwrap().success());
    wait_until("the next image serves", || {
        world.service()["generation"] == 2
    });
    assert_eq!(code(&world.ended("hooked")), Some(0));
    world.ctl(&["cancel", "--now", &id]).ok();
    world.end();
}

#[test]
fn a_cancel_in_the_stop_hook_prevents_the_next_generation() {
    if !python("a_cancel_in_the_stop_hook_prevents_the_next_generation") {
        return;
    }
    let config = "[restart]\nbackoff_min = \"10ms\"\nbackoff_max = \"10ms\"\n";
    let world = World::with(Containment::Auto, config);
    let (began, go) = (world.path().join("began"), world.path().join("go"));
    let hook = format!(
        "touch {}; until [ -e {} ]; do sleep 0.02; done",
        began.display(),
        go.display()
    );
    let id = speak(
        &world,
        &[],
        &format!(
            "spawned(); ask(1, 'spawn', argv=['true'], name='hooked', restart='always', \
             **{{'stop-hook': ['sh', '-c', {hook:?}]}}); wait()"
        ),
    );
    wait_until("the hook runs", || began.exists());
    world
        .ctl(&["cancel", "--no-block", "--reason", "enough", "hooked"])
        .ok();
    fs::write(&go, "").unwrap();
    let row = world.ended("hooked");
    assert_eq!(row["restarts"], 0, "{row}");
    assert_eq!(text(&row["cancelled"]["reason"]), "enough", "{row}");
    assert_eq!(code(&row), Some(0), "{row}");
    world.ctl(&["cancel", "--now", &id]).ok();
    world.end();
}
