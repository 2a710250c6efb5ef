//! The peer: transient units of the system's manager, by its own interface on the bus.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;

use futures_core::Stream;
use tokio::sync::oneshot;
use zbus::{Connection, MatchRule, Message, MessageStream, OwnedObjectPath, Variant};

use super::place::Result;

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

type Waiting = Rc<RefCell<HashMap<String, oneshot::Sender<()>>>>;

/// A connection that hears of every job's end.
#[derive(Clone)]
pub struct Systemd {
    connection: Connection,
    waiting: Waiting,
}

impl Systemd {
    pub async fn new() -> Result<Self> {
        let connection = zbus::connection::Builder::system().build().await?;
        let waiting = Waiting::default();
        let rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .sender(NAME)
            .interface(MANAGER)
            .member("JobRemoved")
            .build()?;
        let mut ended =
            MessageStream::for_match_rule(rule, &connection, std::num::NonZero::new(4096)).await?;
        let told = waiting.clone();
        tokio::task::spawn_local(async move {
            while let Some(Ok(message)) = poll_fn(|cx| Pin::new(&mut ended).poll_next(cx)).await {
                let body: std::result::Result<(u32, OwnedObjectPath, String, String), _> =
                    message.body().deserialize();
                if let Ok((_, _, unit, _)) = body
                    && let Some(waiter) = told.borrow_mut().remove(&unit)
                {
                    let _ = waiter.send(());
                }
            }
        });
        let systemd = Self {
            connection,
            waiting,
        };
        systemd.call("Subscribe", &()).await?;
        Ok(systemd)
    }

    pub async fn call<B>(&self, method: &str, body: &B) -> Result<Message>
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        let reply = self
            .connection
            .call_method(Some(NAME), PATH, Some(MANAGER), method, body);
        Ok(reply.await?)
    }

    /// Starts a transient service and returns at the end of its job: for `oneshot` that is the
    /// end of its program, for `exec` its execution.
    pub async fn start(&self, unit: &str, kind: &str, argv: &[&str], stay: bool) -> Result<()> {
        let command: (String, Vec<String>, bool) = (
            argv.first().map_or(String::new(), |a| (*a).to_owned()),
            argv.iter().map(|a| (*a).to_owned()).collect(),
            false,
        );
        let mut properties: Vec<(&str, Variant<'_>)> = vec![
            ("Type", Variant::from(kind)),
            ("ExecStart", Variant::new(vec![command])),
            ("CollectMode", Variant::from("inactive-or-failed")),
            ("TimeoutStopUSec", Variant::from(1_000_000_u64)),
        ];
        if stay {
            properties.push(("RemainAfterExit", Variant::from(true)));
        }
        let none: Vec<(&str, Vec<(&str, Variant<'_>)>)> = Vec::new();
        let (waiter, ended) = oneshot::channel();
        self.waiting.borrow_mut().insert(unit.to_owned(), waiter);
        self.call("StartTransientUnit", &(unit, "replace", properties, none))
            .await?;
        Ok(ended.await?)
    }
}
