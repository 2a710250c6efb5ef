//! From the call to the end: `/bin/true`, one by one and pipelined.

use std::time::Instant;

use super::place::{Daemon, Place, Result, all, micros, spec};
use super::report::{Limit, Report, Samples};
use super::systemd::Systemd;
use musterd::supervisor::handle::Stdio;

const CHILDREN: usize = 500;

/// Microseconds a worker, one after the other.
async fn one_by_one(daemon: &Daemon, n: usize) -> Result<f64> {
    let spec = spec(&["/bin/true"]);
    let began = Instant::now();
    for _ in 0..n {
        let id = daemon.client.spawn(&spec, Stdio::default()).await?.id;
        daemon.client.wait(&id).await?;
    }
    Ok(micros(began) / n as f64)
}

/// Microseconds a worker, as many as the daemon takes at a time.
pub async fn pipelined(daemon: &Daemon, n: usize) -> Result<f64> {
    let job = |_| {
        let client = daemon.client.clone();
        async move {
            let spawned = client
                .spawn(&spec(&["/bin/true"]), Stdio::default())
                .await?;
            client.wait(&spawned.id).await
        }
    };
    let began = Instant::now();
    for ended in all((0..n).map(job), 200).await {
        ended?;
    }
    Ok(micros(began) / n as f64)
}

/// Microseconds a transient unit, `window` at a time.
pub async fn units(systemd: &Systemd, n: usize, window: usize, round: usize) -> Result<f64> {
    let job = |i| {
        let systemd = systemd.clone();
        async move {
            let unit = format!("bench-{round}-{window}-{i}.service");
            let started = systemd.start(&unit, "oneshot", &["/bin/true"], false).await;
            started.map_err(|e| e.to_string())
        }
    };
    let began = Instant::now();
    for ended in all((0..n).map(job), window).await {
        ended?;
    }
    Ok(micros(began) / n as f64)
}

#[derive(Default)]
struct Figures {
    floor: [Samples; 2],
    durable: [Samples; 2],
    musterd: [Samples; 2],
    systemd: [Samples; 2],
    run: Samples,
    /// Floor and engine of each shape, by the size of the parent.
    alone: [[[Samples; 2]; 2]; 2],
}

const SHAPES: [(&str, &str); 2] = [("one", "one by one"), ("pipe", "pipelined")];
/// MiB.
const PARENTS: [&str; 2] = ["10", "64"];

/// The engine without rows, bus and supervisor.
fn engine(place: &Place, n: usize, f: &mut Figures) -> Result<()> {
    let (leaves, count) = (place.leaves(), n.to_string());
    for (by_size, size) in f.alone.iter_mut().zip(PARENTS) {
        let ballast = format!("ballast={size}");
        for (pair, (shape, _)) in by_size.iter_mut().zip(SHAPES) {
            let args = ["spawn", &leaves, &count, shape, &ballast];
            pair[0].0.push(place.floor(&args)?);
            pair[1].0.push(place.number("engine", &args[1..])?);
        }
    }
    Ok(())
}

pub async fn run(place: &Place, report: &mut Report) -> Result<()> {
    let n = place.count(CHILDREN);
    let daemon = place.fresh().await?;
    let systemd = if place.systemd {
        Some(Systemd::new().await?)
    } else {
        None
    };
    let mut f = Figures::default();
    let durable = format!("durable={}", place.dir.join("durable").display());
    for round in 0..place.rounds {
        let leaves = place.leaves();
        let count = n.to_string();
        for (i, (shape, _)) in SHAPES.into_iter().enumerate() {
            f.floor[i]
                .0
                .push(place.floor(&["spawn", &leaves, &count, shape])?);
            let cost = place.floor(&["spawn", &leaves, &count, shape, &durable])?;
            f.durable[i].0.push(cost);
        }
        engine(place, n, &mut f)?;
        f.musterd[0].0.push(one_by_one(&daemon, n).await?);
        f.musterd[1].0.push(pipelined(&daemon, n).await?);
        if let Some(systemd) = &systemd {
            f.systemd[0].0.push(units(systemd, n / 5, 1, round).await?);
            f.systemd[1].0.push(units(systemd, n / 2, 16, round).await?);
            f.run.0.push(systemd_run(20)?);
        }
    }
    for (i, (_, shape)) in SHAPES.into_iter().enumerate() {
        report.figure(&format!("floor, {shape}"), "us a child", &f.floor[i]);
        report.figure(
            &format!("durable floor, {shape}"),
            "us a child",
            &f.durable[i],
        );
        report.figure(&format!("musterd, {shape}"), "us a child", &f.musterd[i]);
        report.figure(&format!("systemd, {shape}"), "us a child", &f.systemd[i]);
    }
    goals(report, &f, systemd.is_some());
    Ok(())
}

fn goals(report: &mut Report, f: &Figures, systemd: bool) {
    let one = f.musterd[0].over(&f.durable[0]);
    let pipe = f.musterd[1].over(&f.durable[1]);
    report.goal(
        "whole path one by one / durable floor",
        Limit::AtMost(1.3),
        &one,
    );
    report.goal(
        "whole path pipelined / durable floor",
        Limit::AtMost(0.85),
        &pipe,
    );
    if systemd {
        let of = |i: usize| f.systemd[i].over(&f.musterd[i]);
        report.goal(
            "StartTransientUnit, window 1 / one by one",
            Limit::AtLeast(3.0),
            &of(0),
        );
        report.goal(
            "StartTransientUnit, window 16 / pipelined",
            Limit::AtLeast(3.0),
            &of(1),
        );
        let run = f.run.over(&f.musterd[0]);
        report.goal(
            "systemd-run --wait / one by one",
            Limit::AtLeast(10.0),
            &run,
        );
    } else {
        report.not_run(
            "StartTransientUnit and systemd-run",
            "systemd is not PID 1 here",
        );
    }
    report.not_run("pueue, supervisord and pm2", "they are not installed here");
    for (by_size, size) in f.alone.iter().zip(PARENTS) {
        for ([floor, engine], (_, shape)) in by_size.iter().zip(SHAPES) {
            report.goal(
                &format!("the engine alone in {size} MiB, {shape} / floor"),
                Limit::AtMost(1.15),
                &engine.over(floor),
            );
        }
    }
}

/// Microseconds a unit, as a person would do it.
fn systemd_run(n: usize) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..n {
        super::place::run("systemd-run", &["--quiet", "--wait", "/bin/true"])?;
    }
    Ok(micros(began) / n as f64)
}
