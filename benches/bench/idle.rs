//! What it costs to hold workers and do nothing: memory, wakeups, CPU.

use std::time::{Duration, Instant};

use super::place::{Daemon, Helper, Place, Result};
use super::report::{Limit, Report, Samples};
use super::spawns;
use musterd::dbus::client::Client;

const LIVE: usize = 1000;
const FINISHED: usize = 10_000;
/// How long it is watched doing nothing.
const WATCHED: Duration = Duration::from_secs(20);

/// Proportional set size, KiB.
pub fn pss(pid: u64) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    Ok(number.ok_or("no Pss in smaps_rollup")?.parse()?)
}

/// Times put on a CPU, and nanoseconds there, of all threads.
fn run_time(pid: u64) -> Result<(f64, f64)> {
    let (mut times, mut nanos) = (0.0, 0.0);
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may have ended since.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<f64>);
        nanos += numbers.next().ok_or("schedstat is empty")??;
        times += numbers.nth(1).ok_or("schedstat is short")??;
    }
    Ok((times, nanos))
}

fn threads(pid: u64) -> Result<f64> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/task"))?.count() as f64)
}

/// Wakeups and CPU milliseconds a minute.
async fn watch(pid: u64) -> Result<(f64, f64)> {
    let before = run_time(pid)?;
    let began = Instant::now();
    tokio::time::sleep(WATCHED).await;
    let after = run_time(pid)?;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    Ok((
        (after.0 - before.0) / minutes,
        (after.1 - before.1) / 1e6 / minutes,
    ))
}

/// Nothing of the start is under way any more: the blocking threads have gone.
async fn settle(daemon: &Daemon) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    let mut last = (0.0, 0.0);
    while Instant::now() < end {
        let now = run_time(daemon.pid)?;
        if now == last {
            return Ok(());
        }
        last = now;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    Ok(())
}

#[derive(Default)]
struct Figures {
    echo: Samples,
    hold: Samples,
    empty: Samples,
    live: Samples,
    row: Samples,
    finished: Samples,
    threads: Samples,
    wakeups: Samples,
    cpu: Samples,
}

async fn round(place: &Place, f: &mut Figures) -> Result<()> {
    let socket = place.dir.join("echo-idle");
    let _ = std::fs::remove_file(&socket);
    let echo = Helper::start(
        &place.program("echo")?,
        &["peer", &socket.to_string_lossy()],
    )?;
    // As the daemon has, it has served somebody.
    let client = Client::peer(&socket).await?;
    for _ in 0..100 {
        super::calls::echo(client.connection(), None).await?;
    }
    f.echo.0.push(pss(echo.pid())?);
    drop(echo);
    let n = place.count(LIVE);
    let hold = Helper::start(&place.program("floor")?, &["hold", &n.to_string()])?;
    f.hold.0.push(pss(hold.pid())?);
    hold.finish()?;

    let daemon = place.fresh().await?;
    settle(&daemon).await?;
    let empty = pss(daemon.pid)?;
    let few = threads(daemon.pid)?;
    f.empty.0.push(empty);
    let ids = daemon.start(&["sleep", "inf"], n).await?;
    settle(&daemon).await?;
    let live = pss(daemon.pid)?;
    f.live.0.push(live);
    f.row.0.push((live - empty) / n as f64);
    f.threads.0.push(threads(daemon.pid)? - few);
    let (wakeups, cpu) = watch(daemon.pid).await?;
    f.wakeups.0.push(wakeups);
    f.cpu.0.push(cpu);
    daemon.end_all(&ids).await?;

    let daemon = place.fresh().await?;
    let n = place.count(FINISHED);
    let empty = pss(daemon.pid)?;
    spawns::pipelined(&daemon, n).await?;
    settle(&daemon).await?;
    f.finished.0.push((pss(daemon.pid)? - empty) / n as f64);
    Ok(())
}

pub async fn run(place: &Place, report: &mut Report) -> Result<()> {
    let mut f = Figures::default();
    for _ in 0..place.rounds {
        round(place, &mut f).await?;
    }
    report.figure("floor of 1000 pidfds, PSS", "KiB", &f.hold);
    report.figure("zbus service, PSS", "KiB", &f.echo);
    report.figure("musterd at 0, PSS", "KiB", &f.empty);
    report.figure("musterd at 1000 live, PSS", "KiB", &f.live);
    if place.systemd {
        report.figure("systemd now, PSS", "KiB", &Samples(vec![pss(1)?]));
    }
    report.goal(
        "PSS at 0 / zbus service",
        Limit::AtMost(2.0),
        &f.empty.over(&f.echo),
    );
    report.goal("KiB a live row", Limit::AtMost(3.0), &f.row);
    report.goal("KiB a finished row", Limit::AtMost(1.5), &f.finished);
    report.goal("threads more at 1000 live", Limit::AtMost(0.0), &f.threads);
    report.goal(
        "wakeups a minute at 1000 live",
        Limit::AtMost(1.0),
        &f.wakeups,
    );
    report.goal("CPU ms a minute at 1000 live", Limit::AtMost(1.0), &f.cpu);
    Ok(())
}
