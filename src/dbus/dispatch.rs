//! From a message to its handler: path, interface, member and signature are checked against the
//! contract here, once for every connection.

use zbus::Message;
use zbus::message::Header;

use super::auth::{Answer, Credentials, No, Subject};
use super::contract::{
    INTROSPECTABLE_INTERFACE, Interface, LOG_CONTROL_INTERFACE, MANAGER_INTERFACE, PEER_INTERFACE,
    PROPERTIES_INTERFACE, WORKER_INTERFACE,
};
use super::errors::{Code, Failure};
use super::log_control::LOG_OBJECT;
use super::{OBJECT, Server, WORKER_PREFIX, manager, standard, worker};
use crate::supervisor::handle::{Caller, Handle, Right};
use crate::supervisor::refused::Refused;
use crate::worker::WorkerId;

/// An object of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// `/`, `/org`, `/org/freedesktop`: only leads further; with the next elements.
    Above(&'static [&'static str]),
    /// `/org/muster1`.
    Manager,
    /// `/org/muster1/worker`: parent of the workers.
    Workers,
    /// A worker, which may be gone.
    Worker(WorkerId),
    /// `/org/freedesktop/LogControl1`.
    Log,
}

impl Object {
    /// The object at `path`.
    pub fn at(path: &str) -> Option<Self> {
        match path {
            "/" => Some(Object::Above(&["org"])),
            "/org" => Some(Object::Above(&["freedesktop", "muster1"])),
            "/org/freedesktop" => Some(Object::Above(&["LogControl1"])),
            LOG_OBJECT => Some(Object::Log),
            OBJECT => Some(Object::Manager),
            "/org/muster1/worker" => Some(Object::Workers),
            _ => {
                let id = path.strip_prefix(WORKER_PREFIX)?;
                id.parse().ok().map(Object::Worker)
            }
        }
    }

    /// Its interfaces.
    pub fn interfaces(self) -> &'static [&'static Interface] {
        match self {
            Object::Above(_) | Object::Workers => &[&INTROSPECTABLE_INTERFACE, &PEER_INTERFACE],
            Object::Log => &[
                &LOG_CONTROL_INTERFACE,
                &PROPERTIES_INTERFACE,
                &INTROSPECTABLE_INTERFACE,
                &PEER_INTERFACE,
            ],
            Object::Manager => &[
                &MANAGER_INTERFACE,
                &PROPERTIES_INTERFACE,
                &INTROSPECTABLE_INTERFACE,
                &PEER_INTERFACE,
            ],
            Object::Worker(_) => &[
                &WORKER_INTERFACE,
                &PROPERTIES_INTERFACE,
                &INTROSPECTABLE_INTERFACE,
                &PEER_INTERFACE,
            ],
        }
    }
}

/// One call with all that its handler needs.
#[derive(Debug)]
pub struct Call<'m> {
    /// The server.
    pub server: &'m Server,
    /// The message.
    pub message: &'m Message,
    /// Its header.
    pub header: Header<'m>,
    /// Who calls.
    pub who: Credentials,
    /// For a check of its rights.
    pub subject: Subject,
    /// A descriptor can go with the reply.
    pub fds: bool,
}

impl Call<'_> {
    /// The supervisor.
    pub fn handle(&self) -> &Handle {
        &self.server.handle
    }

    /// The arguments. Their signature has been checked; garbage under a right signature has not.
    pub fn arguments<T>(&self) -> Result<T, Failure>
    where
        T: serde::de::DeserializeOwned + zbus::Type,
    {
        self.message
            .body()
            .deserialize()
            .map_err(|e| Failure::invalid(format!("the arguments cannot be read: {e}")))
    }

    /// The reply.
    pub fn reply<B>(&self, body: &B) -> Result<Message, Failure>
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        Message::method_return(&self.header)
            .build(body)
            .map_err(|e| Failure::new(Code::Other, format!("the reply cannot be written: {e}")))
    }

    /// Asks the supervisor; where it names a right the caller lacks, asks the authority for it
    /// and the supervisor again.
    pub async fn ask<T, F>(&self, ask: impl Fn(Caller) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Refused>>,
    {
        self.ask_with(Vec::new(), ask).await
    }

    /// The same with rights that have been granted already.
    pub async fn ask_with<T, F>(
        &self,
        mut rights: Vec<Right>,
        ask: impl Fn(Caller) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Refused>>,
    {
        loop {
            match ask(self.who.caller(rights.clone())).await {
                Err(Refused::NeedsRight(right)) if !rights.contains(&right) => {
                    self.grant(right, self.may_interact())
                        .await
                        .map_err(|no| Failure::no_right(right, &no))?;
                    rights.push(right);
                }
                answer => return answer.map_err(Failure::from),
            }
        }
    }

    /// The same for a call that only looks: who may manage others' rows sees all of them, who
    /// may list them sees ids and states. Looking never makes anybody type a password.
    pub async fn ask_to_see<T, F>(&self, ask: impl Fn(Caller) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Refused>>,
    {
        match ask(self.who.caller(Vec::new())).await {
            Err(Refused::NeedsRight(right)) => {
                let mut granted = vec![Right::ManageAll];
                if self.grant(Right::ManageAll, false).await.is_err() {
                    self.grant(right, false)
                        .await
                        .map_err(|no| Failure::no_right(right, &No::from(no.why)))?;
                    granted = vec![right];
                }
                let answer = ask(self.who.caller(granted)).await;
                answer.map_err(Failure::from)
            }
            answer => answer.map_err(Failure::from),
        }
    }

    /// `right` if the caller has it or is granted it without being asked for a password.
    pub async fn optional(&self, right: Right) -> Result<Vec<Right>, Failure> {
        let caller = self.who.caller(Vec::new());
        match self.handle().allowed(caller, right).await {
            Ok(()) => Ok(vec![right]),
            Err(Refused::NeedsRight(_)) if self.grant(right, false).await.is_ok() => {
                Ok(vec![right])
            }
            Err(Refused::NeedsRight(_)) => Ok(Vec::new()),
            Err(other) => Err(other.into()),
        }
    }

    /// Does the message say that a person may be asked?
    pub fn may_interact(&self) -> bool {
        let flags = self.header.primary().flags();
        flags.contains(zbus::message::Flags::ALLOW_INTERACTIVE_AUTH)
    }

    /// Asks the authority.
    pub async fn grant(&self, right: Right, interactive: bool) -> Answer {
        let authority = &self.server.authority;
        authority.check(&self.subject, right, interactive).await
    }
}

/// The reply to a call.
pub async fn answer(call: &Call<'_>) -> Result<Message, Failure> {
    let path = call.header.path().map_or("", |p| p.as_str());
    let member = call.header.member().map_or("", |m| m.as_str());
    let interface = call.header.interface().map(|i| i.as_str());
    // A bus of one: clients made for a message bus greet it and add matches before they call.
    let is_peer = matches!(call.subject, Subject::Peer { .. });
    if is_peer && interface == Some("org.freedesktop.DBus") {
        return standard::as_bus(call, member);
    }
    let object = Object::at(path).ok_or_else(|| {
        Failure::new(
            Code::UnknownObject,
            format!("no object {path:?}; the manager is {OBJECT}, a worker {WORKER_PREFIX}ID"),
        )
    })?;
    let interface = find(object, interface, member, call)?;
    match (interface, object) {
        ("org.freedesktop.DBus.Peer", _) => standard::peer(call, member),
        ("org.freedesktop.DBus.Introspectable", _) => standard::introspect(call, object).await,
        ("org.freedesktop.DBus.Properties", _) => standard::properties(call, object, member).await,
        (_, Object::Manager) => manager::answer(call, member).await,
        (_, Object::Worker(id)) => worker::answer(call, id, member).await,
        _ => Err(Failure::new(Code::UnknownMethod, "no such method")),
    }
}

/// The interface that is meant, after its method and signature have been checked.
fn find(
    object: Object,
    interface: Option<&str>,
    member: &str,
    call: &Call<'_>,
) -> Result<&'static str, Failure> {
    let interfaces = object.interfaces();
    if let Some(name) = interface
        && !interfaces.iter().any(|i| i.name == name)
    {
        let message = format!("no interface {name:?} on this object");
        return Err(Failure::new(Code::UnknownInterface, message));
    }
    let fitting = interfaces
        .iter()
        .filter(|i| interface.is_none_or(|name| i.name == name));
    let found = fitting
        .filter_map(|i| Some((i.name, i.methods.iter().find(|m| m.name == member)?)))
        .next();
    let Some((name, method)) = found else {
        let message = format!(
            "no method {member:?} in {}",
            interface.unwrap_or("this object")
        );
        return Err(Failure::new(Code::UnknownMethod, message));
    };
    let given = call.message.body().signature().to_string_no_parens();
    if given != method.takes {
        return Err(Failure::invalid(format!(
            "{name}.{member} takes {:?}, not {given:?}",
            method.takes
        )));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_objects_and_nothing_else_does() {
        let id: WorkerId = "0123abcd".parse().unwrap();
        assert_eq!(Object::at("/org/muster1"), Some(Object::Manager));
        assert_eq!(
            Object::at("/org/muster1/worker/0123abcd"),
            Some(Object::Worker(id))
        );
        for path in [
            "",
            "/com",
            "/org/muster1/worker/",
            "/org/muster1/worker/x",
            "/org/muster1/x",
        ] {
            assert_eq!(Object::at(path), None, "{path}");
        }
    }
}
