//! `run`: from the command line to a spec, the start, and the wait for the end with Ctrl-C.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use tokio::sync::mpsc;

use super::report;
use super::wait::{ended, print};
use crate::client::args::RunArgs;
use crate::client::environment::{Login, build, login};
use crate::client::exit::{Asking, Code, Failure};
use crate::client::kinds;
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;
use crate::client::output::text::escape;
use crate::dbus::client::{CallError, Spawned};
use crate::supervisor::handle::{CancelOptions, Stdio};
use crate::worker::{
    Control, Ending, Environment, Limits, Priority, RestartPolicy, Spec, Timeouts, WorktreeChoice,
};

/// A payload longer than the greatest frame can never be handed over.
const PAYLOAD_MAX: u64 = 64 << 20;
/// Between attempts where waiting helps.
const RETRY: Duration = Duration::from_millis(500);

/// The spec of a worker, made and checked before a daemon is looked for.
pub fn prepare(args: &RunArgs) -> Result<Box<Spec>, Failure> {
    let here = std::env::current_dir();
    let absolute = |path: &Path| -> Result<PathBuf, Failure> {
        if path.is_absolute() {
            return Ok(path.to_owned());
        }
        match &here {
            Ok(here) => Ok(here.join(path)),
            Err(e) => Err(Failure::failed(format!(
                "cannot tell the current directory: {e}; give absolute paths and --working-directory"
            ))),
        }
    };
    if args.pty {
        super::pty::check()?;
    }
    let cwd = absolute(args.working_directory.as_deref().unwrap_or(Path::new("")))?;
    // join() with an empty path leaves a slash behind.
    let cwd: PathBuf = cwd.components().collect();
    let worktree = worktree(args.worktree.as_deref(), absolute)?;
    let spec = Spec {
        argv: args.command.clone(),
        name: args.name.clone().unwrap_or_default(),
        cwd,
        env: Environment(environment(args)?),
        kind: kinds::parse(args.kind.as_deref(), &args.kind_field)?,
        timeouts: Timeouts {
            deadline: args.deadline,
            idle: args.idle_timeout,
            ..Timeouts::default()
        },
        control: args.control.unwrap_or(Control::None),
        payload: args
            .payload
            .as_deref()
            .map(|text| json_argument("--payload", text))
            .transpose()?,
        worktree,
        uid: args.uid,
        limits: Limits {
            memory_max: args.memory_max,
            tasks_max: args.tasks_max,
            cpu_weight: args.cpu_weight,
            cpu_max_percent: args.cpu_max,
            nice: args.nice,
            tokens_max: args.tokens_max,
        },
        restart: args.restart.unwrap_or(RestartPolicy::No),
        restart_max: args.restart_max,
        leftovers: args.leftovers,
        ending: Ending {
            stop_signal: args.stop_signal,
            grace: args.grace,
            kill_grace: args.kill_grace,
            stop_hook: Vec::new(),
        },
        priority: args.priority.unwrap_or(Priority::Normal),
        trace_id: args.trace_id.clone().unwrap_or_default(),
        private_tmp: args.private_tmp,
        tty: args.pty,
    };
    spec.check().map_err(|e| Failure::usage(e.to_string()))?;
    Ok(Box::new(spec))
}

/// What `--worktree` says.
pub(super) fn worktree(
    given: Option<&Path>,
    absolute: impl Fn(&Path) -> Result<PathBuf, Failure>,
) -> Result<WorktreeChoice, Failure> {
    match given {
        None => Ok(WorktreeChoice::Auto),
        Some(path) if path == Path::new("auto") => Ok(WorktreeChoice::Auto),
        Some(path) if path == Path::new("none") => Ok(WorktreeChoice::None),
        Some(path) => absolute(path).map(WorktreeChoice::Path),
    }
}

fn environment(args: &RunArgs) -> Result<Vec<OsString>, Failure> {
    let caller = |name: &OsStr| std::env::var_os(name);
    if !args.clean_env {
        return build(std::env::vars_os(), &args.setenv, caller);
    }
    let uid = args
        .uid
        .unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid))
        .ok()
        .flatten();
    let who = match user {
        Some(user) => Login {
            uid,
            name: user.name,
            home: user.dir.into(),
            shell: user.shell.into(),
        },
        None => Login {
            uid,
            name: String::new(),
            home: "/".into(),
            shell: "/bin/sh".into(),
        },
    };
    let mut base = login(&who, std::env::var_os("LANG"));
    if args.pty
        && let Some(term) = std::env::var_os("TERM")
    {
        // A login on a terminal knows which.
        base.insert("TERM".into(), term);
    }
    build(base, &args.setenv, caller)
}

/// JSON for `option`: itself, `@FILE`, or `-` for standard input.
pub fn json_argument(option: &str, text: &OsStr) -> Result<String, Failure> {
    let bytes = text.as_bytes();
    let read = |what: String, from: &mut dyn Read| {
        let mut text = String::new();
        from.take(PAYLOAD_MAX)
            .read_to_string(&mut text)
            .map_err(|e| Failure::usage(format!("{option}: cannot read {what}: {e}")))?;
        Ok(text)
    };
    if bytes == b"-" {
        read("standard input".to_owned(), &mut std::io::stdin().lock())
    } else if let Some(path) = bytes.strip_prefix(b"@") {
        let path = Path::new(OsStr::from_bytes(path));
        let mut file = std::fs::File::open(path).map_err(|e| {
            Failure::usage(format!("{option}: cannot open {}: {e}", path.display()))
        })?;
        read(path.display().to_string(), &mut file)
    } else {
        let text = text
            .to_str()
            .ok_or_else(|| Failure::usage(format!("{option}: is not UTF-8")))?;
        Ok(text.to_owned())
    }
}

/// Runs the verb.
pub async fn run(
    daemon: &Rc<Daemon>,
    args: &RunArgs,
    spec: Box<Spec>,
    out: &mut Output,
) -> Result<Code, Failure> {
    if (args.pipe || args.pty) && daemon.is_remote() {
        return Err(Failure::usage(
            "--pipe and --pty hand descriptors over, which no other machine can take",
        ));
    }
    if args.pty {
        return super::pty::run(daemon, args, spec, out).await;
    }
    let wait = args.wait || args.pipe;
    // From here on Ctrl-C ends the worker and not this program with the worker left behind.
    let signals = wait.then(Signals::catch).transpose()?;
    let spawned = spawn(daemon, &spec, args, || stdio(args.pipe)).await?;
    say_unenforced(&spawned);
    let Some(signals) = signals else {
        started(&spawned, &spec, out);
        return Ok(Code::DONE);
    };
    if !out.quiet {
        say!("Running as worker {}.", title(&spawned, &spec));
    }
    watch(daemon, &spawned.id, signals, out).await
}

/// What a person should know of a start that was not all that was asked for.
pub(super) fn say_unenforced(spawned: &Spawned) {
    if !spawned.unenforced.is_empty() {
        say!(
            "musterctl: this host cannot enforce: {}",
            escape(&spawned.unenforced.join(", "))
        );
    }
    if !spawned.durable {
        say!("musterctl: the row is not on disk yet; see `musterctl status`");
    }
}

/// Starts the worker; waits and asks again where that helps.
pub(super) async fn spawn(
    daemon: &Daemon,
    spec: &Spec,
    args: &RunArgs,
    stdio: impl Fn() -> std::io::Result<Stdio>,
) -> Result<Spawned, Failure> {
    let mut said = false;
    loop {
        let result = daemon
            .call(async |client| {
                let stdio = stdio()
                    .map_err(|e| CallError::Unreachable(format!("cannot pass stdio: {e}")))?;
                client.spawn(spec, stdio).await
            })
            .await;
        match result {
            Err(CallError::Refused { name, message, .. }) if !args.no_wait && passes(&name) => {
                if !said {
                    say!("musterctl: {}; waiting for room", escape(&message));
                    said = true;
                }
                tokio::time::sleep(RETRY).await;
            }
            other => return other.map_err(|e| failure(e, Asking::Action)),
        }
    }
}

/// Refusals that pass by themselves: the spawn rate, and pressure.
fn passes(name: &str) -> bool {
    name.strip_prefix("org.muster1.Error.Refused.")
        .is_some_and(|why| why.ends_with("Rate") || why.ends_with("Pressure"))
}

/// With `--pipe` duplicates of the caller's own; a closed one is left out.
fn stdio(pipe: bool) -> std::io::Result<Stdio> {
    if !pipe {
        return Ok(Stdio::default());
    }
    fn dup(fd: impl AsFd) -> std::io::Result<Option<OwnedFd>> {
        match rustix::io::fcntl_dupfd_cloexec(fd, 3) {
            Ok(fd) => Ok(Some(fd)),
            Err(rustix::io::Errno::BADF) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
    Ok(Stdio {
        stdin: dup(std::io::stdin())?,
        stdout: dup(std::io::stdout())?,
        stderr: dup(std::io::stderr())?,
    })
}

pub(super) fn title(spawned: &Spawned, spec: &Spec) -> String {
    if spec.name.is_empty() {
        escape(&spawned.id)
    } else {
        format!("{} ({})", escape(&spawned.id), escape(&spec.name))
    }
}

/// What is printed without `--wait`: the id on stdout, for people with how to go on on stderr.
fn started(spawned: &Spawned, spec: &Spec, out: &mut Output) {
    if out.json.is_some() {
        out.json(&serde_json::json!({
            "id": spawned.id,
            "name": spec.name,
            "object": spawned.object,
            "unenforced": spawned.unenforced,
            "durable": spawned.durable,
        }));
    } else if out.quiet {
        out.line(&spawned.id);
    } else {
        out.line(format!("Running as worker {}.", title(spawned, spec)));
        let id = escape(&spawned.id);
        say!(
            "Look: musterctl status {id}   Output: musterctl logs -f {id}   End: musterctl cancel {id}"
        );
    }
}

/// Waits for the end. The first Ctrl-C cancels, the second kills, the third leaves.
async fn watch(
    daemon: &Daemon,
    id: &str,
    mut signals: Signals,
    out: &mut Output,
) -> Result<Code, Failure> {
    let wait = ended(daemon, id);
    tokio::pin!(wait);
    let mut asked = 0;
    let ended = loop {
        tokio::select! {
            ended = &mut wait => break ended?,
            () = signals.next() => asked += 1,
        }
        let (now, words) = match asked {
            1 => (false, "ending it; Ctrl-C again kills it"),
            2 => (true, "killing it; Ctrl-C again leaves it to musterd"),
            _ => {
                return Err(Failure::failed(format!(
                    "not waiting any longer; {id} is left to musterd"
                )));
            }
        };
        say!("musterctl: {words}");
        let options = CancelOptions {
            now,
            keep_descendants: false,
        };
        daemon
            .call(async |client| client.cancel(id, "interrupted", options).await)
            .await
            .map_err(|e| failure(e, Asking::Action))?;
    };
    let code = ended.code();
    if out.json.is_some() {
        print(std::slice::from_ref(&ended), out);
    } else if !out.quiet {
        say!("{}", report::ending(&ended.worker));
    }
    Ok(code)
}

/// SIGINT and SIGTERM as something to wait for.
struct Signals(mpsc::UnboundedReceiver<()>);

impl Signals {
    /// The signals are blocked in this thread and taken by one of their own.
    fn catch() -> Result<Self, Failure> {
        let cannot = |e: std::io::Error| Failure::failed(format!("cannot catch signals: {e}"));
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        set.thread_block().map_err(|e| cannot(e.into()))?;
        let (tell, told) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || while set.wait().is_ok() && tell.send(()).is_ok() {})
            .map_err(cannot)?;
        Ok(Self(told))
    }

    /// Returns at the next signal; never if signals cannot be read.
    async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests;
