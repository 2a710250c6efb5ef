//! The floors that need a process of their own, and the programs that are started by all sides:
//! nothing but the system calls that the job cannot do without.
//!
//! ```text
//! floor spawn CGROUP N one|pipe [durable=DIR] [ballast=MIB]   -> microseconds a child
//! floor hold N                    N sleepers in an epoll set, until stdin ends
//! floor trees CGROUP N FILE kill|TERM-MS                      -> milliseconds, on a line of stdin
//! floor stamp FILE SLOT MS        a worker that writes down when it ends
//! floor tree FILE SLOT [PART]     a worker of four processes
//! ```

mod clone;
mod spawn;
mod trees;

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};

/// What a floor ends with when it cannot do its job.
pub type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["spawn", cgroup, n, shape, options @ ..] => spawn::run(cgroup, n, shape, options),
        ["hold", n] => hold(n),
        ["trees", cgroup, n, file, how] => trees::run(cgroup, n, file, how),
        ["stamp", file, slot, pause] => stamp(file, slot, pause),
        ["tree", file, slot, part @ ..] => tree(file, slot, part.first().copied()),
        _ => Err("usage: see the head of benches/floor/main.rs".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor {}: {error}", args.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// Microseconds of the monotonic clock.
pub fn now() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

/// Waits for the word to go on.
pub fn await_line() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map(|_| ())
}

fn hold(n: &str) -> Result<(), Failure> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut held = Vec::new();
    for _ in 0..n.parse::<u32>()? {
        let child = Command::new("sleep").arg("inf").spawn()?;
        let pid = rustix::process::Pid::from_child(&child);
        let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        epoll::add(
            &set,
            &fd,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )?;
        held.push((fd, child));
    }
    println!("ready");
    io::stdout().flush()?;
    await_line()?;
    for (_, child) in &mut held {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

fn stamp(file: &str, slot: &str, pause: &str) -> Result<(), Failure> {
    let file = File::options().write(true).open(file)?;
    let offset = slot.parse::<u64>()? * 8;
    std::thread::sleep(Duration::from_millis(pause.parse()?));
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = u64::try_from(now.tv_sec)? * 1_000_000_000 + u64::try_from(now.tv_nsec)?;
    file.write_all_at(&nanos.to_ne_bytes(), offset)?;
    Ok(())
}

/// Four processes: the leader, a child that ignores TERM, that one's child, and a child in a
/// session of its own. Each writes its pid into its place.
fn tree(file: &str, slot: &str, part: Option<&str>) -> Result<(), Failure> {
    let start = |part: &str| {
        Command::new(std::env::current_exe()?)
            .args(["tree", file, slot, part])
            .stdin(Stdio::null())
            .spawn()
    };
    let place = match part {
        None => {
            start("proof")?;
            start("escapee")?;
            0
        }
        Some("proof") => {
            start("child")?;
            let mut blocked = nix::sys::signal::SigSet::empty();
            blocked.add(nix::sys::signal::Signal::SIGTERM);
            blocked.thread_block()?;
            1
        }
        Some("child") => 2,
        Some(_) => {
            nix::unistd::setsid()?;
            3
        }
    };
    let offset = (slot.parse::<u64>()? * 4 + place) * 4;
    let all = File::options().write(true).open(file)?;
    all.write_all_at(&std::process::id().to_ne_bytes(), offset)?;
    loop {
        std::thread::park();
    }
}
