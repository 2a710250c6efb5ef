//! `musterctl`: finds or starts a daemon, carries out one verb, says what came of it in a table,
//! JSON and an exit code. It reaches the daemon only through [`crate::dbus::client`].

mod agent;
pub mod args;
mod environment;
pub mod exit;
pub mod find;
mod kinds;
mod link;
pub mod output;
mod start;
mod units;
mod verbs;
mod view;

use std::process::ExitCode;

use args::{Cli, Verb};
use clap::Parser;
use exit::{Code, Failure};
use output::Output;

/// The whole program; its arguments are the process's own.
pub fn main() -> ExitCode {
    // For shells alone, so no verb of the command line.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|verb| verb == "__candidates")
    {
        return candidates();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version go to stdout with 0, everything else to stderr with 2.
        Err(error) => error.exit(),
    };
    let mut out = Output::new(&cli.global);
    let result = run(cli, &mut out);
    if let Err(error) = out.send() {
        complain(&Failure::failed(format!("cannot write to stdout: {error}")));
        return Code::FAILED.into();
    }
    match result {
        Ok(code) => code.into(),
        Err(failure) => {
            complain(&failure);
            failure.code.into()
        }
    }
}

/// What a shell may complete a WORKER to.
fn candidates() -> ExitCode {
    let global = args::Global::default();
    let mut out = Output::new(&global);
    let told = on_runtime(async {
        verbs::candidates::run(&global, &mut out).await;
        Ok(Code::DONE)
    });
    match (told, out.send()) {
        (Ok(code), Ok(())) => code.into(),
        _ => Code::FAILED.into(),
    }
}

/// Says a failure on stderr.
fn complain(failure: &Failure) {
    if !failure.message.is_empty() {
        say!("musterctl: {failure}");
    }
}

fn run(cli: Cli, out: &mut Output) -> Result<Code, Failure> {
    let Cli { global, verb } = cli;
    match verb {
        Some(Verb::Version) => return Ok(verbs::version(out)),
        Some(Verb::CheckConfig(args)) => return verbs::check_config::run(&global, &args, out),
        _ => {}
    }
    on_runtime(verbs::run(&global, verb, out))
}

fn on_runtime(work: impl Future<Output = Result<Code, Failure>>) -> Result<Code, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(format!("cannot start: {e}")))?;
    let local = tokio::task::LocalSet::new();
    let code = local.block_on(&runtime, work);
    // A worker's blocked stdin or a dying connection must not hold up the end.
    runtime.shutdown_background();
    code
}
