//! musterd's own way to start a process, without rows, bus and supervisor: leaf made, child forked
//! by the main thread, its end seen by an event loop on a second thread, reaped, leaf removed.
//!
//! ```text
//! engine CGROUP N one|pipe [ballast=MIB]   -> microseconds a child
//! ```

use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use musterd::sys::cgroup::{Leaf, Removed};
use musterd::sys::fdslots::Slots;
use musterd::sys::spawn::{Forker, Image, forker, main_thread};
use musterd::sys::{signals, wait, watch};
use musterd::worker::Exit;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// As many as the daemon is asked for at a time.
const WINDOW: usize = 200;
const LIMIT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(cost) => {
            println!("{cost:.1}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("engine {}: {error}", args.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<f64, Failure> {
    let [cgroup, n, shape, options @ ..] = args else {
        return Err("usage: see the head of benches/engine.rs".into());
    };
    let n: usize = n.parse()?;
    let window = if shape == "one" { 1 } else { WINDOW };
    let ballast = options.iter().find_map(|o| o.strip_prefix("ballast="));
    let ballast = vec![1_u8; ballast.map_or(Ok(0), str::parse::<usize>)? << 20];
    let directory = PathBuf::from(cgroup);
    std::fs::create_dir(&directory)?;
    signals::block_all()?;
    let (forker, jobs) = forker(Slots::reserve()?, LIMIT)?;
    let leaves = directory.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let cost = LocalSet::new().block_on(&runtime, measure(&forker, &leaves, n, window));
        forker.stop();
        cost
    });
    main_thread(jobs);
    let cost = thread.join().map_err(|_| "the loop's thread panicked")?;
    std::hint::black_box(&ballast);
    std::fs::remove_dir(&directory)?;
    cost
}

async fn measure(forker: &Forker, leaves: &Path, n: usize, window: usize) -> Result<f64, Failure> {
    let permits = Arc::new(Semaphore::new(window));
    let mut all = JoinSet::new();
    let began = Instant::now();
    for i in 0..n {
        let permit = permits.clone().acquire_owned().await?;
        let (forker, leaf) = (forker.clone(), leaves.join(i.to_string()));
        all.spawn_local(async move {
            let ended = one(&forker, &leaf).await;
            drop(permit);
            ended
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / n as f64)
}

async fn one(forker: &Forker, path: &Path) -> Result<(), Failure> {
    let leaf = Leaf::create(path)?;
    let program = CString::new("/bin/true")?;
    let image = Image {
        argv: vec![program.clone()],
        candidates: vec![program],
        leaf: Some(path.to_owned()),
        pdeathsig: true,
        ..Image::default()
    };
    let started = forker.start(image).await?;
    // Taken out of the set before the descriptor is closed.
    let watch = watch::readable(started.process.as_fd().try_clone_to_owned()?)?;
    let exit = loop {
        watch.readable().await?.retain_ready();
        if let Some(exit) = wait::reap(watch.get_ref().as_fd())? {
            break exit;
        }
    };
    drop(watch);
    if exit != Exit::Code(0) {
        return Err("a child did not end with 0".into());
    }
    // Populated for an instant after its last process was waited for.
    while leaf.remove()? == Removed::Busy {
        tokio::task::yield_now().await;
    }
    Ok(())
}
