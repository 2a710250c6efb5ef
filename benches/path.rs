//! The whole path of short workers over the socket: Spawn, durable row, exec, exit, durable row,
//! Wait. `path SOCKET N one|pipe [PROGRAM]` prints microseconds a worker; `path SOCKET N list`
//! and `ping` time a page of the roll and a trivial property.

use std::path::Path;
use std::time::Instant;

use musterd::dbus::client::Client;
use musterd::supervisor::handle::{ListFilter, Stdio};
use musterd::worker::Spec;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().collect();
    let [_, socket, n, mode, rest @ ..] = args.as_slice() else {
        return Err("usage: path SOCKET N one|pipe|list|ping [PROGRAM]".into());
    };
    let program = rest.first().map_or("/bin/true", String::as_str);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(socket, n.parse()?, mode, program))
}

async fn run(socket: &str, n: u32, mode: &str, program: &str) -> Result<(), Failure> {
    let client = std::rc::Rc::new(Client::peer(Path::new(socket)).await?);
    let spec = Spec {
        argv: vec![program.into()],
        ..Spec::default()
    };
    let began = Instant::now();
    match mode {
        "one" => {
            for _ in 0..n {
                let spawned = client.spawn(&spec, Stdio::default()).await?;
                client.wait(&spawned.id).await?;
            }
        }
        "pipe" => {
            let local = tokio::task::LocalSet::new();
            for _ in 0..n {
                let (client, spec) = (client.clone(), spec.clone());
                local.spawn_local(async move {
                    if let Ok(spawned) = client.spawn(&spec, Stdio::default()).await {
                        let _ = client.wait(&spawned.id).await;
                    }
                });
            }
            local.await;
        }
        "list" => {
            for _ in 0..n {
                client
                    .list_page(&ListFilter {
                        all: true,
                        ..ListFilter::default()
                    })
                    .await?;
            }
        }
        _ => {
            for _ in 0..n {
                client.service().await?;
            }
        }
    }
    println!(
        "{mode}: {:.1} us each",
        began.elapsed().as_micros() as f64 / f64::from(n)
    );
    Ok(())
}
