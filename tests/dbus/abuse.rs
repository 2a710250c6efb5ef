//! Peers that mean no good: they end, the daemon does not.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use musterd::dbus::{Limits, MANAGER, OBJECT};
use musterd::supervisor::handle::Change;
use zbus::Message;

use crate::fake::{Fake, id, until};

/// Says who it is and begins.
fn begin(stream: &mut UnixStream) {
    stream
        .write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n")
        .unwrap();
}

/// The rest of what the daemon sends, once it has ended the connection.
async fn rest(mut stream: UnixStream) -> Vec<u8> {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    tokio::task::spawn_blocking(move || {
        let mut all = Vec::new();
        match stream.read_to_end(&mut all) {
            Ok(_) => all,
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => all,
            Err(e) => panic!("the connection was not ended: {e}"),
        }
    })
    .await
    .unwrap()
}

async fn still_serves(fake: &Fake) {
    fake.client().await.get_worker("x").await.unwrap();
}

#[tokio::test]
async fn garbage_instead_of_a_handshake_ends_only_that_connection() {
    let fake = Fake::start();
    let garbage: &[&[u8]] = &[
        b"\n",
        b"\0\n",
        b"\0\r\n\r\n\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0AUTH EXTERNAL \xff\xff\r\n",
        b"\0BEGIN\nBEGIN\n",
    ];
    for bytes in garbage {
        let mut stream = fake.socket();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        rest(stream).await;
    }
    let mut endless = fake.socket();
    endless.write_all(b"\0").unwrap();
    endless.write_all(&[b'A'; 4096]).unwrap();
    rest(endless).await;
    still_serves(&fake).await;
    until(|| fake.server.connections() == 0).await;
}

#[tokio::test]
async fn another_uid_is_rejected_in_the_handshake() {
    let fake = Fake::start();
    let mut stream = fake.socket();
    let other: String = "4242".bytes().map(|b| format!("{b:02x}")).collect();
    stream
        .write_all(format!("\0AUTH EXTERNAL {other}\r\nBEGIN\r\n").as_bytes())
        .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = String::from_utf8(rest(stream).await).unwrap();
    assert!(answer.starts_with("REJECTED EXTERNAL\r\nERROR"), "{answer}");
}

#[tokio::test]
async fn half_a_handshake_is_ended_after_its_time() {
    let fake = Fake::with(Limits {
        handshake: Duration::from_millis(50),
        ..Limits::default()
    });
    let mut stream = fake.socket();
    stream.write_all(b"\0AUTH").unwrap();
    rest(stream).await;
    until(|| fake.server.connections() == 0).await;
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_connection_before_it_is_stored() {
    let fake = Fake::start();
    let mut stream = fake.socket();
    begin(&mut stream);
    // A method call that announces a body of 100 MiB.
    let mut header = vec![b'l', 1, 0, 1];
    header.extend((100_u32 << 20).to_le_bytes());
    header.extend(1_u32.to_le_bytes());
    header.extend(0_u32.to_le_bytes());
    stream.write_all(&header).unwrap();
    rest(stream).await;
    still_serves(&fake).await;
}

#[tokio::test]
async fn garbage_after_the_handshake_ends_only_that_connection() {
    let fake = Fake::start();
    for byte in [0_u8, b'l', b'B', 0xff] {
        let mut stream = fake.socket();
        begin(&mut stream);
        stream.write_all(&[byte; 64]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        rest(stream).await;
    }
    still_serves(&fake).await;
}

#[tokio::test]
async fn a_body_that_is_not_its_signature_is_invalid_args() {
    let fake = Fake::start();
    let client = fake.client().await;
    let good = Message::method_call(OBJECT, "Status")
        .interface(MANAGER)
        .build(&("missing",))
        .unwrap();
    // The length of the string says more than there is.
    let mut bytes = good.data().to_vec();
    let body = bytes.len() - "missing\0".len() - 4;
    bytes[body] = 200;
    let mut stream = fake.socket();
    begin(&mut stream);
    stream.write_all(&bytes).unwrap();
    let mut seen = Vec::new();
    stream.set_nonblocking(true).unwrap();
    until(|| {
        let mut part = [0; 4096];
        if let Ok(n) = stream.read(&mut part) {
            seen.extend(&part[..n]);
        }
        String::from_utf8_lossy(&seen).contains("org.freedesktop.DBus.Error.InvalidArgs")
    })
    .await;
    client.get_worker("x").await.unwrap();
}

/// Calls that nobody reads the answers of.
fn flood(stream: &mut UnixStream, calls: usize) -> usize {
    let message = Message::method_call(OBJECT, "GetWorker")
        .interface(MANAGER)
        .build(&("x",))
        .unwrap();
    stream.set_nonblocking(true).unwrap();
    for sent in 0..calls {
        let mut bytes = &message.data()[..];
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(_) => return sent,
            }
        }
    }
    calls
}

#[tokio::test]
async fn calls_whose_answers_nobody_reads_are_bounded_and_delay_nobody() {
    let fake = Fake::start();
    let mut stream = fake.socket();
    begin(&mut stream);
    let mut sent = 0;
    // Until the daemon takes no more: its bound is reached, the rest is in the socket.
    let mut idle = 0;
    while sent < 200_000 && idle < 50 {
        let more = flood(&mut stream, 5_000);
        sent += more;
        idle = if more == 0 { idle + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(sent < 200_000, "the daemon takes calls without an end");
    assert!(
        fake.server.open_calls() <= 300,
        "{}",
        fake.server.open_calls()
    );
    still_serves(&fake).await;
    drop(stream);
    until(|| fake.server.connections() == 0 && fake.server.open_calls() == 0).await;
}

#[tokio::test]
async fn a_listener_that_does_not_read_is_cut_off_and_others_hear_everything() {
    let fake = Fake::start();
    let mut deaf = fake.socket();
    begin(&mut deaf);
    let call = Message::method_call(OBJECT, "Ping")
        .interface("org.freedesktop.DBus.Peer")
        .build(&())
        .unwrap();
    deaf.write_all(call.data()).unwrap();
    let client = fake.client().await;
    let mut events = client.events().await.unwrap();
    until(|| fake.server.connections() == 2).await;
    client.get_worker("x").await.unwrap();
    let mut heard = 0;
    for round in 0.. {
        for _ in 0..100 {
            fake.changes.send(Change::New(id("0000000a"))).unwrap();
        }
        for _ in 0..100 {
            events.next().await.unwrap();
            heard += 1;
        }
        if fake.server.connections() == 1 {
            break;
        }
        assert!(round < 1000, "a deaf listener is never cut off");
    }
    assert!(heard > 1000);
    rest(deaf).await;
}

/// Clients made for a message bus take nothing before the answer to their greeting.
#[tokio::test]
async fn a_peer_hears_no_signal_before_its_first_answer() {
    let fake = Fake::start();
    let mut early = fake.socket();
    begin(&mut early);
    let client = fake.client().await;
    let mut events = client.events().await.unwrap();
    until(|| fake.server.connections() == 2).await;
    fake.changes.send(Change::New(id("0000000a"))).unwrap();
    events.next().await.unwrap();
    let call = Message::method_call("/org/freedesktop/DBus", "Hello")
        .interface("org.freedesktop.DBus")
        .build(&())
        .unwrap();
    early.write_all(call.data()).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let mut ear = early.try_clone().unwrap();
    let into = Arc::clone(&heard);
    let listening = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = ear.read(&mut buffer) {
            into.lock().unwrap().extend_from_slice(&buffer[..n]);
        }
    });
    let messages = || {
        let all = heard.lock().unwrap();
        let end = b"AGREE_UNIX_FD\r\n";
        let at = all.windows(end.len()).position(|part| part == end);
        at.map_or(Vec::new(), |at| all[at + end.len()..].to_vec())
    };
    until(|| messages().len() > 1).await;
    // The type is in the second byte: a method return, not a signal.
    assert_eq!(messages()[1], 2);
    fake.changes.send(Change::New(id("0000000b"))).unwrap();
    until(|| String::from_utf8_lossy(&messages()).contains("WorkerNew")).await;
    early.shutdown(std::net::Shutdown::Both).unwrap();
    listening.join().unwrap();
}

#[tokio::test]
async fn connections_of_one_user_are_bounded() {
    let fake = Fake::with(Limits {
        connections: 3,
        ..Limits::default()
    });
    let open: Vec<_> = [fake.socket(), fake.socket(), fake.socket()].into();
    until(|| fake.server.connections() == 3).await;
    rest(fake.socket()).await;
    drop(open);
    until(|| fake.server.connections() == 0).await;
    still_serves(&fake).await;
}

#[tokio::test]
async fn an_instance_of_one_user_serves_nobody_else() {
    let fake = Fake::with(Limits {
        only_uid: Some(nix::unistd::getuid().as_raw() + 1),
        ..Limits::default()
    });
    rest(fake.socket()).await;
    assert_eq!(fake.server.connections(), 0);
}
