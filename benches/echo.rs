//! The floor of a D-Bus service: a zbus connection that answers each message as it comes, and
//! does nothing else. `echo peer SOCKET [ROWS-FROM]` or `echo bus ADDRESS NAME`.
//!
//! `Rows` answers what `ListWorkers` of the daemon at the socket ROWS-FROM answered at the start.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::process::ExitCode;

use futures_core::Stream;
use musterd::dbus::convert::OwnedListRow;
use zbus::message::Type;
use zbus::{Connection, Message, MessageStream, OwnedGuid, Variant};

type Failure = Box<dyn std::error::Error>;
type Rows = std::rc::Rc<Vec<OwnedListRow>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = runtime.map_err(Failure::from).and_then(|runtime| {
        let local = tokio::task::LocalSet::new();
        runtime.block_on(local.run_until(run(&args)))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &[&str]) -> Result<(), Failure> {
    match args {
        ["peer", socket, from @ ..] => {
            let rows = match from.first() {
                Some(from) => fetch(from).await?,
                None => Vec::new(),
            };
            let rows = Rows::new(rows);
            let listener = tokio::net::UnixListener::bind(socket)?;
            ready()?;
            loop {
                let (stream, _) = listener.accept().await?;
                let guid = OwnedGuid::from(zbus::Guid::generate());
                let messages = zbus::connection::Builder::unix_stream(stream.into_std()?)
                    .server(guid)
                    .p2p()
                    .build_message_stream();
                let rows = rows.clone();
                tokio::task::spawn_local(async move {
                    if let Ok(messages) = messages.await {
                        let _ = serve(messages, &rows).await;
                    }
                });
            }
        }
        ["bus", address, name] => {
            let messages = zbus::connection::Builder::address(*address)
                .build_message_stream()
                .await?;
            Connection::from(&messages).request_name(*name).await?;
            ready()?;
            serve(messages, &Rows::default()).await
        }
        _ => Err("usage: echo peer SOCKET [ROWS-FROM] | echo bus ADDRESS NAME".into()),
    }
}

fn ready() -> std::io::Result<()> {
    println!("ready");
    std::io::stdout().flush()
}

/// A page of the real roll.
async fn fetch(socket: &str) -> Result<Vec<OwnedListRow>, Failure> {
    let client = musterd::dbus::client::Client::peer(Path::new(socket)).await?;
    let filter = HashMap::from([("all", Variant::from(true))]);
    let reply = client
        .connection()
        .call_method(
            None::<&str>,
            musterd::dbus::OBJECT,
            Some(musterd::dbus::MANAGER),
            "ListWorkers",
            &(filter,),
        )
        .await?;
    Ok(reply.body().deserialize()?)
}

async fn serve(mut messages: MessageStream, rows: &Rows) -> Result<(), Failure> {
    let connection = Connection::from(&messages);
    while let Some(message) = poll_fn(|cx| Pin::new(&mut messages).poll_next(cx)).await {
        let message = message?;
        if message.message_type() != Type::MethodCall {
            continue;
        }
        let header = message.header();
        let reply = Message::method_return(&header);
        let reply = match header.member().map(|member| member.as_str()) {
            Some("Rows") => reply.build(&**rows)?,
            _ => {
                let text: String = message.body().deserialize()?;
                reply.build(&text)?
            }
        };
        connection.send(&reply).await?;
    }
    Ok(())
}
