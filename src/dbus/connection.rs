//! One connection's loop. Each call runs in a task of its own, so a slow one delays no other;
//! how many run at once is bounded, and a peer that does not read its replies stalls only itself.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_core::Stream;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zbus::message::{Flags, Type};
use zbus::{Connection, Message, MessageStream};

use super::auth::{Credentials, Senders, Subject};
use super::dispatch::{Call, answer};
use super::errors::{Code, Failure};
use super::socket::{Held, shutdown};
use super::{BUS_NAME, Server};
use crate::supervisor::handle::Busy;

/// Calls of one peer that run at once; further ones stay in its socket.
const CALLS_MAX: usize = 256;
/// Waits of one peer at once; they may last for ever, so further ones are refused.
const WAITS_MAX: usize = 16 * 1024;
/// Calls of one sender on a bus that run at once; further ones are refused, since nothing may
/// stay unread on a connection that others share.
const SENDER_CALLS_MAX: usize = 512;

/// A connection to a bus over a Unix socket that outlives this image.
#[derive(Debug)]
pub struct Line {
    /// Permits of its messages.
    pub held: Arc<Held>,
    /// The socket.
    pub stream: Arc<UnixStream>,
    /// Descriptors may be sent.
    pub fds: bool,
    /// The bus's guid.
    pub guid: String,
    /// Where the bus is.
    pub address: String,
    /// Our unique name there, once the bus has said it.
    pub name: OnceLock<String>,
}

/// What is at the other end.
#[derive(Debug)]
pub enum Link {
    /// A peer.
    Peer {
        /// Who it is.
        who: Credentials,
        /// Permits of its messages.
        held: Arc<Held>,
        /// Its socket.
        stream: Arc<UnixStream>,
        /// Descriptors may be sent to it.
        fds: bool,
        /// Calls.
        calls: Arc<Semaphore>,
        /// Waits.
        waits: Arc<Semaphore>,
        /// It has had an answer.
        answered: AtomicBool,
    },
    /// A message bus with many senders.
    Bus {
        /// Who they are.
        senders: Senders,
        /// For questions of our own to the bus, whose answers come also while nothing new is
        /// read from the connection that is served.
        asks: Connection,
        /// What the next image gets of it; none of a bus that is reached in another way.
        line: Option<Arc<Line>>,
        /// Running calls of each.
        running: Mutex<HashMap<String, usize>>,
    },
}

impl Link {
    /// To a peer.
    pub fn peer(
        who: Credentials,
        held: Arc<Held>,
        stream: Arc<UnixStream>,
        fds: bool,
        answered: bool,
    ) -> Arc<Self> {
        Arc::new(Link::Peer {
            who,
            held,
            stream,
            fds,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            waits: Arc::new(Semaphore::new(WAITS_MAX)),
            answered: AtomicBool::new(answered),
        })
    }

    /// To a bus.
    pub fn bus(asks: Connection, line: Option<Arc<Line>>) -> Arc<Self> {
        Arc::new(Link::Bus {
            senders: Senders::default(),
            asks,
            line,
            running: Mutex::default(),
        })
    }

    /// Signals may be sent to it.
    pub fn was_answered(&self) -> bool {
        match self {
            Link::Peer { answered, .. } => answered.load(Ordering::Relaxed),
            Link::Bus { .. } => true,
        }
    }

    /// Permits of messages that were received and not handled yet.
    pub fn held(&self) -> Option<&Held> {
        match self {
            Link::Peer { held, .. } => Some(held),
            Link::Bus { line, .. } => line.as_ref().map(|line| &*line.held),
        }
    }

    /// Ends a peer's connection, also while a write to it is stuck.
    pub fn cut(&self) {
        if let Link::Peer { stream, .. } = self
            && let Err(error) = shutdown(stream)
        {
            // The peer was faster.
            tracing::trace!(%error, "cannot shut a peer's socket down");
        }
    }
}

/// Serves a connection to its end.
pub async fn serve(server: Arc<Server>, mut messages: MessageStream, link: Arc<Link>) {
    let connection = Connection::from(&messages);
    let listener = server.hub.join(&connection, &link);
    loop {
        let next = poll_fn(|cx| Pin::new(&mut messages).poll_next(cx)).await;
        let Some(Ok(message)) = next else { break };
        let memory = link.held().and_then(Held::take);
        if message.message_type() != Type::MethodCall {
            continue;
        }
        let slot = match slot(&link, &message).await {
            Ok(slot) => slot,
            Err(failure) => {
                // Sent from here, so that a caller over its bound also has to read.
                reply(&connection, &message, Err(failure)).await;
                continue;
            }
        };
        let task = Task {
            server: server.clone(),
            connection: connection.clone(),
            link: link.clone(),
            message,
            _slot: slot,
            _memory: memory,
            _busy: server.handle.activity().begin(),
        };
        tokio::spawn(task.run());
    }
    server.hub.leave(listener);
    link.cut();
}

/// A place among the running calls.
#[derive(Debug)]
enum Slot {
    Peer(#[allow(dead_code, reason = "held until the call ends")] OwnedSemaphorePermit),
    Bus(Arc<Link>, String),
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Slot::Bus(link, sender) = self
            && let Link::Bus { running, .. } = &**link
        {
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(count) = running.get_mut(sender) {
                *count -= 1;
                if *count == 0 {
                    running.remove(sender);
                }
            }
        }
    }
}

async fn slot(link: &Arc<Link>, message: &Message) -> Result<Slot, Failure> {
    match &**link {
        Link::Peer { calls, waits, .. } => {
            let permit = if is_wait(message) {
                waits.clone().try_acquire_owned().map_err(|_| {
                    let why = format!("{WAITS_MAX} waits are open on this connection already");
                    Failure::new(Code::LimitsExceeded, why)
                })?
            } else {
                let acquired = calls.clone().acquire_owned().await;
                acquired.map_err(|e| Failure::new(Code::Other, e.to_string()))?
            };
            Ok(Slot::Peer(permit))
        }
        Link::Bus { running, .. } => {
            let sender = message
                .header()
                .sender()
                .map_or(String::new(), |s| s.to_string());
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            let count = running.entry(sender.clone()).or_default();
            if *count >= SENDER_CALLS_MAX {
                let why = format!("{SENDER_CALLS_MAX} calls of {sender} are running already");
                return Err(Failure::new(Code::LimitsExceeded, why));
            }
            *count += 1;
            drop(running);
            Ok(Slot::Bus(link.clone(), sender))
        }
    }
}

fn is_wait(message: &Message) -> bool {
    message
        .header()
        .member()
        .is_some_and(|m| m.as_str() == "Wait")
}

struct Task {
    server: Arc<Server>,
    connection: Connection,
    link: Arc<Link>,
    message: Message,
    _slot: Slot,
    _memory: Option<OwnedSemaphorePermit>,
    _busy: Busy,
}

impl Task {
    async fn run(self) {
        if is_wait(&self.message) {
            // Nobody is there to hear the end. Every other call is carried out all the same.
            tokio::select! {
                () = self.connection.closed() => return,
                result = self.result() => reply(&self.connection, &self.message, result).await,
            }
        } else {
            let result = self.result().await;
            reply(&self.connection, &self.message, result).await;
        }
        if let Link::Peer { answered, .. } = &*self.link {
            answered.store(true, Ordering::Relaxed);
        }
    }

    /// A user's instance serves nobody else, root on its session bus included.
    fn serves(&self, uid: u32) -> Result<(), Failure> {
        match self.server.limits.only_uid {
            Some(only) if only != uid => Err(Failure::new(
                Code::AccessDenied,
                format!("this instance serves uid {only} only; root can act as that user"),
            )),
            _ => Ok(()),
        }
    }

    async fn result(&self) -> Result<Message, Failure> {
        let header = self.message.header();
        let (who, subject) = match &*self.link {
            Link::Peer { who, .. } => (who.clone(), who.subject()),
            Link::Bus { senders, asks, .. } => {
                let sender = header
                    .sender()
                    .ok_or_else(|| Failure::new(Code::AccessDenied, "a call without a sender"))?;
                let subject = Subject::Bus {
                    connection: asks.clone(),
                    name: sender.to_string(),
                };
                let who = senders.credentials(asks, sender).await?;
                self.serves(who.uid)?;
                (who, subject)
            }
        };
        let call = Call {
            server: &self.server,
            message: &self.message,
            header,
            who,
            subject,
            fds: match &*self.link {
                Link::Peer { fds, .. } => *fds,
                Link::Bus { .. } => true,
            },
        };
        // Boxed: the future of the largest handler would otherwise be in every task's.
        Box::pin(answer(&call)).await
    }
}

async fn reply(connection: &Connection, to: &Message, result: Result<Message, Failure>) {
    let header = to.header();
    if header.primary().flags().contains(Flags::NO_REPLY_EXPECTED) {
        return;
    }
    let message = match result {
        Ok(message) => message,
        Err(failure) => {
            // A D-Bus string holds no NUL.
            let text = failure.message.replace('\0', "\u{fffd}");
            match Message::error(&header, failure.code.name()).and_text(&text) {
                Ok(message) => message,
                Err(error) => {
                    tracing::warn!(%error, "cannot write an error reply of {BUS_NAME}");
                    return;
                }
            }
        }
    };
    if let Err(error) = connection.send(&message).await {
        tracing::debug!(%error, "a caller has gone before its reply");
    }
}

trait AndText {
    fn and_text(self, text: &str) -> zbus::Result<Message>;
}

impl AndText for zbus::message::Builder<'_> {
    fn and_text(self, text: &str) -> zbus::Result<Message> {
        self.build(&(text,))
    }
}
