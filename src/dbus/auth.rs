//! Who calls, as the kernel or the bus daemon says, and what it may do beyond its own rows.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use zbus::Connection;
use zbus::fdo::{ConnectionCredentials, DBusProxy};
use zbus::names::{BusName, UniqueName};

use super::errors::{Code, Failure};
use crate::supervisor::handle::{Caller, Right};
use crate::worker::Pid;

/// Senders on a bus whose credentials are kept. A unique name is never used twice by a bus, so
/// an entry never turns wrong.
const SENDERS_MAX: usize = 256;

/// Whom a check is about.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A sender on a message bus.
    Bus {
        /// The connection to that bus.
        connection: Connection,
        /// Its unique name.
        name: String,
    },
    /// The process at the other end of a socket; a bare pid is never asked about.
    Peer {
        /// Its pidfd, where the kernel gives one.
        pidfd: Option<Arc<OwnedFd>>,
        /// Its uid.
        uid: u32,
    },
}

/// Why not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct No {
    /// In words for the caller; may be empty.
    pub why: String,
    /// It would be a yes once a person has typed a password, which the question did not allow.
    pub needs_a_person: bool,
}

impl From<String> for No {
    fn from(why: String) -> Self {
        Self {
            why,
            needs_a_person: false,
        }
    }
}

/// Yes, or why not.
pub type Answer = Result<(), No>;

/// Grants rights (section 15). An error in a check means no.
pub trait Authority: Send + Sync + std::fmt::Debug {
    /// May `subject` do this? With `interactive` a person may be asked.
    fn check<'a>(
        &'a self,
        subject: &'a Subject,
        right: Right,
        interactive: bool,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
}

/// Where there is no polkit: nobody gets a right beyond what the uid gives.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPolkit;

impl Authority for NoPolkit {
    fn check<'a>(
        &'a self,
        _: &'a Subject,
        _: Right,
        _: bool,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(std::future::ready(Err(No::default())))
    }
}

/// Credentials of one connection, taken once.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Uid.
    pub uid: u32,
    gid: u32,
    groups: Vec<u32>,
    process: Process,
}

/// The process behind a connection.
#[derive(Debug, Clone)]
enum Process {
    /// Pinned: the pid is that process as long as the pidfd says that it lives.
    Pinned(Pid, Arc<OwnedFd>),
    /// It ended between connecting and being looked at.
    Gone,
    /// In another pid namespace, this daemon itself, or on a kernel without pidfds.
    Unknown,
}

impl Credentials {
    /// Of the peer of a socket.
    pub fn of_peer(stream: &UnixStream) -> std::io::Result<Self> {
        let peer = rustix::net::sockopt::socket_peercred(stream)?;
        let pid = Pid::new(i64::from(peer.pid.as_raw_nonzero().get()));
        let process = match (pid, crate::sys::peer::pidfd(stream.as_fd())) {
            (Err(_), _) => Process::Unknown,
            (Ok(pid), Ok(fd)) => Process::Pinned(pid, Arc::new(fd)),
            // An old kernel, or the process has been reaped: in both cases a pidfd opened from
            // the number could be another process by now.
            (Ok(_), Err(e)) if e.raw_os_error() == Some(libc::ESRCH) => Process::Gone,
            (Ok(_), Err(_)) => Process::Unknown,
        };
        Ok(Self {
            uid: peer.uid.as_raw(),
            gid: peer.gid.as_raw(),
            groups: crate::sys::peer::groups(stream.as_fd())?,
            process,
        })
    }

    /// The caller of one call made now, with `rights` granted.
    pub fn caller(&self, rights: Vec<Right>) -> Caller {
        let pid = match &self.process {
            Process::Pinned(pid, fd) if is_alive(fd.as_fd()) => Some(*pid),
            _ => None,
        };
        Caller {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups.clone(),
            pid,
            rights,
        }
    }

    /// The process was there once and has ended: nothing may be derived from it, and it does not
    /// count as a caller from outside either.
    pub fn has_gone(&self) -> bool {
        match &self.process {
            Process::Pinned(_, fd) => !is_alive(fd.as_fd()),
            Process::Gone => true,
            Process::Unknown => false,
        }
    }

    /// For a check peer to peer.
    pub fn subject(&self) -> Subject {
        Subject::Peer {
            pidfd: match &self.process {
                Process::Pinned(_, fd) => Some(fd.clone()),
                _ => None,
            },
            uid: self.uid,
        }
    }
}

/// A pidfd turns readable when its process has ended (pidfd_open(2)).
fn is_alive(pidfd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let now = Timespec::default();
    matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(0))
}

/// Credentials of the senders on a bus.
#[derive(Debug, Default)]
pub struct Senders {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_name: HashMap<String, Credentials>,
    order: VecDeque<String>,
}

impl Senders {
    /// Who `sender` is, as the bus daemon says.
    pub async fn credentials(
        &self,
        bus: &Connection,
        sender: &UniqueName<'_>,
    ) -> Result<Credentials, Failure> {
        if let Some(known) = self.known.lock().await.by_name.get(sender.as_str()) {
            return Ok(known.clone());
        }
        let found = ask_bus(bus, sender).await.map_err(|why| {
            Failure::new(
                Code::AccessDenied,
                format!("the bus does not say who {sender} is: {why}"),
            )
        })?;
        let mut known = self.known.lock().await;
        let name = sender.to_string();
        if known.by_name.insert(name.clone(), found.clone()).is_none() {
            known.order.push_back(name);
        }
        if known.order.len() > SENDERS_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.by_name.remove(&oldest);
        }
        Ok(found)
    }
}

async fn ask_bus(bus: &Connection, sender: &UniqueName<'_>) -> Result<Credentials, String> {
    let proxy = DBusProxy::builder(bus)
        .cache_properties(zbus::proxy::CacheProperties::No)
        .build()
        .await
        .map_err(|e| e.to_string())?;
    let ask = || proxy.get_connection_credentials(BusName::from(sender.clone()));
    let first = ask().await.map_err(|e| e.to_string())?;
    let uid = first.unix_user_id().ok_or("no uid in its answer")?;
    let process = match pin(&first)? {
        // A pidfd opened from a number may be that of a successor: if the bus still has the
        // connection afterwards, its process was there all the time.
        Pinning::ByNumber(pid, fd) => {
            let again = ask().await.map_err(|e| e.to_string())?;
            if again.process_id() == first.process_id() && is_alive(fd.as_fd()) {
                Process::Pinned(pid, Arc::new(fd))
            } else {
                Process::Gone
            }
        }
        Pinning::Done(process) => process,
    };
    let from_proc = match &process {
        Process::Pinned(pid, fd) => ids_of(*pid).filter(|_| is_alive(fd.as_fd())),
        _ => None,
    };
    let groups = match (first.unix_group_ids(), &from_proc) {
        (Some(groups), _) => groups.clone(),
        (None, Some((_, groups))) => groups.clone(),
        (None, None) => return Err("no groups in its answer".to_owned()),
    };
    // The bus sends groups sorted, so which is the primary one only the process tells.
    let gid = from_proc
        .map(|(gid, _)| gid)
        .filter(|gid| groups.contains(gid))
        .or(groups.first().copied())
        .ok_or("no group in its answer")?;
    Ok(Credentials {
        uid,
        gid,
        groups,
        process,
    })
}

enum Pinning {
    Done(Process),
    ByNumber(Pid, OwnedFd),
}

fn pin(credentials: &ConnectionCredentials) -> Result<Pinning, String> {
    let Some(number) = credentials.process_id() else {
        return Ok(Pinning::Done(Process::Unknown));
    };
    let Ok(pid) = Pid::new(i64::from(number)) else {
        return Ok(Pinning::Done(Process::Unknown));
    };
    if let Some(fd) = credentials.process_fd() {
        let fd = fd.as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
        return Ok(Pinning::Done(Process::Pinned(pid, Arc::new(fd))));
    }
    let raw = rustix::process::Pid::from_raw(pid.get()).ok_or("a pid of 0")?;
    match rustix::process::pidfd_open(raw, rustix::process::PidfdFlags::empty()) {
        Ok(fd) => Ok(Pinning::ByNumber(pid, fd)),
        Err(rustix::io::Errno::SRCH) => Ok(Pinning::Done(Process::Gone)),
        Err(_) => Ok(Pinning::Done(Process::Unknown)),
    }
}

/// Effective gid and supplementary groups (proc_pid_status(5)).
fn ids_of(pid: Pid) -> Option<(u32, Vec<u32>)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        let numbers = line[name.len()..].split_ascii_whitespace();
        Some(numbers.filter_map(|n| n.parse().ok()).collect::<Vec<u32>>())
    };
    Some((*field("Gid:")?.get(1)?, field("Groups:")?))
}
