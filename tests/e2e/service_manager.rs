//! What the service manager is told (sd_notify(3)), heard on a socket in its place.

use std::cell::RefCell;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{Containment, World, wait_until};

/// The service manager's end, and the daemon it started.
struct Manager {
    world: World,
    socket: UnixDatagram,
    heard: RefCell<Vec<String>>,
    daemon: Child,
}

impl Manager {
    fn start(config: &str) -> Manager {
        let world = World::with(Containment::None, config);
        let path = world.path().join("n");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let daemon = world
            .daemon_command(&["--user", "--no-bus"])
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "400000")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let manager = Manager {
            world,
            socket,
            heard: RefCell::default(),
            daemon,
        };
        manager.hear("it is ready", |m| m.starts_with("READY=1"));
        manager
    }

    /// Waits for a datagram, and forgets all up to it.
    fn hear(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let mut found = None;
        wait_until(what, || {
            let mut bytes = [0; 4096];
            while let Ok(length) = self.socket.recv(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                self.heard.borrow_mut().push(text);
            }
            let mut heard = self.heard.borrow_mut();
            if let Some(at) = heard.iter().position(|message| fits(message)) {
                found = Some(heard.remove(at));
                heard.drain(..at);
            }
            found.is_some()
        });
        found.unwrap()
    }

    fn end(mut self) {
        self.world.stop_daemon();
        assert!(self.daemon.wait().unwrap().success());
        self.world.end();
    }
}

fn now_usec() -> i128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000
}

#[test]
fn a_reload_is_told_with_its_time_and_ends_with_ready() {
    let manager = Manager::start("");
    let began = now_usec();
    manager.world.ctl(&["reload"]).ok();
    let told = manager.hear("a reload", |m| m.starts_with("RELOADING=1\n"));
    // In one datagram: it belongs to this reload and to none before.
    let time = told
        .lines()
        .find_map(|l| l.strip_prefix("MONOTONIC_USEC="))
        .unwrap();
    let time: i128 = time.parse().unwrap();
    assert!(began <= time && time <= now_usec(), "{told}");
    let ready = manager.hear("the next image is ready", |m| m.contains("READY=1"));
    assert!(ready.contains("STATUS="), "{ready}");
    manager.hear("the next image answers the watchdog", |m| {
        m == "WATCHDOG=1\n"
    });
    manager.end();
}

#[test]
fn a_refused_reload_leaves_the_service_manager_in_peace() {
    let manager = Manager::start("");
    manager.world.write_config("[gc]\ngarce = \"1h\"\n");
    assert_eq!(manager.world.ctl(&["reload"]).code, 1);
    manager.hear("it goes on", |m| m == "WATCHDOG=1\n");
    manager.world.write_config("");
    manager.world.ctl(&["reload"]).ok();
    // The first reload that is told is the second: everything before it was forgotten.
    manager.hear("a reload", |m| {
        assert!(!m.starts_with("READY=1"), "ready without a reload");
        m.starts_with("RELOADING=1\n")
    });
    manager.end();
}

#[test]
fn a_stop_asks_for_the_time_its_drain_may_take() {
    let manager = Manager::start("[ladder]\ndrain_timeout = \"2h\"\n");
    let go = format!("{}/go", manager.world.mark());
    let script = format!("trap '' TERM; until [ -e {go} ]; do sleep 0.05; done");
    manager
        .world
        .run(&["--kill-grace", "60s"], &["sh", "-c", &script]);
    let pid = manager.world.daemon_pid().unwrap();
    crate::support::proc::signal(pid, nix::sys::signal::Signal::SIGTERM);
    let told = manager.hear("it stops", |m| m.starts_with("STOPPING=1\n"));
    let extend = told
        .lines()
        .find_map(|l| l.strip_prefix("EXTEND_TIMEOUT_USEC="))
        .unwrap();
    let extend = Duration::from_micros(extend.parse().unwrap());
    assert!(extend > Duration::from_secs(7200), "{told}");
    assert!(told.contains("STATUS=Ending 1 worker."), "{told}");
    manager.hear("the loop is alive meanwhile", |m| m == "WATCHDOG=1\n");
    fs::write(&go, "").unwrap();
    manager.end();
}
