//! What a daemon tells by itself.

use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream;
use zbus::{MatchRule, MessageStream};

use super::{CallError, Client, call_error};
use crate::dbus::replies::{Event, event};
use crate::dbus::{BUS_NAME, OBJECT};

impl Client {
    /// Everything the daemon tells from now on. Keep reading it: one that is not read holds up
    /// the answers to all calls of this connection.
    pub async fn events(&self) -> Result<Events, CallError> {
        if !self.on_bus {
            let stream = MessageStream::from(&self.connection);
            // Signals begin with the first answer.
            self.ping().await?;
            return Ok(Events { stream });
        }
        // Before anything is sent that nobody reads yet.
        self.ping().await?;
        let rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .sender(BUS_NAME)
            .path_namespace(OBJECT)
            .build()
            .map_err(|e| CallError::BadReply(e.to_string()))?;
        let stream = MessageStream::for_match_rule(rule, &self.connection, None)
            .await
            .map_err(call_error)?;
        Ok(Events { stream })
    }

    /// Is there a daemon?
    async fn ping(&self) -> Result<(), CallError> {
        let to = Some(BUS_NAME);
        let peer = Some("org.freedesktop.DBus.Peer");
        let answer = self.connection.call_method(to, OBJECT, peer, "Ping", &());
        answer.await.map(|_| ()).map_err(call_error)
    }
}

/// Stream of [`Event`]s.
#[derive(Debug)]
pub struct Events {
    stream: MessageStream,
}

impl Events {
    /// The next event; `None` once the connection has ended.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let stream = &mut self.stream;
            let message = poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await?;
            if let Some(event) = message.ok().as_ref().and_then(event) {
                return Some(event);
            }
        }
    }
}
