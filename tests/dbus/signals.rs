//! What the daemon tells of its own accord.

use std::collections::BTreeMap;

use musterd::dbus::client::Event;
use musterd::supervisor::handle::Change;
use musterd::worker::{Exit, KindType, Outcome};

use crate::fake::{Fake, id};

const A: &str = "0000000a";

#[tokio::test]
async fn every_change_arrives_as_its_signal() {
    let fake = Fake::start();
    let client = fake.client().await;
    let mut events = client.events().await.unwrap();
    client.get_worker("x").await.unwrap();
    let a = id(A);
    for change in [
        Change::New(a),
        Change::Exited {
            id: a,
            outcome: Outcome::Completed,
            kind: KindType::Command,
            exit: Some(Exit::Code(0)),
            settled: false,
            reservation: Some(4),
        },
        Change::Removed {
            id: a,
            why: "reaped",
        },
        Change::Reaped {
            counts: BTreeMap::from([("reap".into(), 1)]),
            removed: vec![a],
        },
    ] {
        fake.changes.send(change).unwrap();
    }
    assert_eq!(events.next().await, Some(Event::New { id: A.into() }));
    let exited = Event::Exited {
        id: A.into(),
        outcome: "completed".into(),
        exit_code: Some(0),
        exit_signal: None,
        kind: "command".into(),
        settled: false,
        reservation: Some(4),
    };
    assert_eq!(events.next().await, Some(exited));
    let removed = Event::Removed {
        id: A.into(),
        why: "reaped".into(),
    };
    assert_eq!(events.next().await, Some(removed));
    let reaped = Event::Reaped {
        counts: BTreeMap::from([("reap".into(), 1)]),
        removed: vec![A.into()],
    };
    assert_eq!(events.next().await, Some(reaped));
}

#[tokio::test]
async fn many_changes_of_one_worker_are_told_once_without_its_texts() {
    let fake = Fake::start();
    let client = fake.client().await;
    let mut raw = zbus::MessageStream::from(client.connection());
    client.get_worker("x").await.unwrap();
    for _ in 0..100 {
        fake.changes.send(Change::Changed(id(A))).unwrap();
    }
    let message = loop {
        let next = std::future::poll_fn(|cx| {
            futures_core::Stream::poll_next(std::pin::Pin::new(&mut raw), cx)
        });
        let message = next.await.unwrap().unwrap();
        if message.message_type() == zbus::message::Type::Signal {
            break message;
        }
    };
    let body = message.body();
    let (interface, changed, invalidated): (
        String,
        BTreeMap<String, zbus::OwnedVariant>,
        Vec<String>,
    ) = body.deserialize().unwrap();
    assert_eq!(interface, "org.muster1.Worker");
    assert!(changed.contains_key("Status"));
    for text in ["StatusText", "Worktree", "CancelReason", "Leftovers"] {
        assert!(invalidated.contains(&text.to_owned()), "{text}");
        assert!(!changed.contains_key(text), "{text}");
    }
    for constant in ["CommandLine", "WorkingDirectory", "Name"] {
        assert!(!changed.contains_key(constant) && !invalidated.contains(&constant.to_owned()));
    }
    // Nothing differs the next time, so nothing is told but the marker.
    fake.changes.send(Change::Changed(id(A))).unwrap();
    let mut events = client.events().await.unwrap();
    let marker = id("0000000c");
    fake.changes.send(Change::Changed(marker)).unwrap();
    let Some(Event::Changed { id, .. }) = events.next().await else {
        panic!("no signal");
    };
    // Ended workers' properties are told in full each time: nothing is remembered for them.
    assert!(id == A || id == marker.to_string());
}
