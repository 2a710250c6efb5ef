//! `make bench`: musterd as it is installed, beside floors and systemd, in one run.
//! Every figure that counts is a ratio; absolute times only show sizes.

mod calls;
mod exits;
mod idle;
mod loaded;
mod place;
mod report;
mod rolls;
mod spawns;
mod sweeps;
mod systemd;
mod trees;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use place::{Place, Result};
use report::Report;

/// Measures musterd beside floors and systemd.
#[derive(Debug, Parser)]
struct Options {
    /// The daemon's socket
    #[arg(long, default_value = "/run/musterd.sock")]
    socket: PathBuf,
    /// Command that starts the daemon again with an empty roll
    #[arg(long)]
    fresh: String,
    /// Directory for the floors' files, on the file system of the state directory
    #[arg(long)]
    dir: PathBuf,
    /// Directory in cgroup2 where the floors may make leaves
    #[arg(long)]
    cgroup: PathBuf,
    /// Address of the bus that the daemon is on
    #[arg(long)]
    bus: Option<String>,
    /// systemd is PID 1 here and may be measured too
    #[arg(long)]
    systemd: bool,
    /// Rounds of each figure
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// A tenth of the counts, to try the bench itself
    #[arg(long)]
    quick: bool,
    /// Only these sections
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Write the tables here
    #[arg(long)]
    table: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let result = runtime.map_err(Into::into).and_then(|runtime| {
        let local = tokio::task::LocalSet::new();
        runtime.block_on(local.run_until(run(options)))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<()> {
    let place = Place {
        socket: options.socket,
        fresh: options.fresh,
        dir: options.dir,
        cgroup: options.cgroup,
        bus: options.bus,
        systemd: options.systemd,
        rounds: options.rounds.max(1),
        quick: options.quick,
    };
    let wanted = |key: &str| options.only.is_empty() || options.only.iter().any(|o| o == key);
    let mut report = Report::default();
    // One that fails is told and keeps none of the others from running.
    macro_rules! section {
        ($key:literal, $title:literal, $run:path) => {
            if wanted($key) {
                report.section($title);
                if let Err(error) = $run(&place, &mut report).await {
                    report.not_run("the rest of this section", &error.to_string());
                }
            }
        };
    }
    section!("spawn", "spawn to exit", spawns::run);
    section!("idle", "idle", idle::run);
    section!("exit", "exit notice", exits::run);
    section!("tree", "tree kill", trees::run);
    section!("status", "status", rolls::run);
    section!("sweep", "sweep", sweeps::run);
    section!("dbus", "D-Bus", calls::run);
    section!("loaded", "10,000 rows", loaded::run);
    for what in ["state files", "scale"] {
        report.section(what);
        report.not_run("the goals of this section", "there is no bench for it yet");
    }
    if let Some(path) = options.table {
        std::fs::write(path, report.markdown())?;
    }
    Ok(())
}
