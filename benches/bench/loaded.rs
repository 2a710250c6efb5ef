//! Ten thousand rows on the roll, ten thousand units in systemd: what a spawn and a list cost
//! then. Comes last, since the units stay.

use std::collections::HashMap;
use std::time::Instant;

use zbus::{Connection, Variant};

use super::place::{Daemon, Place, Result, all, micros};
use super::report::{Limit, Report, Samples};
use super::spawns::{pipelined, units};
use super::systemd::Systemd;
use musterd::dbus::convert::OwnedListRow;
use musterd::dbus::{MANAGER, OBJECT};

const LOADED: usize = 10_000;
const CHILDREN: usize = 500;

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

async fn list_units(systemd: &Systemd) -> Result<(f64, usize)> {
    let began = Instant::now();
    let reply = systemd.call("ListUnits", &()).await?;
    let time = micros(began);
    let body = reply.body();
    let units: Vec<Unit> = body.deserialize()?;
    Ok((time, units.len()))
}

async fn several(place: &Place, daemon: &Daemon) -> Result<Samples> {
    let mut times = Samples::default();
    for _ in 0..place.rounds {
        times
            .0
            .push(pipelined(daemon, place.count(CHILDREN)).await?);
    }
    Ok(times)
}

pub async fn run(place: &Place, report: &mut Report) -> Result<()> {
    let daemon = place.fresh().await?;
    let empty = several(place, &daemon).await?;
    pipelined(&daemon, place.count(LOADED)).await?;
    let full = several(place, &daemon).await?;
    report.figure("musterd, empty roll", "us a child", &empty);
    report.figure("musterd, 10,000 rows", "us a child", &full);
    report.goal(
        "a spawn with 10,000 rows / with none",
        Limit::AtMost(1.1),
        &full.over(&empty),
    );
    report.not_run(
        "a spawn with 10,000 live / with 10",
        "one owner may have 5,000 live workers",
    );

    let mut pages = Samples::default();
    for _ in 0..place.rounds {
        let (time, rows) = all_pages(daemon.client.connection()).await?;
        pages.0.push(time / rows as f64);
    }
    report.figure("musterd, 10,000 rows in pages", "us a row", &pages);
    if !place.systemd {
        report.not_run("systemd with 10,000 units", "systemd is not PID 1 here");
        return Ok(());
    }
    let systemd = Systemd::new().await?;
    load(&systemd, place.count(LOADED)).await?;
    let (mut spawned, mut listed) = (Samples::default(), Samples::default());
    for round in 0..place.rounds {
        spawned.0.push(units(&systemd, 50, 16, 1000 + round).await?);
        let (time, count) = list_units(&systemd).await?;
        listed.0.push(time / count as f64);
    }
    report.figure("systemd, 10,000 units", "us a child", &spawned);
    report.figure("ListUnits", "us a unit", &listed);
    let what = "StartTransientUnit with 10,000 units / a spawn with 10,000 rows";
    report.goal(what, Limit::AtLeast(15.0), &spawned.over(&full));
    let what = "10,000 rows in pages / ListUnits of 10,000 units, by row";
    report.goal(what, Limit::AtMost(0.5), &pages.over(&listed));
    Ok(())
}

/// Units that have ended and stay.
async fn load(systemd: &Systemd, n: usize) -> Result<()> {
    let start = |i| {
        let systemd = systemd.clone();
        async move {
            let unit = format!("loaded-{i}.service");
            let started = systemd.start(&unit, "oneshot", &["/bin/true"], true).await;
            started.map_err(|e| e.to_string())
        }
    };
    for started in all((0..n).map(start), 16).await {
        started?;
    }
    Ok(())
}
