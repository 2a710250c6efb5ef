//! Real clients: busctl over the socket and over a private dbus-daemon.

use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use musterd::dbus::client::{Client, Event};
use musterd::dbus::errors::Code;
use musterd::dbus::{BusError, bus};
use musterd::supervisor::handle::Change;

use crate::fake::{Fake, id};

/// A dbus-daemon of this test's own, ended by its pid.
pub struct Bus {
    daemon: Child,
    pub address: String,
    _dir: tempfile::TempDir,
}

impl Bus {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address = format!("unix:path={}/bus", dir.path().display());
        Self::start_at(dir, address)
    }

    /// One that other users than the test's may connect to.
    pub fn for_all_users() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let address = format!("unix:path={}/bus", dir.path().display());
        Self::start_at(dir, address)
    }

    pub fn start_at(dir: tempfile::TempDir, address: String) -> Self {
        let config = dir.path().join("bus.conf");
        let text = format!(
            r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>{address}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>"#
        );
        std::fs::write(&config, text).unwrap();
        let mut daemon = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", config.display()))
            .args(["--nofork", "--nopidfile", "--print-address"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon (Debian package dbus-daemon) is needed for this test");
        // It serves once it has printed its address.
        let mut line = String::new();
        let out = daemon.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert!(line.starts_with("unix:"), "{line:?}");
        Self {
            daemon,
            address,
            _dir: dir,
        }
    }

    /// Ends the daemon; the directory and the address stay.
    pub fn end(mut self) -> (tempfile::TempDir, String) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        let dir = std::mem::replace(&mut self._dir, tempfile::tempdir().unwrap());
        (dir, self.address.clone())
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        // Ended already is fine.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

async fn busctl(address: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("busctl");
    command
        .arg(format!("--address={address}"))
        .args(["--no-pager", "--timeout=10"])
        .args(arguments)
        .env("LC_ALL", "C");
    tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .expect("busctl (Debian package systemd) is needed for this test")
}

/// Standard output of a call that must succeed.
pub async fn good(address: &str, arguments: &[&str]) -> String {
    let output = busctl(address, arguments).await;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "busctl {arguments:?}: {out}{err}");
    out.trim_end().to_owned()
}

const WHOM: [&str; 3] = ["org.muster1", "/org/muster1", "org.muster1.Manager"];
const A_PATH: &str = "/org/muster1/worker/0000000a";

fn manager<'a>(verb: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&[verb], &WHOM[..], rest].concat()
}

async fn everything_works_with_busctl(address: &str) {
    let get = manager("get-property", &["Version"]);
    assert_eq!(good(address, &get).await, "s \"1.2.3\"");
    let call = manager("call", &["GetWorker", "s", "web"]);
    assert_eq!(good(address, &call).await, format!("o \"{A_PATH}\""));
    let spawn = [
        "Spawn", "a{sv}", "2", "argv", "as", "1", "true", "name", "s", "n",
    ];
    let spawned = good(address, &manager("call", &spawn)).await;
    assert!(
        spawned.starts_with(&format!("soa{{sv}} \"0000000a\" \"{A_PATH}\"")),
        "{spawned}"
    );
    let list = ["ListWorkers", "a{sv}", "1", "limit", "u", "2"];
    let listed = good(address, &manager("call", &list)).await;
    assert!(listed.starts_with("a(sssssuuttoa{sv}) 2 "), "{listed}");
    let introspect = good(address, &["introspect", "org.muster1", "/org/muster1"]).await;
    for word in [
        ".Spawn",
        "method",
        "a{sv}",
        ".NWorkers",
        ".WorkerExited",
        "sosa{sv}",
    ] {
        assert!(introspect.contains(word), "{word}: {introspect}");
    }
    let introspect = good(address, &["introspect", "org.muster1", A_PATH]).await;
    assert!(introspect.contains(".CommandLine") && introspect.contains("\"agent\""));
    let wrong = busctl(address, &manager("call", &["GetWorker", "s", "missing"])).await;
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        !wrong.status.success() && text.contains("missing"),
        "{text}"
    );
}

#[tokio::test]
async fn busctl_works_on_the_socket_without_a_bus() {
    let fake = Fake::start();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let serving = tokio::spawn(fake.server.clone().serve_socket(listener.into()));
    everything_works_with_busctl(&format!("unix:path={}", path.display())).await;
    let client = Client::peer(&path).await.unwrap();
    assert_eq!(client.service().await.unwrap().version, "1.2.3");
    serving.abort();
}

#[tokio::test]
async fn busctl_works_on_a_bus_and_the_caller_is_who_the_bus_says() {
    let (bus, fake) = (Bus::start(), Fake::start());
    let link = fake.server.serve_bus(&bus.address).await.unwrap();
    everything_works_with_busctl(&bus.address).await;
    let tree = good(&bus.address, &["tree", "--list", "org.muster1"]).await;
    assert!(tree.contains("/org/muster1/worker/"), "{tree}");
    let client = Client::bus(&bus.address).await.unwrap();
    let error = client.get_worker("missing").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::NoSuchWorker));
    let callers = fake.seen.lock().unwrap().callers.clone();
    // busctl ran as this user in a process of its own.
    assert!(
        callers
            .iter()
            .all(|c| c.uid == nix::unistd::getuid().as_raw())
    );
    assert!(callers.iter().any(|c| c.pid.is_some()));
    link.release().await;
    let gone = Client::bus(&bus.address).await.unwrap().service().await;
    assert!(gone.is_err_and(|e| e.code().is_none()));
}

#[tokio::test]
async fn signals_reach_listeners_on_a_bus() {
    let (bus, fake) = (Bus::start(), Fake::start());
    let _link = fake.server.serve_bus(&bus.address).await.unwrap();
    let client = Client::bus(&bus.address).await.unwrap();
    let mut events = client.events().await.unwrap();
    fake.changes.send(Change::New(id("0000000a"))).unwrap();
    let new = Event::New {
        id: "0000000a".into(),
    };
    assert_eq!(events.next().await, Some(new));
}

#[tokio::test]
async fn a_name_that_is_taken_is_an_error_with_the_holders_pid() {
    let (bus, first, second) = (Bus::start(), Fake::start(), Fake::start());
    let _link = first.server.serve_bus(&bus.address).await.unwrap();
    let error = bus::connect(&second.server, &bus.address, Duration::ZERO).await;
    let holder = format!("pid {}", std::process::id());
    assert_eq!(error.unwrap_err(), BusError::NameTaken { holder });
    let nowhere = bus::connect(&second.server, "unix:path=/nonexistent", Duration::ZERO).await;
    assert!(matches!(nowhere, Err(BusError::Unreachable { .. })));
}

#[tokio::test]
async fn after_a_restart_of_the_bus_the_name_is_there_again() {
    let (first, fake) = (Bus::start(), Fake::start());
    let link = fake.server.serve_bus(&first.address).await.unwrap();
    let keeping = tokio::spawn(bus::keep(
        fake.server.clone(),
        first.address.clone(),
        Some(link),
    ));
    let (dir, address) = first.end();
    std::fs::remove_file(dir.path().join("bus")).ok();
    let again = Bus::start_at(dir, address);
    let client = Client::bus(&again.address).await.unwrap();
    let back = async {
        while client.service().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), back)
        .await
        .unwrap();
    keeping.abort();
}
