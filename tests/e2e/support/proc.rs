//! What is running, counted in `/proc` and not in anybody's books.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// One process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: i32,
    pub ppid: i32,
    pub comm: String,
    pub state: char,
    pub start_ticks: u64,
    pub cmdline: String,
    pub environ: Vec<String>,
}

impl Process {
    /// The process now, dead ones (zombies) excluded: where PID 1 reaps slowly, killed orphans
    /// stay as Z for a while. One with more threads than its ended main thread is not dead; its
    /// arguments and environment are those of such a thread.
    pub fn read(pid: i32) -> Option<Process> {
        let dir = PathBuf::from(format!("/proc/{pid}"));
        let stat = fs::read_to_string(dir.join("stat")).ok()?;
        let (head, tail) = stat.rsplit_once(") ")?;
        let comm = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let state = fields.first()?.chars().next()?;
        let threads: u32 = fields.get(17)?.parse().ok()?;
        let headless = matches!(state, 'Z' | 'X');
        if headless && threads <= 1 {
            return None;
        }
        let task = match headless {
            true => dir.join("task").join(other_thread(pid)?),
            false => dir.clone(),
        };
        let nul_to = |name: &str, to: &str| {
            let bytes = fs::read(task.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', to)
        };
        Some(Process {
            pid,
            ppid: fields.get(1)?.parse().ok()?,
            comm,
            state,
            start_ticks: fields.get(19)?.parse().ok()?,
            cmdline: nul_to("cmdline", " "),
            environ: nul_to("environ", "\n").lines().map(str::to_owned).collect(),
        })
    }

    /// A value of its environment at its exec.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.environ
            .iter()
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// Does it carry `mark` in its arguments or its environment?
    pub fn carries(&self, mark: &str) -> bool {
        self.cmdline.contains(mark) || self.environ.iter().any(|pair| pair.contains(mark))
    }
}

fn other_thread(pid: i32) -> Option<String> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|thread| *thread != pid.to_string())
}

/// Every living process.
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Process::read)
        .collect()
}

/// Sends a signal to one process; that it has gone already is fine.
pub fn signal(pid: i32, signal: Signal) {
    assert!(pid > 1, "{pid} is no process to be signalled");
    let _ = kill(Pid::from_raw(pid), signal);
}

pub fn is_alive(pid: i32) -> bool {
    Process::read(pid).is_some()
}
