//! A connection to the daemon that [`super::find`] plans for, and calls that ask again while the
//! daemon reloads.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::agent::Agent;
use super::args::Global;
use super::exit::{Asking, Code, Failure, code_of};
use super::find::{self, Place, Step, Whose};
use super::start;
use crate::dbus::client::{CallError, Client};
use crate::dbus::errors;
pub use crate::places::Real;
use crate::places::{Private, System};

/// How long a reload may keep a call waiting.
const RELOAD_LIMIT: Duration = Duration::from_secs(60);
/// Between two attempts to reach a daemon that is starting or reloading.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the loser of two starts looks for the winner, which may not have written its pid yet.
const PATIENCE: Duration = Duration::from_millis(500);
/// A socket that does not even take the connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(25);

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A daemon that can be called.
#[derive(Debug)]
pub struct Daemon {
    client: RefCell<Client>,
    global: Global,
    agent: RefCell<Option<Agent>>,
    at_system_socket: Cell<bool>,
}

/// May a private daemon be started?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    IfNeeded,
    Never,
}

/// Why a place gave no connection.
enum Miss {
    /// Nobody is there.
    Nobody(String),
    /// Somebody is, but it will not do.
    Fault(Failure),
}

impl Daemon {
    /// Finds or starts a daemon.
    ///
    /// # Errors
    /// Code 7, with what was tried last.
    pub async fn connect(global: &Global) -> Result<Self, Failure> {
        Self::connect_or(global, Start::IfNeeded).await
    }

    /// Finds a daemon that runs, and starts none.
    ///
    /// # Errors
    /// Code 7, with what was tried last.
    pub async fn connect_running(global: &Global) -> Result<Self, Failure> {
        Self::connect_or(global, Start::Never).await
    }

    async fn connect_or(global: &Global, start: Start) -> Result<Self, Failure> {
        let (client, place) = connect_somewhere(global, start).await?;
        let client = client.interactive(!global.no_ask_password);
        let system = Path::new(find::SYSTEM_SOCKET);
        let at_system_socket = matches!(&place, Place::Socket { path, .. } if path == system);
        Ok(Self {
            at_system_socket: Cell::new(at_system_socket),
            client: RefCell::new(client),
            global: global.clone(),
            agent: RefCell::default(),
        })
    }

    /// Is it on another machine, whose files and journal are out of reach here?
    pub fn is_remote(&self) -> bool {
        self.global.host.is_some() || self.global.machine.is_some()
    }

    /// The typed client.
    pub fn client(&self) -> Client {
        self.client.borrow().clone()
    }

    /// Calls; asks again while the daemon reloads. A connection lost to the reload is made anew.
    pub async fn call<T>(
        &self,
        call: impl AsyncFn(Client) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut reloading: Option<Instant> = None;
        loop {
            let error = match call(self.client()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let now = Instant::now();
            match (&error, reloading) {
                (_, Some(since)) if now.duration_since(since) > RELOAD_LIMIT => return Err(error),
                (CallError::Refused { code, .. }, _) if *code == errors::Code::Reloading => {
                    reloading.get_or_insert(now);
                }
                // Where kernel or polkit are too old to tell who is at a socket, the bus can.
                (CallError::Refused { code, .. }, _)
                    if code.is_denied() && self.go_to_the_bus().await =>
                {
                    continue;
                }
                // A denial may have been for want of somebody to ask for the password.
                (CallError::Refused { code, .. }, _) if code.is_denied() && self.can_ask_now() => {
                    continue;
                }
                (CallError::Unreachable(_), Some(_)) => {
                    if let Ok(client) = connect(&self.global).await {
                        self.client.replace(client);
                    }
                }
                // It was there when this program connected.
                (CallError::Unreachable(why), None) => {
                    return Err(CallError::Unreachable(format!(
                        "{why}; it has gone meanwhile. If it was killed its workers ended with it: \
                         musterctl list -a"
                    )));
                }
                _ => return Err(error),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Daemon {
    /// Goes on over the system bus, once, if this is the system's daemon at its socket.
    async fn go_to_the_bus(&self) -> bool {
        if !self.at_system_socket.replace(false) || own_uid() == 0 {
            return false;
        }
        match try_place(&Place::SystemBus, true).await {
            Ok(client) => {
                let client = client.interactive(!self.global.no_ask_password);
                self.client.replace(client);
                true
            }
            Err(_) => false,
        }
    }

    /// Starts polkit's agent, once. False if there is none to start.
    fn can_ask_now(&self) -> bool {
        let mut agent = self.agent.borrow_mut();
        if agent.is_some() || self.global.no_ask_password || own_uid() == 0 {
            return false;
        }
        *agent = Agent::start();
        agent.is_some()
    }
}

/// What a failed call means to the caller of the program.
pub fn failure(error: CallError, asking: Asking) -> Failure {
    match error {
        CallError::Refused { name, message, .. } => Failure::new(
            code_of(&name, asking),
            super::output::text::escape(&message),
        ),
        CallError::Unreachable(_) => Failure::unreachable(error.to_string()),
        CallError::BadReply(_) => Failure::failed(error.to_string()),
    }
}

async fn connect(global: &Global) -> Result<Client, Failure> {
    let (client, _) = connect_somewhere(global, Start::IfNeeded).await?;
    Ok(client.interactive(!global.no_ask_password))
}

async fn connect_somewhere(global: &Global, start: Start) -> Result<(Client, Place), Failure> {
    let mut last = String::from("no daemon was looked for");
    for Step { place, or_next } in find::plan(global, &Real)? {
        if start == Start::Never && matches!(place, Place::Start(_)) {
            continue;
        }
        match try_place(&place, global.quiet).await {
            Ok(client) => return Ok((client, place)),
            Err(Miss::Nobody(why)) if or_next => last = why,
            Err(Miss::Nobody(why)) => {
                return Err(Failure::unreachable(format!("cannot reach musterd: {why}")));
            }
            Err(Miss::Fault(failure)) => return Err(failure),
        }
    }
    Err(Failure::unreachable(format!(
        "cannot reach musterd: {last}"
    )))
}

async fn try_place(place: &Place, quiet: bool) -> Result<Client, Miss> {
    match place {
        Place::Socket { path, whose } => Ok(socket(path, *whose).await?.0),
        Place::Bus(address) => bus(address).await,
        Place::SystemBus => {
            bus(&bus_address(
                "DBUS_SYSTEM_BUS_ADDRESS",
                "unix:path=/run/dbus/system_bus_socket",
            ))
            .await
        }
        Place::SessionBus => {
            let runtime = Real.env("XDG_RUNTIME_DIR").unwrap_or_default();
            let fallback = format!("unix:path={}/bus", Path::new(&runtime).display());
            bus(&bus_address("DBUS_SESSION_BUS_ADDRESS", &fallback)).await
        }
        Place::Start(private) => private_daemon(private, quiet).await,
    }
}

fn bus_address(variable: &str, fallback: &str) -> String {
    Real.env(variable)
        .and_then(|value| value.into_string().ok())
        .unwrap_or_else(|| fallback.to_owned())
}

/// A bus on which somebody answers to the name, or can be started.
async fn bus(address: &str) -> Result<Client, Miss> {
    let nobody = |error: CallError| match error {
        CallError::Unreachable(why) => Miss::Nobody(format!("{address}: {why}")),
        other => Miss::Fault(failure(other, Asking::Action)),
    };
    let client = Client::bus(address).await.map_err(nobody)?;
    let ping = client
        .connection()
        .call_method(
            Some(crate::dbus::BUS_NAME),
            crate::dbus::OBJECT,
            Some("org.freedesktop.DBus.Peer"),
            "Ping",
            &(),
        )
        .await;
    match ping {
        Ok(_) => Ok(client),
        Err(error) => Err(Miss::Nobody(format!("{address}: {error}"))),
    }
}

/// A connection to a socket whose both ends are whose they should be, and the pid of the peer.
async fn socket(path: &Path, whose: Whose) -> Result<(Client, Option<i32>), Miss> {
    let shown = path.display();
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) => return Err(Miss::Nobody(format!("{shown}: {e}"))),
    };
    if whose == Whose::Own
        && let Some(dir) = path.parent()
    {
        start::check_private_dir(dir, "MUSTERD_RUNTIME_DIR").map_err(Miss::Fault)?;
    }
    let foreign = |what: &str, uid: u32| {
        Miss::Fault(Failure::unreachable(format!(
            "{shown}: {what} uid {uid}, which is neither root nor you; not talking to it"
        )))
    };
    if !may_be(meta.uid(), whose) {
        return Err(foreign("belongs to", meta.uid()));
    }
    let connecting = tokio::net::UnixStream::connect(path);
    let stream = match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(e)) => return Err(Miss::Nobody(format!("{shown}: {e}"))),
        Err(_) => return Err(Miss::Nobody(format!("{shown}: it does not answer"))),
    };
    let fault = |e: io::Error| Miss::Nobody(format!("{shown}: {e}"));
    let peer = stream.peer_cred().map_err(fault)?;
    if !may_be(peer.uid(), whose) {
        return Err(foreign("is served by", peer.uid()));
    }
    let stream = stream.into_std().map_err(fault)?;
    match Client::over(stream).await {
        Ok(client) => Ok((client, peer.pid())),
        Err(e) => Err(Miss::Nobody(format!("{shown}: {e}"))),
    }
}

/// May the daemon, or its socket, be this uid's?
fn may_be(uid: u32, whose: Whose) -> bool {
    let own = own_uid();
    if uid == own || uid == 0 {
        return true;
    }
    match whose {
        Whose::Own => false,
        Whose::Named if own == 0 => true,
        Whose::Named | Whose::Trusted => nix::unistd::User::from_name("musterd")
            .ok()
            .flatten()
            .is_some_and(|user| user.uid.as_raw() == uid),
    }
}

/// Starts a private daemon; of two racing starts the loser finds the winner's socket.
async fn private_daemon(private: &Private, quiet: bool) -> Result<Client, Miss> {
    let end = Instant::now() + start::START_LIMIT;
    let mut begun = start::start(private).map_err(Miss::Fault)?;
    let look_until = Instant::now() + PATIENCE;
    let mut was_held = false;
    loop {
        match socket(&private.socket(), Whose::Own).await {
            Ok((client, pid)) => {
                if begun.ready && !quiet {
                    let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
                    say!(
                        "musterctl: started a private daemon for this user{pid}; it ends by itself when idle"
                    );
                }
                return Ok(client);
            }
            Err(Miss::Fault(fault)) => return Err(Miss::Fault(fault)),
            Err(Miss::Nobody(_)) => {}
        }
        let held = start::is_held(private);
        let now = Instant::now();
        let hope = begun.is_there() || held || was_held || now < look_until;
        if !hope || now > end {
            return Err(Miss::Fault(start::failure(private, &begun)));
        }
        if was_held && !held && !begun.ready {
            // The holder was on its way out, idle; now there is room.
            begun = start::start(private).map_err(Miss::Fault)?;
        }
        was_held = held;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Code of several answers: the worst, each failure said on stderr as it comes.
#[derive(Debug, Default)]
pub struct Tally {
    code: Option<Code>,
}

impl Tally {
    /// Takes one more answer.
    pub fn add(&mut self, result: Result<Code, Failure>) {
        let code = match result {
            Ok(code) => code,
            Err(failure) => {
                super::complain(&failure);
                failure.code
            }
        };
        self.code = Some(self.code.map_or(code, |c| c.worst(code)));
    }

    /// The worst.
    pub fn code(&self) -> Code {
        self.code.unwrap_or(Code::DONE)
    }
}
