//! Deciding about dead rows: without worktrees, and with clean ones.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::place::{Daemon, Place, Result, micros, run as command, spec};
use super::report::{Limit, Report, Samples};
use super::spawns;
use musterd::supervisor::handle::ReapOptions;
use musterd::worker::WorktreeChoice;

const ROWS: usize = 10_000;
const SMALL_TREES: usize = 100;
const LARGE_TREE: usize = 20_000;

/// A repository of `files` tracked files, clean.
fn repository(dir: &Path, files: usize) -> Result<()> {
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir)?;
    for i in 0..files {
        let part = dir.join(format!("d{}", i / 100));
        if i % 100 == 0 {
            std::fs::create_dir_all(&part)?;
        }
        std::fs::write(part.join(format!("f{i}")), "text\n")?;
    }
    let git = |args: &[&str]| {
        let dir = dir.to_string_lossy();
        let mut all = vec![
            "-C",
            &dir,
            "-c",
            "user.name=b",
            "-c",
            "user.email=b@localhost",
        ];
        all.extend(args);
        command("git", &all)
    };
    git(&["init", "-q", "-b", "main"])?;
    git(&["add", "."])?;
    git(&["commit", "-q", "-m", "start"])?;
    // Files younger than the index are read again by every status.
    std::thread::sleep(Duration::from_millis(1100));
    git(&["update-index", "-q", "--really-refresh"])?;
    Ok(())
}

fn git_status(dir: &Path) -> Result<f64> {
    let dir = dir.to_string_lossy();
    let began = Instant::now();
    let args = [
        "-C",
        &dir,
        "-c",
        "core.fsmonitor=false",
        "--no-optional-locks",
        "status",
    ];
    let more = ["--porcelain", "--untracked-files=all"];
    command("git", &[&args[..], &more[..]].concat())?;
    Ok(micros(began))
}

fn lstat_walk(dir: &Path) -> Result<f64> {
    let mut files = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_name() == ".git" {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => open.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    let began = Instant::now();
    for file in &files {
        std::fs::symlink_metadata(file)?;
    }
    Ok(micros(began))
}

/// Looks for processes that have gone.
fn proc_checks(n: usize) -> f64 {
    let began = Instant::now();
    for pid in 0..n {
        let _ = std::fs::read(format!("/proc/{}/stat", 4_000_000 + pid));
    }
    micros(began)
}

async fn sweep(daemon: &Daemon, workers: Vec<String>) -> Result<f64> {
    let options = ReapOptions {
        dry_run: true,
        grace: Some(Duration::ZERO),
        workers,
        ..ReapOptions::default()
    };
    let began = Instant::now();
    let report = daemon.client.reap(&options).await?;
    let time = micros(began);
    match report.counts.get("reap") {
        Some(n) if *n > 0 => Ok(time),
        _ => Err(format!("nothing would be reaped: {:?}", report.counts).into()),
    }
}

/// Ended rows that own these trees.
async fn owners(daemon: &Daemon, trees: &[PathBuf]) -> Result<Vec<String>> {
    let mut specs = Vec::new();
    for tree in trees {
        let mut one = spec(&["/bin/true"]);
        one.worktree = WorktreeChoice::Path(tree.clone());
        specs.push(one);
    }
    let ids = daemon.start_all(specs).await?;
    daemon.wait_all(&ids).await?;
    Ok(ids)
}

pub async fn run(place: &Place, report: &mut Report) -> Result<()> {
    rows(place, report).await?;
    if command("git", &["--version"]).is_err() {
        report.not_run("sweeps of worktrees", "there is no git here");
        return Ok(());
    }
    let daemon = place.fresh().await?;
    let (mut git, mut ours) = (Samples::default(), Samples::default());
    let trees: Vec<PathBuf> = (0..place.count(SMALL_TREES))
        .map(|i| place.dir.join(format!("tree-{i}")))
        .collect();
    let base = place.dir.join("tree-base");
    repository(&base, 10)?;
    for tree in &trees {
        let _ = std::fs::remove_dir_all(tree);
        command(
            "cp",
            &["-a", &base.to_string_lossy(), &tree.to_string_lossy()],
        )?;
        command("git", &["-C", &tree.to_string_lossy(), "status"])?;
    }
    let ids = owners(&daemon, &trees).await?;
    let cores = std::thread::available_parallelism()?.get() as f64;
    for _ in 0..place.rounds {
        let mut all = 0.0;
        for tree in &trees {
            all += git_status(tree)?;
        }
        git.0.push(all / cores);
        ours.0.push(sweep(&daemon, ids.clone()).await?);
    }
    let each = |samples: &Samples| samples.map(|us| us / trees.len() as f64);
    report.figure("git status, 10 files, by cores", "us a tree", &each(&git));
    report.figure("musterd, 10 files", "us a tree", &each(&ours));
    report.goal(
        "10-file worktrees / (git / cores)",
        Limit::AtMost(1.2),
        &ours.over(&git),
    );

    let large = place.dir.join("tree-large");
    repository(&large, place.count(LARGE_TREE))?;
    let ids = owners(&daemon, std::slice::from_ref(&large)).await?;
    let (mut git, mut ours, mut walk) =
        (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..place.rounds {
        walk.0.push(lstat_walk(&large)?);
        git.0.push(git_status(&large)?);
        ours.0.push(sweep(&daemon, ids.clone()).await?);
    }
    report.figure("lstat of 20,000 files", "us", &walk);
    report.figure("git status of 20,000 files", "us", &git);
    report.figure("musterd, 20,000 files", "us", &ours);
    report.goal(
        "a tree of 20,000 files / git status",
        Limit::AtMost(1.3),
        &ours.over(&git),
    );
    Ok(())
}

/// Rows without a worktree, and a trivial call meanwhile.
async fn rows(place: &Place, report: &mut Report) -> Result<()> {
    let daemon = place.fresh().await?;
    let n = place.count(ROWS);
    spawns::pipelined(&daemon, n).await?;
    let (mut floor, mut ours) = (Samples::default(), Samples::default());
    let mut tail = Samples::default();
    for _ in 0..place.rounds {
        floor.0.push(proc_checks(n));
        ours.0.push(sweep(&daemon, Vec::new()).await?);
        let rest = latencies(&daemon, 200).await?;
        let sweeping = daemon.clone();
        let sweeps = tokio::task::spawn_local(async move {
            for _ in 0..3 {
                sweep(&sweeping, Vec::new())
                    .await
                    .map_err(|e| e.to_string())?;
            }
            Ok::<(), String>(())
        });
        let mut during = Samples::default();
        while !sweeps.is_finished() {
            during.0.extend(latencies(&daemon, 1).await?.0);
        }
        sweeps.await??;
        tail.0.push(during.quantile(0.99) / rest.quantile(0.99));
    }
    report.figure("10,000 looks into /proc", "us", &floor);
    report.figure("musterd, 10,000 rows without worktree", "us", &ours);
    report.goal(
        "10,000 rows / 10,000 looks into /proc",
        Limit::AtMost(1.5),
        &ours.over(&floor),
    );
    report.goal(
        "a trivial call's p99 in a sweep / at rest",
        Limit::AtMost(3.0),
        &tail,
    );
    Ok(())
}

/// Microseconds of one trivial call after the other.
pub async fn latencies(daemon: &Daemon, n: usize) -> Result<Samples> {
    let mut all = Samples::default();
    for _ in 0..n {
        let began = Instant::now();
        super::calls::trivial(daemon.client.connection(), None).await?;
        all.0.push(micros(began));
    }
    Ok(all)
}
