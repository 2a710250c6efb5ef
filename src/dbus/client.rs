//! The client's side of the contract: what `musterctl` and the tests call. Typed, over the socket
//! or a bus; errors come back as a [`Code`] with the daemon's own words.

mod events;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zbus::names::OwnedErrorName;
use zbus::proxy::MethodFlags;
use zbus::{Connection, OwnedObjectPath, Variant};

use super::adopt::adoption_to_dict;
use super::convert;
use super::errors::Code;
use super::log_control::{LOG_CONTROL, LOG_OBJECT};
use super::replies::{Dict, find, get, id_of, listed, reaped_row};
use super::report::facts_to_dict;
use super::{BUS_NAME, MANAGER, OBJECT, WORKER, spec};
use crate::supervisor::adopt::Adoption;
use crate::supervisor::handle::{
    CancelOptions, DrainOptions, ListFilter, ReapOptions, Stdio, Whom,
};
use crate::supervisor::report::Facts;
use crate::worker::Spec;

pub use super::replies::{Cancelled, Event, Listed, Reaped, ReapedRow, Service, Spawned, Waited};
pub use events::Events;

const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// A daemon that does not answer the handshake in this time cannot be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(25);

/// Why a call did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The daemon said no, and why.
    #[error("{message}")]
    Refused {
        /// Which no.
        code: Code,
        /// The D-Bus error name.
        name: String,
        /// The daemon's words.
        message: String,
    },
    /// There is no daemon at the other end, or the connection broke.
    #[error("cannot reach musterd: {0}")]
    Unreachable(String),
    /// The daemon's reply is not what the contract says.
    #[error("musterd gave a reply that is not understood: {0}")]
    BadReply(String),
}

impl CallError {
    /// The code of a refusal.
    pub fn code(&self) -> Option<Code> {
        match self {
            CallError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// A connection to a daemon. Cheap to clone; calls may run at the same time.
#[derive(Debug, Clone)]
pub struct Client {
    connection: Connection,
    on_bus: bool,
    flags: MethodFlags,
}

impl Client {
    /// Asks only a daemon that is there: no bus starts one for this call.
    #[must_use]
    pub fn without_activation(mut self) -> Self {
        self.flags |= MethodFlags::NO_AUTO_START;
        self
    }

    /// Says with every call that a person may be asked for a password, or that nobody may.
    #[must_use]
    pub fn interactive(mut self, interactive: bool) -> Self {
        self.flags
            .set(MethodFlags::ALLOW_INTERACTIVE_AUTH, interactive);
        self
    }

    /// Over a daemon's own socket.
    ///
    /// # Errors
    /// [`CallError::Unreachable`] if nobody listens, or nobody answers for 25 s.
    pub async fn peer(path: &Path) -> Result<Self, CallError> {
        let unreachable =
            |why: String| CallError::Unreachable(format!("{}: {why}", path.display()));
        let stream = tokio::net::UnixStream::connect(path)
            .await
            .and_then(tokio::net::UnixStream::into_std)
            .map_err(|e| unreachable(e.to_string()))?;
        Self::over(stream).await.map_err(|error| match error {
            CallError::Unreachable(why) => unreachable(why),
            other => other,
        })
    }

    /// Over a connected socket whose other end a daemon serves.
    pub async fn over(stream: std::os::unix::net::UnixStream) -> Result<Self, CallError> {
        let built = zbus::connection::Builder::unix_stream(stream).p2p().build();
        Self::built(built, false).await
    }

    /// Over a message bus at `address` (dbus address syntax).
    pub async fn bus(address: &str) -> Result<Self, CallError> {
        let built = zbus::connection::Builder::address(address).build();
        Self::built(built, true).await
    }

    async fn built(
        building: impl Future<Output = zbus::Result<Connection>>,
        on_bus: bool,
    ) -> Result<Self, CallError> {
        match tokio::time::timeout(CONNECT_TIMEOUT, building).await {
            Ok(Ok(connection)) => Ok(Self {
                connection,
                on_bus,
                flags: MethodFlags::empty(),
            }),
            Ok(Err(error)) => Err(CallError::Unreachable(error.to_string())),
            Err(_) => Err(CallError::Unreachable(format!(
                "no answer to the handshake in {} s",
                CONNECT_TIMEOUT.as_secs()
            ))),
        }
    }

    /// The connection itself, for what has no method here.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    async fn call<B, R>(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<R, CallError>
    where
        B: Serialize + zbus::DynamicType,
        R: DeserializeOwned + zbus::Type,
    {
        if !self.flags.is_empty() {
            let proxy = self.proxy(path, interface).await.map_err(call_error)?;
            let reply = proxy.call_with_flags(method, self.flags, body).await;
            return reply
                .map_err(call_error)?
                .ok_or_else(|| CallError::BadReply(format!("{method}: nothing")));
        }
        let to = self.on_bus.then_some(BUS_NAME);
        let reply = self
            .connection
            .call_method(to, path, Some(interface), method, body)
            .await
            .map_err(call_error)?;
        let body = reply.body();
        body.deserialize::<R>()
            .map_err(|e| CallError::BadReply(format!("{method}: {e}")))
    }

    /// Only a proxy can send flags with a call.
    async fn proxy<'p>(
        &'p self,
        path: &'p str,
        interface: &'p str,
    ) -> zbus::Result<zbus::Proxy<'p>> {
        zbus::proxy::Builder::new(&self.connection)
            .destination(BUS_NAME)
            .path(path)
            .interface(interface)
            .cache_properties(zbus::proxy::CacheProperties::No)
            .build()
            .await
    }

    async fn manager<B, R>(&self, method: &str, body: &B) -> Result<R, CallError>
    where
        B: Serialize + zbus::DynamicType,
        R: DeserializeOwned + zbus::Type,
    {
        self.call(OBJECT, MANAGER, method, body).await
    }

    /// Starts a worker; returns when its program has been executed.
    pub async fn spawn(&self, spec: &Spec, stdio: Stdio) -> Result<Spawned, CallError> {
        let dict = spec::spec_to_dict(spec, stdio);
        let (id, object, more): (String, OwnedObjectPath, Dict) =
            self.manager("Spawn", &(dict,)).await?;
        Ok(Spawned {
            id,
            object: object.to_string(),
            unenforced: get(&more, "unenforced"),
            durable: get(&more, "durable"),
        })
    }

    /// The object path of the worker that `worker` means.
    pub async fn get_worker(&self, worker: &str) -> Result<String, CallError> {
        let path: OwnedObjectPath = self.manager("GetWorker", &(worker,)).await?;
        Ok(path.to_string())
    }

    /// The id of the worker that `worker` means.
    pub async fn resolve(&self, worker: &str) -> Result<String, CallError> {
        Ok(id_of(&self.get_worker(worker).await?))
    }

    /// The object path of the worker that a process belongs to.
    pub async fn get_worker_by_pid(&self, pid: u32) -> Result<String, CallError> {
        let path: OwnedObjectPath = self.manager("GetWorkerByPID", &(pid,)).await?;
        Ok(path.to_string())
    }

    /// One page of rows, sorted by id.
    pub async fn list_page(&self, filter: &ListFilter) -> Result<Vec<Listed>, CallError> {
        let rows: Vec<convert::OwnedListRow> = self
            .manager("ListWorkers", &(convert::filter_to_dict(filter),))
            .await?;
        Ok(rows.into_iter().map(listed).collect())
    }

    /// Every row that fits the filter, page by page; `limit` of the filter is the page's.
    pub async fn list(&self, mut filter: ListFilter) -> Result<Vec<Listed>, CallError> {
        let mut all = Vec::new();
        loop {
            let page = self.list_page(&filter).await?;
            let Some(last) = page.last() else { break };
            filter.after = last.id.parse().ok();
            all.extend(page);
            if filter.after.is_none() {
                break;
            }
        }
        Ok(all)
    }

    /// JSON of one worker; with an empty name of the whole service.
    pub async fn status(&self, worker: &str) -> Result<serde_json::Value, CallError> {
        let text: String = self.manager("Status", &(worker,)).await?;
        serde_json::from_str(&text).map_err(|e| CallError::BadReply(format!("Status: {e}")))
    }

    /// Puts the process of a pidfd on the roll.
    pub async fn adopt(&self, pidfd: BorrowedFd<'_>, how: &Adoption) -> Result<Spawned, CallError> {
        let (id, object, more): (String, OwnedObjectPath, Dict) = self
            .manager("Adopt", &(zbus::Fd::from(pidfd), adoption_to_dict(how)))
            .await?;
        Ok(Spawned {
            id,
            object: object.to_string(),
            unenforced: get(&more, "unenforced"),
            durable: get(&more, "durable"),
        })
    }

    /// A descriptor: the worker counts as attended while it is open.
    pub async fn attend(&self, worker: &str) -> Result<OwnedFd, CallError> {
        let fd: zbus::OwnedFd = self.manager("Attend", &(worker, no_options())).await?;
        Ok(fd.into())
    }

    /// Reports of the worker that this process sits in.
    pub async fn report(&self, facts: &Facts) -> Result<(), CallError> {
        self.manager("Report", &(facts_to_dict(facts),)).await
    }

    /// Begins a ladder; returns when it has begun and is on disk.
    pub async fn cancel(
        &self,
        worker: &str,
        reason: &str,
        options: CancelOptions,
    ) -> Result<Cancelled, CallError> {
        let options = convert::cancel_to_dict(options);
        let (state, more): (String, Dict) =
            self.manager("Cancel", &(worker, reason, options)).await?;
        Ok(Cancelled {
            state,
            durable: get(&more, "durable"),
            descendants: get(&more, "descendants"),
            outcome: get(&more, "outcome"),
        })
    }

    /// Returns when the worker's last generation has ended.
    pub async fn wait(&self, worker: &str) -> Result<Waited, CallError> {
        let (outcome, details): (String, Dict) =
            self.manager("Wait", &(worker, no_options())).await?;
        Ok(Waited {
            outcome,
            exit_code: find(&details, "exit-code"),
            exit_signal: find(&details, "exit-signal"),
            rung: get(&details, "rung"),
            took_usec: find(&details, "took-usec"),
            processes: get(&details, "processes"),
            leftovers: get(&details, "leftovers"),
            reason: get(&details, "reason"),
            by: find(&details, "by"),
            oom_killed: get(&details, "oom-killed"),
            settled: get(&details, "settled"),
            how_known: get(&details, "how-known"),
        })
    }

    /// Sends a signal.
    pub async fn kill(&self, worker: &str, whom: Whom, signal: i32) -> Result<(), CallError> {
        let whom = convert::whom_word(whom);
        self.manager("Kill", &(worker, whom, signal, no_options()))
            .await
    }

    /// Passes one JSON frame on: inject, pause or resume.
    pub async fn send(&self, worker: &str, frame: &str) -> Result<(), CallError> {
        self.manager("Send", &(worker, frame, no_options())).await
    }

    /// Freezes (`true`) or thaws a worker.
    pub async fn freeze(&self, worker: &str, frozen: bool) -> Result<(), CallError> {
        let method = if frozen { "Freeze" } else { "Thaw" };
        self.manager(method, &(worker, no_options())).await
    }

    /// One sweep; one page of its report.
    pub async fn reap(&self, options: &ReapOptions) -> Result<Reaped, CallError> {
        let (counts, rows): (BTreeMap<String, u64>, Vec<convert::OwnedReportRow>) = self
            .manager("Reap", &(convert::reap_to_dict(options),))
            .await?;
        let rows = rows.into_iter().map(reaped_row).collect();
        Ok(Reaped { counts, rows })
    }

    /// Holds (`true`) or releases a row.
    pub async fn hold(&self, worker: &str, held: bool) -> Result<(), CallError> {
        self.manager("Hold", &(worker, held, no_options())).await
    }

    /// Drops a dead row now; `force` also with a dirty or unprobed worktree.
    pub async fn forget(&self, worker: &str, force: bool) -> Result<(), CallError> {
        let options = HashMap::from([("force", Variant::from(force))]);
        self.manager("Forget", &(worker, options)).await
    }

    /// Brings a reaped or forgotten row back; its id.
    pub async fn restore(&self, worker: &str) -> Result<String, CallError> {
        let path: OwnedObjectPath = self.manager("Restore", &(worker, no_options())).await?;
        Ok(id_of(path.as_str()))
    }

    /// Closes admission; returns when it is closed and, unless they may finish, all ladders have
    /// begun.
    pub async fn drain(&self, reason: &str, options: DrainOptions) -> Result<(), CallError> {
        let options = convert::drain_to_dict(options);
        self.manager("Drain", &(reason, options)).await
    }

    /// Opens admission again.
    pub async fn resume(&self) -> Result<(), CallError> {
        self.manager("Resume", &(no_options(),)).await
    }

    /// The service's counters as OpenMetrics text.
    pub async fn metrics(&self) -> Result<String, CallError> {
        self.manager("GetMetrics", &()).await
    }

    /// What the daemon logs, as syslog's word.
    pub async fn log_level(&self) -> Result<String, CallError> {
        let value: zbus::OwnedVariant = self
            .call(LOG_OBJECT, PROPERTIES, "Get", &(LOG_CONTROL, "LogLevel"))
            .await?;
        String::try_from(value).map_err(|e| CallError::BadReply(format!("LogLevel: {e}")))
    }

    /// Sets it.
    pub async fn set_log_level(&self, level: &str) -> Result<(), CallError> {
        let body = (LOG_CONTROL, "LogLevel", Variant::from(level.to_owned()));
        self.call(LOG_OBJECT, PROPERTIES, "Set", &body).await
    }

    /// Replaces the daemon's image by the installed one; the generation that serves next.
    pub async fn reload(&self) -> Result<u64, CallError> {
        self.manager("Reload", &(no_options(),)).await
    }

    /// Every property of an interface of an object.
    pub async fn properties(&self, path: &str, interface: &str) -> Result<Dict, CallError> {
        self.call(path, PROPERTIES, "GetAll", &(interface,)).await
    }

    /// Every property of the worker with this id.
    pub async fn worker_properties(&self, id: &str) -> Result<Dict, CallError> {
        self.properties(&format!("{OBJECT}/worker/{id}"), WORKER)
            .await
    }

    /// Manager's properties.
    pub async fn service(&self) -> Result<Service, CallError> {
        let all = self.properties(OBJECT, MANAGER).await?;
        Ok(Service {
            version: get(&all, "Version"),
            generation: get(&all, "Generation"),
            state: get(&all, "State"),
            containment: get(&all, "Containment"),
            degraded: get(&all, "Degraded"),
            n_workers: get(&all, "NWorkers"),
            n_rows: get(&all, "NRows"),
            n_quarantined: get(&all, "NQuarantined"),
            grace_usec: get(&all, "GraceUSec"),
            start_timestamp: get(&all, "StartTimestamp"),
            last_reap_timestamp: get(&all, "LastReapTimestamp"),
        })
    }
}

fn no_options() -> HashMap<&'static str, Variant<'static>> {
    HashMap::new()
}

fn call_error(error: zbus::Error) -> CallError {
    let refused = |name: String, message: String| match name.as_str() {
        "org.freedesktop.DBus.Error.ServiceUnknown"
        | "org.freedesktop.DBus.Error.NameHasNoOwner"
        | "org.freedesktop.DBus.Error.NoReply"
        | "org.freedesktop.DBus.Error.Disconnected" => CallError::Unreachable(message),
        _ => CallError::Refused {
            code: Code::from_name(&name),
            name,
            message,
        },
    };
    match error {
        zbus::Error::MethodError(name, message, _) => {
            let name: OwnedErrorName = name;
            let message = message.unwrap_or_else(|| name.to_string());
            refused(name.to_string(), message)
        }
        zbus::Error::FDO(error) => {
            use zbus::DBusError;
            let name = error.name().to_string();
            let message = error.description().unwrap_or(&name).to_owned();
            refused(name, message)
        }
        zbus::Error::InputOutput(error) => CallError::Unreachable(error.to_string()),
        other => CallError::BadReply(other.to_string()),
    }
}
