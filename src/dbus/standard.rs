//! The standard interfaces: Peer, Introspectable, Properties, and as much of a bus as a client
//! made for one expects of a peer.

use std::collections::BTreeMap;

use zbus::{Message, Variant};

use super::dispatch::{Call, Object};
use super::errors::{Code, Failure};
use super::log_control::{self, LOG_CONTROL};
use super::properties::{Source, refuse_set};
use crate::supervisor::handle::ListFilter;
use crate::supervisor::refused::Refused;
use crate::worker::WorkerId;

/// Most children in an introspection.
const NODES_MAX: u32 = 1000;
const DOCTYPE: &str = r#"<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
"#;

/// `org.freedesktop.DBus`, peer to peer: `busctl --address=` says Hello and asks who has a name.
pub fn as_bus(call: &Call<'_>, member: &str) -> Result<Message, Failure> {
    match member {
        "Hello" => call.reply(&":1.1"),
        "AddMatch" | "RemoveMatch" => call.reply(&()),
        "GetNameOwner" => call.reply(&":1.0"),
        "NameHasOwner" => call.reply(&true),
        _ => Err(Failure::new(
            Code::UnknownMethod,
            format!("no method {member:?}: this is a peer, not a message bus"),
        )),
    }
}

/// `org.freedesktop.DBus.Peer`.
pub fn peer(call: &Call<'_>, member: &str) -> Result<Message, Failure> {
    if member == "Ping" {
        return call.reply(&());
    }
    let path = "/etc/machine-id";
    let id = std::fs::read_to_string(path)
        .map_err(|e| Failure::new(Code::Io, format!("cannot read {path}: {e}")))?;
    call.reply(&id.trim())
}

/// `org.freedesktop.DBus.Introspectable`.
pub async fn introspect(call: &Call<'_>, object: Object) -> Result<Message, Failure> {
    let children = match object {
        Object::Above(next) => next.iter().map(|n| (*n).to_owned()).collect(),
        Object::Log => Vec::new(),
        Object::Manager => vec!["worker".to_owned()],
        Object::Workers => worker_nodes(call).await?,
        Object::Worker(id) => {
            view(call, id).await?;
            Vec::new()
        }
    };
    let mut xml = format!("{DOCTYPE}<node>\n");
    for interface in object.interfaces() {
        xml.push_str("  ");
        xml.push_str(interface.element());
        xml.push('\n');
    }
    for child in children {
        xml.push_str(&format!("  <node name=\"{child}\"/>\n"));
    }
    xml.push_str("</node>\n");
    call.reply(&xml)
}

async fn worker_nodes(call: &Call<'_>) -> Result<Vec<String>, Failure> {
    let filter = ListFilter {
        all: true,
        limit: NODES_MAX,
        ..ListFilter::default()
    };
    let list = |by, what| call.handle().list(by, what);
    let rows = super::manager::rows(call, filter, list).await?;
    Ok(rows.iter().map(|row| row.id.to_string()).collect())
}

/// `org.freedesktop.DBus.Properties`.
pub async fn properties(call: &Call<'_>, object: Object, member: &str) -> Result<Message, Failure> {
    match member {
        "Get" => {
            let (interface, name): (String, String) = call.arguments()?;
            if let Some(value) = log_property(call, object, &interface, &name)? {
                return call.reply(&(value,));
            }
            let value = source(call, object).await?.property(&interface, &name)?;
            call.reply(&(value,))
        }
        "GetAll" => {
            let interface: String = call.arguments()?;
            let standard = object.interfaces().iter().skip(1);
            if standard.map(|i| i.name).any(|name| name == interface) {
                return call.reply(&BTreeMap::<&str, Variant<'_>>::new());
            }
            let all = if object == Object::Log {
                check_log(&interface)?;
                log_control::all(&*call.server.log)
            } else {
                source(call, object).await?.all(&interface)?
            };
            call.reply(&all.into_iter().collect::<BTreeMap<_, _>>())
        }
        _ => {
            let (interface, name, value): (String, String, zbus::OwnedVariant) =
                call.arguments()?;
            if object == Object::Log {
                check_log(&interface)?;
                return log_control::set(call, &name, value).await;
            }
            Err(refuse_set(&interface, &name))
        }
    }
}

fn check_log(interface: &str) -> Result<(), Failure> {
    if interface.is_empty() || interface == LOG_CONTROL {
        return Ok(());
    }
    let why = format!("no properties of an interface {interface:?} here");
    Err(Failure::new(Code::UnknownInterface, why))
}

/// `None` where the object is another.
fn log_property(
    call: &Call<'_>,
    object: Object,
    interface: &str,
    name: &str,
) -> Result<Option<Variant<'static>>, Failure> {
    if object != Object::Log {
        return Ok(None);
    }
    check_log(interface)?;
    let value = log_control::get(&*call.server.log, name);
    let value = value.ok_or_else(|| {
        let why = format!("{LOG_CONTROL} has no property {name:?}");
        Failure::new(Code::UnknownProperty, why)
    })?;
    Ok(Some(value))
}

async fn source(call: &Call<'_>, object: Object) -> Result<Source, Failure> {
    match object {
        Object::Worker(id) => view(call, id).await,
        _ => Ok(Source::Service(Box::new(call.handle().service().await?))),
    }
}

/// The one view all properties of a worker are made from; no row, no object.
async fn view(call: &Call<'_>, id: WorkerId) -> Result<Source, Failure> {
    let ask = |caller| call.handle().view(caller, id.to_string());
    match call.ask_to_see(ask).await {
        Ok(view) => Ok(Source::Worker(view)),
        Err(failure) if failure.code == Code::NoSuchWorker => Err(Failure::new(
            Code::UnknownObject,
            Refused::NoSuchWorker(id.to_string()).to_string(),
        )),
        Err(failure) => Err(failure),
    }
}
