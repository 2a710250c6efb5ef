//! The daemon from its start to its end: what comes up in which order, and down again.
//!
//! ```text
//! main thread:  signals blocked -> passed descriptors taken, others reserved -> capabilities
//!               -> configuration -> log -> directories -> lock -> control groups -> roll loaded -> forks until the end
//! loop thread:  reconciled -> supervisor -> socket -> bus name -> ready
//! ```

mod again;
mod bus;
mod dirs;
mod door;
mod ground;
mod options;
mod serve;
mod status;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use crate::config::{Config, Paths};
use crate::error::{Fault, exit};
use crate::log::{Control, Log};
use crate::places::{self, Real};
use crate::supervisor::handover::Handover;
use crate::supervisor::output::journal_for;
use crate::sys::fdslots::Slots;
use crate::sys::guardian::{self, DaemonSide};
use crate::sys::privilege::{self, Privileges};
use crate::sys::signals;
use crate::sys::slice;
use crate::sys::spawn::{Forker, Jobs, forker, main_thread};
use crate::sys::systemd::{self, Passed};
use ground::Ground;
pub use options::Options;

/// Runs `musterd`.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() {
                exit::USAGE
            } else {
                exit::OK
            });
        }
    };
    if let Some(number) = options.trial_fd {
        return again::trial(&options, number);
    }
    if !options.embedded || options.resume_fd.is_some() {
        return run(&options, None);
    }
    // Before any thread exists: the guardian is this process, the daemon its child.
    match guardian::run(|side| run(&options, Some(side))) {
        Ok(code) => code,
        Err(error) => {
            say!("musterd: cannot start the guardian: {error}");
            ExitCode::from(exit::FAILED)
        }
    }
}

fn run(options: &Options, guardian: Option<DaemonSide>) -> ExitCode {
    match try_run(options, guardian) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            say!("musterd: {fault}");
            ExitCode::from(fault.exit_code())
        }
    }
}

fn try_run(options: &Options, guardian: Option<DaemonSide>) -> Result<(), Fault> {
    signals::block_all().map_err(|e| Fault::Other(format!("cannot block signals: {e}")))?;
    // The descriptor to say "ready" on must not be taken for a free number.
    let ready = options
        .ready_fd
        .map(crate::sys::fdslots::inherited)
        .transpose();
    let ready = ready.map_err(|e| Fault::Usage(format!("--ready-fd: {e}")))?;
    let passed = systemd::take_passed()
        .map_err(|e| Fault::Other(format!("cannot take the passed sockets: {e}")))?;
    let slots =
        Slots::reserve().map_err(|e| Fault::Other(format!("cannot reserve descriptors: {e}")))?;
    let before = options.resume_fd.map(again::read).transpose()?;
    match try_serve(options, guardian, slots, ready, passed, before.clone()) {
        Ok(End::Over) => Ok(()),
        Ok(End::Abandoned(left)) => Err(Fault::Other(format!(
            "{left} workers did not end in time and were killed"
        ))),
        Ok(End::Again(next)) => Err(again::execute_next(*next)),
        Err(fault) => {
            if let (Some(number), Some(before)) = (options.resume_fd, &before) {
                again::go_back(number, before, &fault);
            }
            Err(fault)
        }
    }
}

/// How a life of this image ends.
enum End {
    Over,
    /// So many workers were killed, since they did not end in time.
    Abandoned(u32),
    Again(Box<again::Next>),
}

fn try_serve(
    options: &Options,
    guardian: Option<DaemonSide>,
    slots: Slots,
    ready: Option<OwnedFd>,
    passed: Passed,
    before: Option<Handover>,
) -> Result<End, Fault> {
    let privileges = privileges(options)?;
    let config = load_config(options)?;
    let log = Log::start(options.log, config.log.level)
        .map_err(|e| Fault::Other(format!("cannot start the log: {e}")))?;
    for name in &passed.unknown {
        tracing::warn!("closed a passed descriptor that nobody asked for: {name:?}");
    }
    let mut ground = Ground::lay(options, config, privileges, guardian.as_ref(), before)?;
    if let Some(listener) = passed.listener {
        let address = listener.local_addr().ok();
        if let Some(path) = address.as_ref().and_then(|a| a.as_pathname()) {
            ground.set.socket = path.to_owned();
        }
        ground.listener = Some(listener);
    }
    let output = ground.set.config.workers.output;
    let logs_there = !options.embedded && log.control().to_journal();
    ground.set.journal = journal_for(output, logs_there);
    let (forker, jobs) = forker(slots, ground.set.config.workers.spawn_timeout)
        .map_err(|e| Fault::Other(format!("cannot prepare to fork: {e}")))?;
    let result = on_two_threads(options.clone(), ground, forker, jobs, ready, log.control());
    drop(log);
    result
}

fn privileges(options: &Options) -> Result<Privileges, Fault> {
    if let Some(user) = &options.run_as {
        privilege::become_user(user)
            .map_err(|e| Fault::Other(format!("cannot run as {user}: {e}")))?;
    }
    match options.is_user() {
        true => privilege::look_at_capabilities(),
        false => privilege::settle_capabilities(),
    }
    .map_err(|e| Fault::Other(format!("cannot settle the capabilities: {e}")))
}

fn load_config(options: &Options) -> Result<Config, Fault> {
    let root = options
        .config_root
        .clone()
        .or_else(|| places::config_root(&Real));
    let paths = match (options.is_user(), root) {
        (true, root) => {
            let home = root.or_else(|| places::config_home(&Real));
            Paths::user(&home.unwrap_or_else(|| PathBuf::from("/nonexistent")))
        }
        (false, root) => Paths::system(&root.unwrap_or_else(|| PathBuf::from("/"))),
    };
    Ok(Config::load(&paths)?.0)
}

/// The loop on its own thread, the forks on this one.
fn on_two_threads(
    options: Options,
    ground: Ground,
    forker: Forker,
    jobs: Jobs,
    ready: Option<OwnedFd>,
    log: Arc<Control>,
) -> Result<End, Fault> {
    let stop = forker.clone();
    let thread = std::thread::Builder::new()
        .name("loop".to_owned())
        .spawn(move || {
            if let Err(error) = slice::ask_for_short_ones() {
                tracing::debug!(%error, "the loop keeps long slices of the processors");
            }
            let result = serve::run_loop(&options, ground, forker, ready, log);
            stop.stop();
            result
        })
        .map_err(|e| Fault::Other(format!("cannot start the event loop: {e}")))?;
    main_thread(jobs);
    thread
        .join()
        .unwrap_or_else(|_| Err(Fault::Other("the event loop died".to_owned())))
}
