//! Reading the roll.

use std::collections::HashMap;
use std::time::Instant;

use zbus::{Connection, Variant};

use super::place::{Helper, Place, Result, micros};
use super::report::{Limit, Report, Samples};
use musterd::dbus::{MANAGER, OBJECT};

const LIVE: usize = 1000;
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
    Ok(())
}
