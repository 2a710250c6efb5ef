//! polkit as authority: what it is asked, and that every answer but a yes is a no. A table on a
//! private bus answers in its place.

use std::collections::HashMap;
use std::future::poll_fn;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::Stream;
use musterd::dbus::auth::{Answer, No, Subject};
use musterd::dbus::polkit::{Patience, Polkit};
use musterd::dbus::{Authority, NoPolkit};
use musterd::supervisor::handle::Right;
use zbus::{Connection, Message, MessageStream, OwnedVariant};

use crate::bus::Bus;
use crate::fake::until;

/// Subject kind, details in words, action, flags, cancellation id.
type Asked = (String, String, String, u32, String);

#[derive(Debug, Clone, Copy)]
enum Says {
    Yes,
    No,
    WantsAPassword,
    Nothing,
    AnError,
    Nonsense,
}

#[derive(Debug)]
struct FakePolkit {
    says: Mutex<Says>,
    asked: Mutex<Vec<Asked>>,
    cancelled: Mutex<Vec<String>>,
}

impl FakePolkit {
    async fn on(bus: &Bus) -> Arc<Self> {
        let connection = zbus::connection::Builder::address(bus.address.as_str())
            .build()
            .await
            .unwrap();
        let mut messages = MessageStream::from(&connection);
        connection
            .request_name("org.freedesktop.PolicyKit1")
            .await
            .unwrap();
        let polkit = Arc::new(Self {
            says: Mutex::new(Says::Yes),
            asked: Mutex::default(),
            cancelled: Mutex::default(),
        });
        let me = polkit.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| Pin::new(&mut messages).poll_next(cx)).await
            {
                if message.message_type() == zbus::message::Type::MethodCall {
                    me.answer(&connection, &message).await;
                }
            }
        });
        polkit
    }

    async fn answer(&self, connection: &Connection, call: &Message) {
        let header = call.header();
        assert_eq!(
            header.path().unwrap().as_str(),
            "/org/freedesktop/PolicyKit1/Authority"
        );
        if header.member().unwrap().as_str() == "CancelCheckAuthorization" {
            let (id,): (String,) = call.body().deserialize().unwrap();
            self.cancelled.lock().unwrap().push(id);
            return;
        }
        type Question = (
            (String, HashMap<String, OwnedVariant>),
            String,
            HashMap<String, String>,
            u32,
            String,
        );
        let ((kind, details), action, more, flags, cancel): Question =
            call.body().deserialize().unwrap();
        assert!(more.is_empty());
        let mut words: Vec<String> = details.iter().map(|(k, v)| word(k, v)).collect();
        words.sort();
        let asked = (kind, words.join(" "), action, flags, cancel);
        self.asked.lock().unwrap().push(asked);
        let none: HashMap<String, String> = HashMap::new();
        let good = |yes: bool, challenge: bool| {
            Message::method_return(&header)
                .build(&((yes, challenge, &none),))
                .unwrap()
        };
        let says = *self.says.lock().unwrap();
        let reply = match says {
            Says::Yes => good(true, false),
            Says::No => good(false, false),
            Says::WantsAPassword => good(false, true),
            Says::Nothing => return,
            Says::AnError => Message::error(&header, "org.freedesktop.PolicyKit1.Error.Failed")
                .build(&("broken",))
                .unwrap(),
            Says::Nonsense => Message::method_return(&header).build(&("yes",)).unwrap(),
        };
        connection.send(&reply).await.unwrap();
    }

    fn set(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    fn last(&self) -> Asked {
        self.asked.lock().unwrap().last().unwrap().clone()
    }
}

fn word(key: &str, value: &OwnedVariant) -> String {
    match value.value_signature().to_string().as_str() {
        "h" => format!("{key}:h"),
        "i" => format!("{key}:i={}", i32::try_from(value.clone()).unwrap()),
        "s" => format!("{key}:s={}", String::try_from(value.clone()).unwrap()),
        other => panic!("{key} of type {other}"),
    }
}

const SHORT: Patience = Patience {
    rules: Duration::from_millis(200),
    person: Duration::from_millis(400),
};
const LONG: Patience = Patience {
    rules: Duration::from_secs(20),
    person: Duration::from_secs(20),
};

fn peer(pinned: bool) -> Subject {
    let own = rustix::process::getpid();
    let fd: OwnedFd =
        rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty()).unwrap();
    Subject::Peer {
        pidfd: pinned.then(|| Arc::new(fd.as_fd().try_clone_to_owned().unwrap())),
        uid: 1234,
    }
}

async fn check(polkit: &Polkit, subject: &Subject, right: Right, interactive: bool) -> Answer {
    polkit.check(subject, right, interactive).await
}

#[tokio::test]
async fn each_right_is_asked_for_by_its_action_about_who_calls() {
    let bus = Bus::start();
    let fake = FakePolkit::on(&bus).await;
    let polkit = Polkit::at(Some(bus.address.clone()), LONG);
    let connection = zbus::connection::Builder::address(bus.address.as_str())
        .build()
        .await
        .unwrap();
    let caller = Subject::Bus {
        connection,
        name: ":1.77".to_owned(),
    };
    for (right, action) in [
        (Right::Spawn, "org.muster1.spawn"),
        (Right::ListAll, "org.muster1.list-all"),
        (Right::ManageAll, "org.muster1.manage-all"),
        (Right::ManageService, "org.muster1.manage-service"),
    ] {
        assert_eq!(check(&polkit, &caller, right, false).await, Ok(()));
        let (kind, details, asked, flags, _) = fake.last();
        let found = (kind.as_str(), details.as_str(), asked.as_str(), flags);
        assert_eq!(found, ("system-bus-name", "name:s=:1.77", action, 0));
        assert_eq!(check(&polkit, &peer(true), right, true).await, Ok(()));
        let (kind, details, asked, flags, _) = fake.last();
        let found = (kind.as_str(), details.as_str(), asked.as_str(), flags);
        assert_eq!(found, ("unix-process", "pidfd:h uid:i=1234", action, 1));
    }
}

#[tokio::test]
async fn whatever_is_no_clear_yes_is_a_no() {
    let bus = Bus::start();
    let fake = FakePolkit::on(&bus).await;
    let polkit = Polkit::at(Some(bus.address.clone()), SHORT);
    for (says, interactive, words) in [
        (Says::No, false, ""),
        (Says::WantsAPassword, false, "the call does not allow that"),
        (Says::WantsAPassword, true, "nobody was there"),
        (Says::AnError, false, "did not answer"),
        (Says::Nonsense, false, "not understood"),
        (Says::Nothing, false, "no answer in"),
        (Says::Nothing, true, "no answer in"),
    ] {
        fake.set(says);
        let answer = check(&polkit, &peer(true), Right::ManageAll, interactive).await;
        let no = answer.expect_err(&format!("{says:?}"));
        assert!(no.why.contains(words), "{says:?}: {no:?}");
        // Another try helps only where the question was all that stood in the way.
        let would_help = matches!(says, Says::WantsAPassword) && !interactive;
        assert_eq!(no.needs_a_person, would_help, "{says:?}");
        // polkit knows who is meant where it gives an answer: the bus would get the same one.
        let answered = matches!(says, Says::No | Says::WantsAPassword);
        assert_eq!(no.why.contains("--system"), !answered, "{says:?}: {no:?}");
    }
    // The last two questions were taken back, each by its own id.
    until(|| fake.cancelled.lock().unwrap().len() == 2).await;
    let mut asked: Vec<String> = fake
        .asked
        .lock()
        .unwrap()
        .iter()
        .map(|a| a.4.clone())
        .collect();
    let mut cancelled = fake.cancelled.lock().unwrap().clone();
    let mut last = asked.split_off(asked.len() - 2);
    cancelled.sort();
    last.sort();
    assert_eq!(cancelled, last);
}

#[tokio::test]
async fn a_peer_that_cannot_be_pinned_is_pointed_to_the_bus_and_never_asked_about() {
    let bus = Bus::start();
    let fake = FakePolkit::on(&bus).await;
    let polkit = Polkit::at(Some(bus.address.clone()), LONG);
    let no = check(&polkit, &peer(false), Right::ManageAll, true)
        .await
        .unwrap_err();
    assert!(no.why.contains("--system"), "{no:?}");
    assert!(fake.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn no_polkit_and_no_bus_are_a_no() {
    let bus = Bus::start();
    let absent = Polkit::at(Some(bus.address.clone()), LONG);
    assert!(
        check(&absent, &peer(true), Right::Spawn, false)
            .await
            .is_err()
    );
    let nowhere = Polkit::at(Some("unix:path=/nonexistent".to_owned()), LONG);
    assert!(
        check(&nowhere, &peer(true), Right::Spawn, false)
            .await
            .is_err()
    );
    let none = NoPolkit.check(&peer(true), Right::Spawn, false).await;
    assert_eq!(none, Err(No::default()));
}

#[tokio::test]
async fn after_a_restart_of_the_bus_polkit_is_asked_again() {
    let bus = Bus::start();
    let _fake = FakePolkit::on(&bus).await;
    let polkit = Polkit::at(Some(bus.address.clone()), LONG);
    assert_eq!(
        check(&polkit, &peer(true), Right::Spawn, false).await,
        Ok(())
    );
    let (dir, address) = bus.end();
    std::fs::remove_file(dir.path().join("bus")).ok();
    assert!(
        check(&polkit, &peer(true), Right::Spawn, false)
            .await
            .is_err()
    );
    let bus = Bus::start_at(dir, address);
    let _fake = FakePolkit::on(&bus).await;
    assert_eq!(
        check(&polkit, &peer(true), Right::Spawn, false).await,
        Ok(())
    );
}
