//! Many at once: each end is recorded, and recorded right.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Containment, World, code, signal, text};

const WORKERS: usize = 500;

/// Everything that ends a process, and is no stop of a stopped one.
const SIGNALS: [(&str, i64); 12] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("ABRT", 6),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("TERM", 15),
];

#[derive(Debug, PartialEq, Clone, Copy)]
enum End {
    Code(i64),
    Signal(i64),
}

fn planned(number: usize) -> (End, String) {
    if number < 256 {
        return (
            End::Code(i64::try_from(number).unwrap()),
            format!("exit {number}"),
        );
    }
    let (name, value) = SIGNALS[number % SIGNALS.len()];
    (End::Signal(value), format!("ulimit -c 0; kill -{name} $$"))
}

fn burst(world: World) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= WORKERS {
                        break;
                    }
                    let (_, script) = planned(number);
                    world.run(&["--name", &format!("w{number}")], &["sh", "-c", &script]);
                }
            });
        }
    });
    let rows = world.rows();
    assert_eq!(rows.len(), WORKERS);
    let ids: Vec<String> = rows.iter().map(|row| text(&row["id"])).collect();
    let mut ends = BTreeMap::new();
    for page in ids.chunks(50) {
        let mut args = vec!["wait"];
        args.extend(page.iter().map(String::as_str));
        world.ctl(&args);
        args[0] = "show";
        let shown = world.json(&args);
        for row in shown.as_array().unwrap() {
            let end = match (code(row), signal(row)) {
                (Some(code), None) => End::Code(code),
                (None, Some(signal)) => End::Signal(signal),
                _ => panic!("{row}"),
            };
            let outcome = text(&row["outcome"]);
            let right = if end == End::Code(0) {
                "completed"
            } else {
                "crashed"
            };
            assert_eq!(outcome, right, "{row}");
            assert_eq!(text(&row["how_known"]), "waited", "{row}");
            ends.insert(text(&row["name"]), end);
        }
    }
    assert_eq!(ends.len(), WORKERS);
    for number in 0..WORKERS {
        assert_eq!(ends[&format!("w{number}")], planned(number).0, "w{number}");
    }
    world.assert_no_worker_process();
    let service = world.service();
    assert_eq!(service["spawned"], WORKERS, "{service}");
    assert_eq!(service["n_workers"], 0, "{service}");
    // The roll on disk says the same after a restart.
    world.stop_daemon();
    assert_eq!(world.rows().len(), WORKERS);
    assert_eq!(world.service()["by_status"]["exited"], WORKERS);
    world.end();
}

#[test]
fn five_hundred_short_workers_have_500_right_records() {
    burst(World::with(Containment::Auto, "[log]\nlevel = \"warn\"\n"));
}

#[test]
fn five_hundred_short_workers_without_a_cgroup_have_500_right_records() {
    if crate::support::means::writable_cgroup2().is_some() {
        burst(World::without_cgroup("[log]\nlevel = \"warn\"\n"));
    }
}
