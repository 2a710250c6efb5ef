//! From a child's last instruction to who waits for its end.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions};
use rustix::time::{ClockId, clock_gettime};

use super::place::{Place, Result, spec};
use super::report::{Limit, Report, Samples};
use super::systemd::Systemd;
use musterd::dbus::client::{Client, Event};
use musterd::supervisor::handle::Stdio;

const EXITS: usize = 40;
/// A worker lives so long, so that its start is over when it ends.
const LIFE_MS: &str = "40";

fn now() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Microseconds since the stamp in this place.
fn since(stamps: &File, slot: usize, seen: f64) -> Result<f64> {
    let mut stamp = [0; 8];
    stamps.read_exact_at(&mut stamp, slot as u64 * 8)?;
    Ok((seen - u64::from_ne_bytes(stamp) as f64) / 1e3)
}

/// pidfd in an epoll set of one.
fn floor(program: &Path, path: &str, stamps: &File, n: usize) -> Result<Samples> {
    let mut all = Samples::default();
    for slot in 0..n {
        let child = Command::new(program)
            .args(["stamp", path, &slot.to_string(), LIFE_MS])
            .spawn()?;
        let fd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &set,
            &fd,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )?;
        let mut events = Vec::<epoll::Event>::with_capacity(1);
        epoll::wait(&set, spare_capacity(&mut events), None)?;
        let id = WaitId::PidFd(std::os::fd::AsFd::as_fd(&fd));
        rustix::process::waitid(id, WaitIdOptions::EXITED)?;
        all.0.push(since(stamps, slot, now())?);
    }
    Ok(all)
}

/// One durable write: temporary file, fsync, rename, fsync of the directory.
pub fn durable_write(dir: &Path, text: &str) -> Result<()> {
    let (temporary, path) = (dir.join(".row.new"), dir.join("row.toml"));
    let mut file = File::create(&temporary)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, &path)?;
    File::open(dir)?.sync_all()?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Told {
    Reply,
    Signal,
}

async fn musterd(
    client: &Client,
    listener: &Client,
    argv: [&str; 3],
    stamps: &File,
    n: usize,
    told: Told,
) -> Result<Samples> {
    let mut events = listener.events().await?;
    let mut all = Samples::default();
    for slot in 0..n {
        let slot_text = slot.to_string();
        let [program, verb, path] = argv;
        let spec = spec(&[program, verb, path, &slot_text, LIFE_MS]);
        let id = client.spawn(&spec, Stdio::default()).await?.id;
        match told {
            Told::Reply => {
                client.wait(&id).await?;
            }
            Told::Signal => loop {
                match events.next().await {
                    Some(Event::Exited { id: ended, .. }) if ended == id => break,
                    Some(_) => {}
                    None => return Err("the connection ended".into()),
                }
            },
        }
        all.0.push(since(stamps, slot, now())?);
    }
    Ok(all)
}

pub async fn run(place: &Place, report: &mut Report) -> Result<()> {
    let n = place.count(EXITS).max(10);
    let daemon = place.fresh().await?;
    let path = place.dir.join("stamps");
    std::fs::write(&path, vec![0; n * 8])?;
    let stamps = File::open(&path)?;
    let program = place.program("floor")?;
    let (text, file) = (program.to_string_lossy(), path.to_string_lossy());
    let argv = [&*text, "stamp", &*file];
    let listener = match &place.bus {
        Some(address) => Client::bus(address).await?,
        None => Client::peer(&place.socket).await?,
    };
    let systemd = if place.systemd {
        Some(Systemd::new().await?)
    } else {
        None
    };
    let mut f: [Samples; 5] = Default::default();
    let (mut reply_tail, mut signal_tail) = (Samples::default(), Samples::default());
    for round in 0..place.rounds {
        f[0].0.push(floor(&program, &file, &stamps, n)?.median());
        let mut writes = Samples::default();
        for _ in 0..n {
            let began = now();
            durable_write(&place.dir, &"x".repeat(600))?;
            writes.0.push((now() - began) / 1e3);
        }
        f[1].0.push(writes.median());
        let (c, l) = (&daemon.client, &listener);
        let reply = musterd(c, l, argv, &stamps, n, Told::Reply).await?;
        let signal = musterd(c, l, argv, &stamps, n, Told::Signal).await?;
        reply_tail.0.push(reply.quantile(0.99) / reply.median());
        signal_tail.0.push(signal.quantile(0.99) / signal.median());
        f[2].0.push(reply.median());
        f[3].0.push(signal.median());
        if let Some(systemd) = &systemd {
            let mut all = Samples::default();
            for slot in 0..n {
                let slot_text = slot.to_string();
                let argv = [&*text, "stamp", &*file, &slot_text, LIFE_MS];
                let unit = format!("exit-{round}-{slot}.service");
                systemd.start(&unit, "oneshot", &argv, false).await?;
                all.0.push(since(&stamps, slot, now())?);
            }
            f[4].0.push(all.median());
        }
    }
    let [floor, write, reply, signal, systemd] = &f;
    report.figure("floor, pidfd and epoll", "us", floor);
    report.figure("one durable write", "us", write);
    report.figure("musterd, Wait on the socket", "us", reply);
    report.figure("musterd, signal", "us", signal);
    report.figure("systemd, JobRemoved", "us", systemd);
    let allowed = Samples(
        floor
            .0
            .iter()
            .zip(&write.0)
            .map(|(f, w)| 2.0 * f + w)
            .collect(),
    );
    let what = "(2 x floor + one durable write)";
    report.goal(
        &format!("Wait / {what}"),
        Limit::AtMost(1.0),
        &reply.over(&allowed),
    );
    let bus = if place.bus.is_some() {
        "signal on the bus"
    } else {
        "signal on the socket"
    };
    report.goal(
        &format!("{bus} / {what}"),
        Limit::AtMost(1.0),
        &signal.over(&allowed),
    );
    report.goal("Wait, p99 / p50", Limit::AtMost(4.0), &reply_tail);
    report.goal("signal, p99 / p50", Limit::AtMost(4.0), &signal_tail);
    if place.systemd {
        report.ratio(
            "systemd's JobRemoved / musterd's signal",
            &systemd.over(signal),
        );
    }
    report.not_run(
        "the notice in process",
        "nothing outside the daemon can see it",
    );
    Ok(())
}
