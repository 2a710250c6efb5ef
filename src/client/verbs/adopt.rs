//! `adopt`: a process that somebody else started, by a pidfd that is opened here.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::client::args::AdoptArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::kinds;
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;
use crate::client::output::text::escape;
use crate::supervisor::adopt::Adoption;

/// The process, held by its pidfd, and what it is to be called; before a daemon is looked for.
pub fn prepare(args: &AdoptArgs) -> Result<(OwnedFd, Adoption), Failure> {
    let here = |path: &Path| {
        std::path::absolute(path)
            .map_err(|e| Failure::usage(format!("--worktree {}: {e}", path.display())))
    };
    let how = Adoption {
        name: args.name.clone().unwrap_or_default(),
        kind: kinds::parse(args.kind.as_deref(), &args.kind_field)?,
        worktree: super::run::worktree(args.worktree.as_deref(), here)?,
    };
    let number = i32::try_from(args.pid).ok().and_then(Pid::from_raw);
    let pid = number.ok_or_else(|| Failure::usage(format!("{} is no pid", args.pid)))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|e| Failure::failed(format!("cannot open process {}: {e}", args.pid)))?;
    Ok((pidfd, how))
}

/// Runs the verb.
pub async fn run(
    daemon: &Daemon,
    args: &AdoptArgs,
    prepared: (OwnedFd, Adoption),
    out: &mut Output,
) -> Result<Code, Failure> {
    if daemon.is_remote() {
        return Err(Failure::usage(
            "adopt hands a descriptor over, which no other machine can take",
        ));
    }
    let (pidfd, how) = prepared;
    let adopted = daemon
        .call(async |client| client.adopt(pidfd.as_fd(), &how).await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    super::run::say_unenforced(&adopted);
    if out.json.is_some() {
        out.json(&serde_json::json!({
            "id": adopted.id,
            "name": how.name,
            "object": adopted.object,
            "durable": adopted.durable,
        }));
    } else if out.quiet {
        out.line(&adopted.id);
    } else {
        let id = escape(&adopted.id);
        out.line(format!("Adopted process {} as worker {id}.", args.pid));
    }
    Ok(Code::DONE)
}
