//! polkit as the authority of the system instance: one question a call, and every answer but a
//! clear yes is a no. What `pkcheck` asks is asked by the wire format of polkit(8)'s
//! `org.freedesktop.PolicyKit1.Authority`.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use zbus::{Connection, Fd, Variant};

use super::auth::{Answer, Authority, No, Subject};
use super::errors::action;
use crate::supervisor::handle::Right;

const NAME: &str = "org.freedesktop.PolicyKit1";
const PATH: &str = "/org/freedesktop/PolicyKit1/Authority";
const INTERFACE: &str = "org.freedesktop.PolicyKit1.Authority";
/// `AllowUserInteraction` of CheckAuthorization.
const ASK_A_PERSON: u32 = 1;

/// How long polkit may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For an answer from its rules.
    pub rules: Duration,
    /// For a person and a password; most clients give up after 25 s by themselves.
    pub person: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            rules: Duration::from_secs(5),
            person: Duration::from_secs(25),
        }
    }
}

/// Asks polkit.
#[derive(Debug)]
pub struct Polkit {
    /// The bus polkit is on, for questions about peers; none for the system bus.
    address: Option<String>,
    patience: Patience,
    bus: Mutex<Option<Connection>>,
    questions: AtomicU64,
}

/// Body of CheckAuthorization.
type Question = (
    (&'static str, HashMap<&'static str, Variant<'static>>),
    &'static str,
    HashMap<&'static str, &'static str>,
    u32,
    String,
);

/// Its reply: authorised, a person would have to be asked, details.
type Reply = ((bool, bool, HashMap<String, String>),);

impl Default for Polkit {
    fn default() -> Self {
        Self::at(None, Patience::default())
    }
}

impl Polkit {
    /// polkit on the bus at `address`; without one on the system bus.
    pub fn at(address: Option<String>, patience: Patience) -> Self {
        Self {
            address,
            patience,
            bus: Mutex::default(),
            questions: AtomicU64::new(0),
        }
    }

    /// What polkit says, or why there is no answer of it.
    async fn ask(
        &self,
        subject: &Subject,
        right: Right,
        interactive: bool,
    ) -> Result<Answer, String> {
        let limit = if interactive {
            self.patience.person
        } else {
            self.patience.rules
        };
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        let cancellation = format!("musterd-{}-{number}", std::process::id());
        let mut bus = None;
        let asking = async {
            let (connection, subject) = self.prepare(subject).await?;
            bus = Some(connection.clone());
            let flags = if interactive { ASK_A_PERSON } else { 0 };
            let question: Question = (
                subject,
                action(right),
                HashMap::new(),
                flags,
                cancellation.clone(),
            );
            let reply = connection
                .call_method(
                    Some(NAME),
                    PATH,
                    Some(INTERFACE),
                    "CheckAuthorization",
                    &question,
                )
                .await
                .map_err(|e| format!("polkit did not answer: {e}"))?;
            let ((authorised, challenge, _),) = reply
                .body()
                .deserialize::<Reply>()
                .map_err(|e| format!("polkit's answer is not understood: {e}"))?;
            Ok(verdict(authorised, challenge, interactive))
        };
        if let Ok(answer) = tokio::time::timeout(limit, asking).await {
            return answer;
        }
        if let Some(bus) = bus {
            // The password dialog of a question that nobody waits for any more is taken away.
            tokio::spawn(cancel(bus, cancellation));
        }
        Err(format!("polkit gave no answer in {} s", limit.as_secs()))
    }

    /// Where to ask, and about whom.
    async fn prepare(
        &self,
        subject: &Subject,
    ) -> Result<
        (
            Connection,
            (&'static str, HashMap<&'static str, Variant<'static>>),
        ),
        String,
    > {
        match subject {
            // On the caller's own bus: the name would mean somebody else on another one.
            Subject::Bus { connection, name } => {
                let details = HashMap::from([("name", Variant::from(name.clone()))]);
                Ok((connection.clone(), ("system-bus-name", details)))
            }
            Subject::Peer {
                pidfd: Some(pidfd),
                uid,
            } => {
                let pidfd: OwnedFd = pidfd
                    .as_fd()
                    .try_clone_to_owned()
                    .map_err(|e| format!("no descriptor for a question: {e}"))?;
                // polkit takes `uid` as a signed number and looks a pid up by itself otherwise.
                let uid = i32::try_from(*uid).map_err(|_| format!("uid {uid}: out of range"))?;
                let details = HashMap::from([
                    ("pidfd", Variant::from(Fd::from(pidfd))),
                    ("uid", Variant::from(uid)),
                ]);
                Ok((self.system_bus().await?, ("unix-process", details)))
            }
            // A pid alone can be somebody else's by the time polkit looks.
            Subject::Peer { pidfd: None, .. } => {
                Err("this kernel does not pin the process at a socket".to_owned())
            }
        }
    }

    async fn system_bus(&self) -> Result<Connection, String> {
        let mut bus = self.bus.lock().await;
        if let Some(connection) = bus.as_ref().filter(|c| !is_closed(c)) {
            return Ok(connection.clone());
        }
        let builder = match &self.address {
            Some(address) => zbus::connection::Builder::address(address.as_str()),
            None => zbus::connection::Builder::system(),
        };
        let connection = builder
            .build()
            .await
            .map_err(|e| format!("no system bus to ask polkit on: {e}"))?;
        *bus = Some(connection.clone());
        Ok(connection)
    }
}

fn is_closed(connection: &Connection) -> bool {
    let mut closed = std::pin::pin!(connection.closed());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    closed.as_mut().poll(&mut context).is_ready()
}

fn verdict(authorised: bool, challenge: bool, interactive: bool) -> Answer {
    match (authorised, challenge) {
        (true, _) => Ok(()),
        (false, true) if interactive => {
            Err("it asks for a password, and nobody was there to type one"
                .to_owned()
                .into())
        }
        (false, true) => Err(No {
            why: "it asks for a password, and the call does not allow that".to_owned(),
            needs_a_person: true,
        }),
        (false, false) => Err(No::default()),
    }
}

async fn cancel(bus: Connection, cancellation: String) {
    let body = (cancellation,);
    let call = bus.call_method(
        Some(NAME),
        PATH,
        Some(INTERFACE),
        "CancelCheckAuthorization",
        &body,
    );
    // A polkit that hangs must not gather tasks of ours.
    if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(5), call).await {
        tracing::debug!(%error, "polkit does not take a question back");
    }
}

impl Authority for Polkit {
    fn check<'a>(
        &'a self,
        subject: &'a Subject,
        right: Right,
        interactive: bool,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move {
            match (self.ask(subject, right, interactive).await, subject) {
                (Ok(answer), _) => answer,
                (Err(why), Subject::Peer { .. }) => Err(No::from(format!(
                    "{why}; over the socket this needs Linux 6.5 and polkit 124, over the bus \
                     neither: musterctl --system"
                ))),
                (Err(why), Subject::Bus { .. }) => Err(No::from(why)),
            }
        })
    }
}
