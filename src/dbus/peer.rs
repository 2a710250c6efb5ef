//! The socket: accepts peers, bounds how many and how long they may take to say who they are.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::auth::Credentials;
use super::connection::{Link, serve};
use super::handshake::handshake;
use super::socket::{Held, OF_A_PEER, QuietSocket, budget};
use super::{KeptPeer, Server};
use crate::supervisor::handle::Busy;

/// Messages zbus may read ahead; each is in its user's budget.
const READ_AHEAD: NonZeroUsize = NonZeroUsize::new(16).unwrap();
/// Memory of one user's waiting messages.
const BUDGET: usize = 16 * 1024 * 1024;
/// Pause when the process is out of descriptors.
const OUT_OF_FDS: Duration = Duration::from_millis(100);

/// Bounds of the socket.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections of one uid at once; root's are not bounded by it.
    pub connections_per_owner: usize,
    /// Only this uid is served (a user's instance); `None` for everybody.
    pub only_uid: Option<u32>,
    /// A peer says who it is in this time.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_owner: 512,
            only_uid: None,
            handshake: Duration::from_secs(10),
        }
    }
}

/// Who is connected.
#[derive(Debug, Default)]
pub struct Peers {
    users: Mutex<HashMap<u32, User>>,
}

#[derive(Debug)]
struct User {
    connections: usize,
    budget: Arc<Semaphore>,
}

/// A counted connection.
#[derive(Debug)]
struct Seat {
    server: Arc<Server>,
    uid: u32,
    budget: Arc<Semaphore>,
    _busy: Busy,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut users = self.server.peers.lock();
        if let Some(user) = users.get_mut(&self.uid) {
            user.connections -= 1;
            if user.connections == 0 {
                users.remove(&self.uid);
            }
        }
    }
}

impl Peers {
    /// Connections of everybody.
    pub fn count(&self) -> usize {
        self.lock().values().map(|user| user.connections).sum()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seat(server: &Arc<Server>, uid: u32, busy: Busy) -> Result<Seat, String> {
    let limits = &server.limits;
    if limits.only_uid.is_some_and(|only| only != uid) {
        return Err(format!("this instance does not serve uid {uid}"));
    }
    let mut users = server.peers.lock();
    if users.values().map(|user| user.connections).sum::<usize>() >= limits.connections {
        return Err(format!(
            "{} connections are open already",
            limits.connections
        ));
    }
    let user = users.entry(uid).or_insert_with(|| User {
        connections: 0,
        budget: budget(BUDGET),
    });
    if uid != 0 && user.connections >= limits.connections_per_owner {
        return Err(format!(
            "uid {uid} has {} connections already",
            user.connections
        ));
    }
    user.connections += 1;
    Ok(Seat {
        server: server.clone(),
        uid,
        budget: user.budget.clone(),
        _busy: busy,
    })
}

/// Accepts peers for ever. Dropped, it has lost none: each is counted before the next is waited
/// for.
pub async fn listen(server: Arc<Server>, listener: Arc<UnixListener>) {
    let mut quiet = server.handle.quiet();
    loop {
        // Who connects while the image is replaced stays in the socket for the next one.
        let _ = quiet.wait_for(|quiet| !*quiet).await;
        let mut silence = server.handle.quiet();
        let accepted = tokio::select! {
            biased;
            Ok(_) = silence.wait_for(|quiet| *quiet) => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let busy = server.handle.activity().begin();
                tokio::spawn(serve_peer(server.clone(), stream, busy));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection on the socket");
                tokio::time::sleep(OUT_OF_FDS).await;
            }
        }
    }
}

/// Goes on serving a peer of the image before.
pub async fn resume_peer(server: Arc<Server>, kept: KeptPeer) {
    let busy = server.handle.activity().begin();
    let KeptPeer { fd, fds, answered } = kept;
    let resumed = async {
        let stream = std::os::unix::net::UnixStream::from(fd);
        let stream = stream
            .set_nonblocking(true)
            .and_then(|()| UnixStream::from_std(stream))
            .map_err(|e| e.to_string())?;
        let who = Credentials::of_peer(&stream).map_err(|e| format!("who is it: {e}"))?;
        let seat = seat(&server, who.uid, busy)?;
        serve_authenticated(server.clone(), stream, fds, who, seat, answered).await
    };
    if let Err(reason) = resumed.await {
        tracing::warn!(reason, "a client of the image before was lost");
    }
}

/// Serves one peer to its end.
pub async fn serve_peer(server: Arc<Server>, stream: UnixStream, busy: Busy) {
    if let Err(reason) = try_serve(server, stream, busy).await {
        tracing::debug!(reason, "a client on the socket was turned away");
    }
}

async fn try_serve(server: Arc<Server>, stream: UnixStream, busy: Busy) -> Result<(), String> {
    let who = Credentials::of_peer(&stream).map_err(|e| format!("who is it: {e}"))?;
    let seat = seat(&server, who.uid, busy)?;
    let time = server.limits.handshake;
    let fds = tokio::time::timeout(time, handshake(&stream, who.uid, server.guid.as_str()))
        .await
        .map_err(|_| format!("no handshake in {time:?}"))?
        .map_err(|e| format!("handshake: {e}"))?;
    serve_authenticated(server, stream, fds, who, seat, false).await
}

/// Serves a peer whose handshake is done, here or by the image before.
async fn serve_authenticated(
    server: Arc<Server>,
    stream: UnixStream,
    fds: bool,
    who: Credentials,
    seat: Seat,
    answered: bool,
) -> Result<(), String> {
    let (stream, held) = (Arc::new(stream), Arc::new(Held::default()));
    let socket = QuietSocket {
        bounds: OF_A_PEER,
        stream: stream.clone(),
        fds,
        budget: seat.budget.clone(),
        held: held.clone(),
        quiet: server.handle.quiet(),
    };
    let messages = zbus::connection::Builder::authenticated_socket(socket, server.guid.clone())
        .p2p()
        .max_queued(READ_AHEAD)
        .build_message_stream()
        .await
        .map_err(|e| e.to_string())?;
    serve(
        server,
        messages,
        Link::peer(who, held, stream, fds, answered),
    )
    .await;
    drop(seat);
    Ok(())
}
