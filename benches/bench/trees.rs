//! Workers of four processes, ended all at once; what is left of them is counted.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::process::{Pid, PidfdFlags};

use super::place::{Daemon, Helper, Place, Result, all, spec};
use super::report::{Limit, Report, Samples};
use super::systemd::Systemd;
use musterd::supervisor::handle::CancelOptions;

const TREES: usize = 200;
const PARTS: usize = 4;
const GRACE: Duration = Duration::from_secs(1);
/// More than any of them takes; what is left then is left over.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pids that the trees write down, and a pidfd of each.
struct Watcher {
    set: OwnedFd,
    pidfds: Vec<OwnedFd>,
}

impl Watcher {
    /// Waits until all have started.
    async fn new(path: &PathBuf, n: usize) -> Result<Self> {
        let file = File::open(path)?;
        let end = Instant::now() + Duration::from_secs(60);
        let mut bytes = vec![0; n * PARTS * 4];
        loop {
            file.read_exact_at(&mut bytes, 0)?;
            if bytes.chunks(4).all(|pid| pid != [0; 4]) {
                break;
            }
            if Instant::now() > end {
                return Err("not all processes have started".into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut pidfds = Vec::new();
        for (i, chunk) in bytes.chunks(4).enumerate() {
            let number = i32::from_ne_bytes(chunk.try_into()?);
            let pid = Pid::from_raw(number).ok_or("0 is no pid")?;
            let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
            let data = epoll::EventData::new_u64(i as u64);
            epoll::add(&set, &fd, data, epoll::EventFlags::IN)?;
            pidfds.push(fd);
        }
        Ok(Self { set, pidfds })
    }

    /// Milliseconds until the last has ended, and how many have not.
    fn watch(&mut self, began: Instant) -> Result<(f64, usize)> {
        let mut left = self.pidfds.len();
        let mut last = 0.0;
        let mut events = Vec::<epoll::Event>::with_capacity(256);
        while left > 0 && began.elapsed() < PATIENCE {
            let wait = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            events.clear();
            epoll::wait(&self.set, spare_capacity(&mut events), Some(&wait))?;
            for event in &events {
                let i = usize::try_from(event.data.u64())?;
                epoll::delete(&self.set, &self.pidfds[i])?;
                left -= 1;
                last = began.elapsed().as_secs_f64() * 1e3;
            }
        }
        Ok((last, left))
    }
}

/// Watches on a thread of its own while `end` is carried out here.
async fn measure<F>(path: &PathBuf, n: usize, end: F) -> Result<(f64, usize)>
where
    F: Future<Output = Result<()>>,
{
    let mut watcher = Watcher::new(path, n).await?;
    let began = Instant::now();
    let watching =
        tokio::task::spawn_blocking(move || watcher.watch(began).map_err(|e| e.to_string()));
    end.await?;
    Ok(watching.await??)
}

struct Trees<'a> {
    place: &'a Place,
    file: PathBuf,
    program: String,
    n: usize,
}

impl Trees<'_> {
    fn clear(&self) -> Result<()> {
        Ok(std::fs::write(&self.file, vec![0; self.n * PARTS * 4])?)
    }

    fn argv<'s>(&'s self, file: &'s str, slot: &'s str) -> [&'s str; 4] {
        [&self.program, "tree", file, slot]
    }

    async fn floor(&self, how: &str) -> Result<(f64, usize)> {
        self.clear()?;
        let (leaves, file) = (self.place.leaves(), self.file.to_string_lossy());
        let args = ["trees", &leaves, &self.n.to_string(), &file, how];
        let mut helper = Helper::start(&self.place.program("floor")?, &args)?;
        let seen = measure(&self.file, self.n, async { helper.go_on() }).await?;
        helper.line()?;
        helper.finish()?;
        Ok(seen)
    }

    async fn musterd(&self, daemon: &Daemon, now: bool) -> Result<(f64, usize)> {
        self.clear()?;
        let file = self.file.to_string_lossy();
        let specs = (0..self.n).map(|slot| {
            let mut spec = spec(&self.argv(&file, &slot.to_string()));
            spec.ending.kill_grace = Some(GRACE);
            spec
        });
        let ids = daemon.start_all(specs.collect()).await?;
        let seen = measure(&self.file, self.n, async {
            let cancel = |id: String| {
                let client = daemon.client.clone();
                let how = CancelOptions {
                    now,
                    ..CancelOptions::default()
                };
                async move { client.cancel(&id, "bench", how).await }
            };
            for cancelled in all(ids.iter().cloned().map(cancel), 200).await {
                cancelled?;
            }
            Ok(())
        })
        .await?;
        daemon.wait_all(&ids).await?;
        Ok(seen)
    }

    async fn systemd(&self, systemd: &Systemd, verb: &[&str]) -> Result<(f64, usize)> {
        self.clear()?;
        let file = self.file.to_string_lossy().into_owned();
        let start = |slot: usize| {
            let systemd = systemd.clone();
            let argv = self.argv(&file, &slot.to_string()).map(str::to_owned);
            async move {
                let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
                let unit = format!("tree-{slot}.service");
                let started = systemd.start(&unit, "exec", &argv, false).await;
                started.map_err(|e| e.to_string())
            }
        };
        for started in all((0..self.n).map(start), 16).await {
            started?;
        }
        let seen = measure(&self.file, self.n, async {
            let args: Vec<String> = verb.iter().map(|a| (*a).to_owned()).collect();
            let run = move || {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                super::place::run("systemctl", &args).map_err(|e| e.to_string())
            };
            tokio::task::spawn_blocking(run).await??;
            Ok(())
        })
        .await?;
        super::place::run("systemctl", &["stop", "tree-*.service"])?;
        Ok(seen)
    }
}

#[derive(Default)]
struct Figures {
    ms: [Samples; 6],
    left: usize,
}

impl Figures {
    fn add(&mut self, i: usize, seen: (f64, usize)) {
        self.ms[i].0.push(seen.0);
    }
}

pub async fn run(place: &Place, report: &mut Report) -> Result<()> {
    let daemon = place.fresh().await?;
    let systemd = if place.systemd {
        Some(Systemd::new().await?)
    } else {
        None
    };
    let trees = Trees {
        place,
        file: place.dir.join("pids"),
        program: place.program("floor")?.to_string_lossy().into_owned(),
        n: place.count(TREES),
    };
    let mut f = Figures::default();
    for _ in 0..place.rounds {
        f.add(0, trees.floor("kill").await?);
        f.add(1, trees.floor(&GRACE.as_millis().to_string()).await?);
        for (i, now) in [(2, true), (3, false)] {
            let seen = trees.musterd(&daemon, now).await?;
            f.left += seen.1;
            f.add(i, seen);
        }
        if let Some(systemd) = &systemd {
            let kill = ["kill", "-s", "KILL", "tree-*.service"];
            f.add(4, trees.systemd(systemd, &kill).await?);
            f.add(
                5,
                trees.systemd(systemd, &["stop", "tree-*.service"]).await?,
            );
        }
    }
    let what = [
        "floor, cgroup.kill",
        "floor, TERM, 1 s, cgroup.kill",
        "musterd, cancel --now",
        "musterd, cancel",
        "systemctl kill -s KILL",
        "systemctl stop",
    ];
    for (what, ms) in what.into_iter().zip(&f.ms) {
        report.figure(what, "ms", ms);
    }
    report.goal(
        "processes left",
        Limit::AtMost(0.0),
        &Samples(vec![f.left as f64]),
    );
    report.goal(
        "forced / floor",
        Limit::AtMost(1.5),
        &f.ms[2].over(&f.ms[0]),
    );
    let beyond = |ms: &Samples| ms.map(|ms| ms - GRACE.as_secs_f64() * 1e3);
    let ratio = beyond(&f.ms[3]).over(&beyond(&f.ms[1]));
    report.goal("beyond the grace / floor", Limit::AtMost(2.0), &ratio);
    if systemd.is_some() {
        report.ratio("systemctl kill / musterd forced", &f.ms[4].over(&f.ms[2]));
    }
    Ok(())
}
