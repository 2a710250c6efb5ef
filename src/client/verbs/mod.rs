//! The verbs, one file each; the smallest are here.

mod adopt;
mod cancel;
pub mod candidates;
pub mod check_config;
mod drain;
mod journal;
mod list;
mod logs;
mod modes;
mod monitor;
mod pty;
mod reap;
mod reload;
mod report;
mod run;
mod send;
mod service;
mod show;
mod status;
mod summary;
mod tell;
mod terminal;
mod tree;
mod wait;

use std::rc::Rc;

use super::args::{Global, KillArgs, ListArgs, Verb, WorkersArgs};
use super::exit::{Asking, Code, Failure, code_of};
use super::link::{Daemon, Tally, failure};
use super::output::Output;
use super::output::text::escape;
use super::view::Worker;
use crate::dbus::client::{CallError, Client};

/// Carries out a verb that needs a daemon.
pub async fn run(global: &Global, verb: Option<Verb>, out: &mut Output) -> Result<Code, Failure> {
    let verb = verb.unwrap_or(Verb::List(ListArgs::default()));
    // Faults of the command line come before a daemon is looked for or started.
    let prepared = match &verb {
        Verb::Run(args) => Some(run::prepare(args)?),
        _ => None,
    };
    let adoption = match &verb {
        Verb::Adopt(args) => Some(adopt::prepare(args)?),
        _ => None,
    };
    let frame = match &verb {
        Verb::Send(args) => send::frame(args)?,
        _ => String::new(),
    };
    let daemon = match &verb {
        // Inside a worker its daemon is there; a new one would know nothing of it.
        Verb::Report(_) => Daemon::connect_running(global).await?,
        _ => Daemon::connect(global).await?,
    };
    let daemon = Rc::new(daemon);
    match verb {
        Verb::List(args) => list::run(&daemon, &args, out).await,
        Verb::Run(args) => match prepared {
            Some(prepared) => run::run(&daemon, &args, prepared, out).await,
            None => Ok(Code::FAILED),
        },
        Verb::Status(args) => status::run(&daemon, &args, out).await,
        Verb::Show(args) => show::run(&daemon, &args, out).await,
        Verb::Logs(args) => logs::run(&daemon, &args).await,
        Verb::Monitor(args) => monitor::run(&daemon, &args, out).await,
        Verb::Cancel(args) => cancel::run(&daemon, &args, out).await,
        Verb::Kill(args) => Ok(kill(&daemon, &args).await),
        Verb::Send(args) => send::run(&daemon, &args, &frame).await,
        Verb::Freeze(args) => Ok(freeze(&daemon, &args, true).await),
        Verb::Thaw(args) => Ok(freeze(&daemon, &args, false).await),
        Verb::Wait(args) => wait::run(&daemon, &args, out).await,
        Verb::Reap(args) => reap::run(&daemon, &args, out).await,
        Verb::Hold(args) => Ok(hold(&daemon, &args, true).await),
        Verb::Release(args) => Ok(hold(&daemon, &args, false).await),
        Verb::Forget(args) => {
            let force = args.force;
            let forget = async |c: Client, w: &str| c.forget(w, force).await;
            Ok(each(&daemon, &args.workers, Of::Any, forget).await)
        }
        Verb::Restore(args) => Ok(restore(&daemon, &args, out).await),
        Verb::Adopt(args) => match adoption {
            Some(adoption) => adopt::run(&daemon, &args, adoption, out).await,
            None => Ok(Code::FAILED),
        },
        Verb::Report(args) => tell::run(&daemon, args).await,
        Verb::Tree(args) => tree::run(&daemon, &args, out).await,
        Verb::Drain(args) => drain::run(&daemon, &args, out).await,
        Verb::Resume => service::resume(&daemon, out).await,
        Verb::LogLevel(args) => service::log_level(&daemon, &args, out).await,
        Verb::Metrics => service::metrics(&daemon, out).await,
        Verb::Reload => reload::run(&daemon, out).await,
        Verb::CheckConfig(_) | Verb::Version => Ok(Code::DONE),
    }
}

/// The version of this program.
pub fn version(out: &mut Output) -> Code {
    let version = crate::RELEASE;
    if out.json.is_some() {
        out.json(&serde_json::json!({ "version": version }));
    } else {
        out.line(format!("musterctl {version}"));
    }
    Code::DONE
}

/// To whom something can be done.
#[derive(Debug, Clone, Copy)]
enum Of {
    Any,
    /// That one does not run has a code of its own.
    Running,
}

/// Does the same to each worker; the worst code of all.
async fn each(
    daemon: &Daemon,
    workers: &[String],
    of: Of,
    act: impl AsyncFn(Client, &str) -> Result<(), CallError>,
) -> Code {
    let mut tally = Tally::default();
    for worker in workers {
        let result = daemon.call(async |client| act(client, worker).await).await;
        tally.add(match (result, of) {
            (Ok(()), _) => Ok(Code::DONE),
            (Err(error), Of::Any) => Err(failure(error, Asking::Action)),
            (Err(error), Of::Running) => Err(not_acted(daemon, worker, error).await),
        });
    }
    tally.code()
}

/// Why nothing was done; that a worker does not run has a code of its own.
async fn not_acted(daemon: &Daemon, worker: &str, error: CallError) -> Failure {
    let wrong_state = error.code() == Some(crate::dbus::errors::Code::WrongState);
    let mut failure = failure(error, Asking::Action);
    if wrong_state
        && let Ok((_, worker)) = look(daemon, worker, Asking::Action).await
        && !worker.is_running()
    {
        failure.code = Code::NOT_RUNNING;
    }
    failure
}

async fn kill(daemon: &Daemon, args: &KillArgs) -> Code {
    let (whom, signal) = (args.kill_whom.into(), args.signal);
    each(
        daemon,
        &args.workers,
        Of::Running,
        async |c: Client, w: &str| c.kill(w, whom, signal).await,
    )
    .await
}

async fn freeze(daemon: &Daemon, args: &WorkersArgs, frozen: bool) -> Code {
    each(
        daemon,
        &args.workers,
        Of::Running,
        async |c: Client, w: &str| c.freeze(w, frozen).await,
    )
    .await
}

async fn hold(daemon: &Daemon, args: &WorkersArgs, held: bool) -> Code {
    each(
        daemon,
        &args.workers,
        Of::Any,
        async |c: Client, w: &str| c.hold(w, held).await,
    )
    .await
}

async fn restore(daemon: &Daemon, args: &WorkersArgs, out: &mut Output) -> Code {
    let mut tally = Tally::default();
    let mut ids = Vec::new();
    for worker in &args.workers {
        match daemon.call(async |c| c.restore(worker).await).await {
            Ok(id) => {
                ids.push(id);
                tally.add(Ok(Code::DONE));
            }
            Err(error) => tally.add(Err(failure(error, Asking::Action))),
        }
    }
    if out.json.is_some() {
        out.json(&ids);
    } else if !out.quiet {
        for id in ids {
            out.line(format!("Restored {}.", escape(&id)));
        }
    }
    tally.code()
}

/// The JSON of a worker and what this client reads of it.
async fn look(
    daemon: &Daemon,
    worker: &str,
    asking: Asking,
) -> Result<(serde_json::Value, Worker), Failure> {
    // To the contract's Status an empty name is the service.
    if worker.is_empty() {
        let code = code_of("org.muster1.Error.NoSuchWorker", asking);
        return Err(Failure::new(code, "no worker \"\" on the roll".to_owned()));
    }
    let json = daemon
        .call(async |client| client.status(worker).await)
        .await
        .map_err(|e| failure(e, asking))?;
    let view = Worker::read(&json)
        .map_err(|e| Failure::failed(format!("musterd's answer about {worker:?}: {e}")))?;
    Ok((json, view))
}

/// The id of the worker that a word on the command line means.
async fn resolve(daemon: &Daemon, worker: &str) -> Result<String, Failure> {
    daemon
        .call(async |client| client.resolve(worker).await)
        .await
        .map_err(|e| failure(e, Asking::Action))
}
