//! What a daemon holds at rest: descriptors, threads, children, files, memory.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::World;

/// A daemon that has nothing to do has given everything back within this time.
const REST: Duration = Duration::from_secs(30);

/// What may not change from round to round, and memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    descriptors: usize,
    threads: usize,
    children: usize,
    runtime: usize,
    rows: usize,
    /// Anonymous memory that is its own, KiB.
    pub memory: f64,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} descriptors, {} threads, {} children, {} in the runtime directory, {} row files, \
             {} KiB",
            self.descriptors, self.threads, self.children, self.runtime, self.rows, self.memory
        )
    }
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

/// `Private_Dirty` of smaps_rollup, KiB (proc_pid_smaps(5)).
fn memory(pid: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("Private_Dirty:"));
    let kib = line.and_then(|l| l.split_ascii_whitespace().next());
    kib.unwrap().parse().unwrap()
}

/// Zombies too: one that is never reaped is what is looked for.
fn children(pid: i32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .map(|text| text.split_ascii_whitespace().count())
        .sum()
}

impl Held {
    fn now(world: &World, pid: i32) -> Held {
        let proc = Path::new("/proc").join(pid.to_string());
        Held {
            descriptors: entries(&proc.join("fd")),
            threads: entries(&proc.join("task")),
            children: children(pid),
            runtime: entries(&world.runtime()),
            rows: entries(&world.state().join("rows")),
            memory: memory(pid),
        }
    }

    fn same_but_memory(&self, other: &Held) -> bool {
        let memory = self.memory;
        *self
            == Held {
                memory,
                ..other.clone()
            }
    }

    /// Waits until it holds no more than after the first round that counts; without one, until it
    /// changes no more.
    pub fn at_rest(world: &World, pid: i32, first: Option<&Held>) -> Held {
        let end = Instant::now() + REST;
        let mut last = Held::now(world, pid);
        loop {
            // Longer than anything that is put off: lazy writes, spare files, idle threads.
            let pause = if first.is_some() { 100 } else { 6000 };
            std::thread::sleep(Duration::from_millis(pause));
            let now = Held::now(world, pid);
            let settled = now.same_but_memory(first.unwrap_or(&last));
            if settled || (first.is_none() && Instant::now() > end) {
                return now;
            }
            assert!(Instant::now() < end, "held for ever: {now}; was: {first:?}");
            last = now;
        }
    }
}

fn median(all: &[Held]) -> f64 {
    let mut kib: Vec<f64> = all.iter().map(|held| held.memory).collect();
    kib.sort_by(f64::total_cmp);
    kib[kib.len() / 2]
}

/// The last third against the first.
pub fn judge(all: &[Held], growth: f64, growth_kib: f64) {
    let third = all.len().div_ceil(3);
    let (early, late) = (median(&all[..third]), median(&all[all.len() - third..]));
    eprintln!("{} rounds: {early} KiB early, {late} KiB late", all.len());
    let most = (early * (1.0 + growth)).max(early + growth_kib);
    assert!(late <= most, "memory grows: {early} KiB, then {late} KiB");
}
