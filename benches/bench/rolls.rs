//! Reading the roll.

use std::collections::HashMap;
use std::time::Instant;

use zbus::{Connection, Variant};

use super::place::{Helper, Place, Result, micros};
use super::report::{Limit, Report, Samples};
use super::spawns;
use super::systemd::Systemd;
use musterd::dbus::convert::OwnedListRow;
use musterd::dbus::{MANAGER, OBJECT};

const LIVE: usize = 1000;
const FINISHED: usize = 10_000;
/// Calls of one round.
const CALLS: usize = 20;

/// Median of one page, microseconds. The reply is received and not unpacked: that is the
/// caller's own affair, and the same on both sides.
async fn page(connection: &Connection, method: &str, calls: usize) -> Result<f64> {
    let filter = HashMap::from([("all", Variant::from(true))]);
    let mut times = Samples::default();
    for _ in 0..calls {
        let began = Instant::now();
        let body = (filter.clone(),);
        let interface = Some(MANAGER);
        connection
            .call_method(None::<&str>, OBJECT, interface, method, &body)
            .await?;
        times.0.push(micros(began));
    }
    Ok(times.median())
}

/// Microseconds for the whole roll in pages, and how many rows that were. Not unpacked either,
/// but for the id that the next page begins after, which is not counted.
async fn all_pages(connection: &Connection) -> Result<(f64, usize)> {
    let mut filter = HashMap::from([("all", Variant::from(true))]);
    let (mut time, mut rows) = (0.0, 0);
    loop {
        let began = Instant::now();
        let body = (filter.clone(),);
        let reply = connection
            .call_method(None::<&str>, OBJECT, Some(MANAGER), "ListWorkers", &body)
            .await?;
        time += micros(began);
        let page: Vec<OwnedListRow> = reply.body().deserialize()?;
        rows += page.len();
        let Some(last) = page.last() else {
            return Ok((time, rows));
        };
        filter.insert("after", Variant::from(last.0.clone()));
    }
}

/// As ListUnits tells it.
type Unit = (
    String,
    String,
    String,
    String,
    String,
    String,
    zbus::OwnedObjectPath,
    u32,
    String,
    zbus::OwnedObjectPath,
);

async fn units(systemd: &Systemd) -> Result<(f64, usize)> {
    let began = Instant::now();
    let reply = systemd.call("ListUnits", &()).await?;
    let time = micros(began);
    let body = reply.body();
    let units: Vec<Unit> = body.deserialize()?;
    Ok((time, units.len()))
}

pub async fn run(place: &Place, report: &mut Report) -> Result<()> {
    let daemon = place.fresh().await?;
    let n = place.count(LIVE);
    let ids = daemon.start(&["sleep", "inf"], n).await?;
    let socket = place.dir.join("echo-rows");
    let _ = std::fs::remove_file(&socket);
    let from = place.socket.to_string_lossy();
    let args = ["peer", &socket.to_string_lossy(), &from];
    let echo = Helper::start(&place.program("echo")?, &args)?;
    let floor = musterd::dbus::client::Client::peer(&socket).await?;
    let mut f = [Samples::default(), Samples::default()];
    for _ in 0..place.rounds {
        f[0].0.push(page(floor.connection(), "Rows", CALLS).await?);
        f[1].0
            .push(page(daemon.client.connection(), "ListWorkers", CALLS).await?);
    }
    drop(echo);
    daemon.end_all(&ids).await?;
    let [floor, musterd] = &f;
    report.figure("zbus service with the same reply", "us", floor);
    report.figure("musterd, 1000 rows", "us", musterd);
    report.goal(
        "1000 rows / zbus floor",
        Limit::AtMost(1.3),
        &musterd.over(floor),
    );
    finished(place, report).await
}

async fn finished(place: &Place, report: &mut Report) -> Result<()> {
    let daemon = place.fresh().await?;
    let n = place.count(FINISHED);
    spawns::pipelined(&daemon, n).await?;
    let (mut rows, mut listed) = (Samples::default(), Samples::default());
    let systemd = if place.systemd {
        Some(Systemd::new().await?)
    } else {
        None
    };
    for _ in 0..place.rounds {
        let (time, count) = all_pages(daemon.client.connection()).await?;
        rows.0.push(time / count as f64);
        if let Some(systemd) = &systemd {
            let (time, count) = units(systemd).await?;
            listed.0.push(time / count as f64);
        }
    }
    report.figure("musterd, 10,000 rows in pages", "us a row", &rows);
    if systemd.is_some() {
        report.figure("ListUnits", "us a unit", &listed);
        let ratio = rows.over(&listed);
        report.goal(
            "10,000 rows in pages / ListUnits, by row",
            Limit::AtMost(0.5),
            &ratio,
        );
    } else {
        report.not_run(
            "10,000 rows in pages / ListUnits",
            "systemd is not PID 1 here",
        );
    }
    Ok(())
}
