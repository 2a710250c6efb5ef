//! A trivial method beside an echo: what the bus itself costs is on both sides.

use std::time::Instant;

use zbus::Connection;

use super::place::{Helper, Place, Result, all, micros};
use super::report::{Limit, Report, Samples};
use musterd::dbus::client::Client;
use musterd::dbus::{BUS_NAME, OBJECT};

const CALLS: usize = 2000;
const WINDOW: usize = 64;
const ECHO: &str = "org.muster1.bench.Echo";

/// A property of the manager: the least that goes through all of the daemon.
pub async fn trivial(connection: &Connection, to: Option<&str>) -> Result<()> {
    let body = (musterd::dbus::MANAGER, "State");
    let interface = Some("org.freedesktop.DBus.Properties");
    connection
        .call_method(to, OBJECT, interface, "Get", &body)
        .await?;
    Ok(())
}

/// The floor's method.
pub async fn echo(connection: &Connection, to: Option<&str>) -> Result<()> {
    connection
        .call_method(to, OBJECT, None::<&str>, "Echo", &"running")
        .await?;
    Ok(())
}

#[derive(Clone, Copy)]
enum What {
    Echo,
    Trivial,
}

async fn call(connection: &Connection, to: Option<&str>, what: What) -> Result<()> {
    match what {
        What::Echo => echo(connection, to).await,
        What::Trivial => trivial(connection, to).await,
    }
}

/// Median microseconds, one call after the other.
async fn one(connection: &Connection, to: Option<&str>, what: What, n: usize) -> Result<f64> {
    let mut times = Samples::default();
    for _ in 0..n {
        let began = Instant::now();
        call(connection, to, what).await?;
        times.0.push(micros(began));
    }
    Ok(times.median())
}

/// Calls a second with a window.
async fn many(connection: &Connection, what: What, n: usize) -> Result<f64> {
    let job = |_| {
        let connection = connection.clone();
        async move {
            call(&connection, None, what)
                .await
                .map_err(|e| e.to_string())
        }
    };
    let began = Instant::now();
    for called in all((0..n).map(job), WINDOW).await {
        called?;
    }
    Ok(n as f64 / began.elapsed().as_secs_f64())
}

pub async fn run(place: &Place, report: &mut Report) -> Result<()> {
    let n = place.count(CALLS);
    let daemon = place.fresh().await?;
    let socket = place.dir.join("echo-calls");
    let _ = std::fs::remove_file(&socket);
    let program = place.program("echo")?;
    let _peer = Helper::start(&program, &["peer", &socket.to_string_lossy()])?;
    let floor = Client::peer(&socket).await?;
    let (floor, ours) = (floor.connection(), daemon.client.connection());
    let mut peer = [Samples::default(), Samples::default()];
    let mut rate = [Samples::default(), Samples::default()];
    for _ in 0..place.rounds {
        peer[0].0.push(one(floor, None, What::Echo, n).await?);
        peer[1].0.push(one(ours, None, What::Trivial, n).await?);
        rate[0].0.push(many(floor, What::Echo, n * 2).await?);
        rate[1].0.push(many(ours, What::Trivial, n * 2).await?);
    }
    report.figure("echo, peer to peer", "us", &peer[0]);
    report.figure("musterd, peer to peer", "us", &peer[1]);
    report.figure("echo, 64 in flight", "calls a second", &rate[0]);
    report.figure("musterd, 64 in flight", "calls a second", &rate[1]);
    report.goal(
        "a trivial method / echo, peer to peer",
        Limit::AtMost(1.15),
        &peer[1].over(&peer[0]),
    );
    report.ratio("calls in flight / echo's", &rate[1].over(&rate[0]));
    let Some(address) = &place.bus else {
        report.not_run(
            "a trivial method / echo, on the bus",
            "there is no bus here",
        );
        return Ok(());
    };
    let _bus = Helper::start(&program, &["bus", address, ECHO])?;
    let client = Client::bus(address).await?;
    let mut bus = [Samples::default(), Samples::default()];
    for _ in 0..place.rounds {
        bus[0]
            .0
            .push(one(client.connection(), Some(ECHO), What::Echo, n).await?);
        bus[1]
            .0
            .push(one(client.connection(), Some(BUS_NAME), What::Trivial, n).await?);
    }
    report.figure("echo on the bus", "us", &bus[0]);
    report.figure("musterd on the bus", "us", &bus[1]);
    report.goal(
        "a trivial method / echo, on the bus",
        Limit::AtMost(1.15),
        &bus[1].over(&bus[0]),
    );
    Ok(())
}
