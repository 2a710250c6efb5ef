//! Two hundred workers that misbehave each in its own way, at once: every row is right, and the
//! daemon answers everybody else meanwhile.

use std::io::Write;
use std::time::{Duration, Instant};

use musterd::dbus::client::Client;
use serde_json::Value;

use crate::support::control::{python, speak};
use crate::support::{Containment, World, code, text, wait_within};

const WORKERS: usize = 200;
/// Frames of each that floods.
const FLOOD: u64 = 20_000;
const CALLS: usize = 400;
/// The whole of it takes a while where little else can run.
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Hang,
    Flood,
    DieInMidFrame,
}

const WAYS: [Way; 3] = [Way::Hang, Way::Flood, Way::DieInMidFrame];

impl Way {
    /// All begin when the file is there.
    fn script(self, go: &str) -> String {
        let what = match self {
            // Deaf to everything but SIGKILL.
            Way::Hang => "signal.signal(signal.SIGTERM, signal.SIG_IGN); wait()".to_owned(),
            Way::Flood => format!(
                "one = encode(type='usage', input_tokens=1, output_tokens=2) * 100\n\
                 for n in range({FLOOD} // 100): raw(one)\n\
                 send(type='result', outcome='flooded'); leave(0)"
            ),
            Way::DieInMidFrame => {
                "raw(encode(type='usage', input_tokens=5) + encode(type='turn_done')[:-1]); leave(9)".to_owned()
            }
        };
        format!("spawned()\nwhile not os.path.exists('{go}'): time.sleep(0.05)\n{what}")
    }

    fn check(self, row: &Value) {
        let tokens = (
            row["tokens"]["input"].as_u64(),
            row["tokens"]["output"].as_u64(),
        );
        let outcome = text(&row["outcome"]);
        match self {
            Way::Hang => {
                assert_eq!(outcome, "cancelled", "{row}");
                let why = text(&row["cancelled"]["reason"]);
                assert!(why.starts_with("stuck"), "{row}");
                assert_eq!(text(&row["rung"]), "kill", "{row}");
                assert_eq!(row["settled"], false, "{row}");
            }
            Way::Flood => {
                assert_eq!(
                    (outcome.as_str(), code(row)),
                    ("completed", Some(0)),
                    "{row}"
                );
                assert_eq!(tokens, (Some(FLOOD), Some(2 * FLOOD)), "{row}");
                assert_eq!(row["settled"], true, "{row}");
            }
            Way::DieInMidFrame => {
                assert_eq!((outcome.as_str(), code(row)), ("crashed", Some(9)), "{row}");
                assert_eq!(tokens.0, Some(5), "{row}");
                assert_eq!(row["settled"], false, "{row}");
            }
        }
    }
}

/// How long calls that go through the loop take; sorted.
async fn calls(client: &Client, worker: &str, until: impl Fn(usize) -> bool) -> Vec<Duration> {
    let mut took = Vec::new();
    while !until(took.len()) {
        let begun = Instant::now();
        client.resolve(worker).await.unwrap();
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    took
}

fn at(took: &[Duration], percent: usize) -> Duration {
    took[(took.len() - 1) * percent / 100]
}

#[test]
fn two_hundred_misbehave_at_once_and_every_row_is_right() {
    if !python("two_hundred_misbehave_at_once_and_every_row_is_right") {
        return;
    }
    let config = "[log]\nlevel = \"warn\"\n[liveness]\nprogress = \"20s\"\npong = \"20s\"\n\
                  [ladder]\ngrace = \"1s\"\nkill_grace = \"500ms\"\n";
    let world = World::with(Containment::Auto, config);
    let go = format!("{}/go", world.mark());
    let workers: Vec<(String, Way)> = (0..WORKERS)
        .map(|n| {
            let way = WAYS[n % WAYS.len()];
            let hour = ["--kind", "step:r/s"];
            // Who waits to begin shows no progress; only those that hang are to be called stuck.
            let script = match way {
                Way::Hang => way.script(&go),
                _ => way
                    .script(&go)
                    .replace("time.sleep(0.05)", "time.sleep(0.2); send(type='ready')"),
            };
            (speak(&world, &hour, &script), way)
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let socket = world.runtime().join("sock");
    let client = runtime.block_on(Client::peer(&socket)).unwrap();
    let first = &workers[0].0;
    let rest = runtime.block_on(calls(&client, first, |n| n >= CALLS));
    std::fs::write(&go, "").unwrap();
    let begun = Instant::now();
    let busy = runtime.block_on(calls(&client, first, |n| n >= CALLS));
    for (id, way) in &workers {
        let row = wait_within(PATIENCE, "it ends", || {
            let row = world.show(id);
            (text(&row["status"]) == "exited").then_some(row)
        });
        way.check(&row);
    }
    let ratio = |percent| at(&busy, percent).as_secs_f64() / at(&rest, percent).as_secs_f64();
    // Past the harness's capture: a figure, and no verdict on a machine that others use too.
    let _ = writeln!(
        std::io::stderr(),
        "a call through the loop: {:?} at rest, {:?} under load (median; {:.1} times); \
         {:?} and {:?} (95 of 100; {:.1} times); {} workers in {:?}",
        at(&rest, 50),
        at(&busy, 50),
        ratio(50),
        at(&rest, 95),
        at(&busy, 95),
        ratio(95),
        WORKERS,
        begun.elapsed(),
    );
    assert!(at(&busy, 95) < Duration::from_secs(2), "{busy:?}");
    world.assert_no_worker_process();
    world.end();
}
