//! Executing ourselves again: the trial, the execution, the way back. The supervisor's half is
//! in `supervisor::reload` and `supervisor::resume`.

use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;

use super::dirs::directories;
use super::load_config;
use super::options::Options;
use crate::dbus::{Kept, KeptBus};
use crate::error::{Fault, exit};
use crate::registry::store::Store;
use crate::supervisor::handover::{BusState, Handover, PeerState};
use crate::supervisor::reload::{Again, Handed, resume_argv};
use crate::sys::privilege;
use crate::sys::reexec::{self, Target, execute, memfd, read_all};

/// All that the next image is executed with.
pub(super) struct Next {
    handed: Handed,
    again: Again,
}

/// How this process is executed again: the installed path, and its arguments less those that
/// belong to one start.
pub(super) fn again(image: Option<PathBuf>) -> Again {
    let one_start = ["--resume-fd", "--trial-fd", "--ready-fd"];
    let mut args = Vec::new();
    let mut skip = false;
    for arg in std::env::args_os().skip(1) {
        let bytes = arg.as_bytes();
        let name = bytes.split(|b| *b == b'=').next().unwrap_or_default();
        let mine = one_start.iter().any(|option| option.as_bytes() == name);
        if !skip && !mine {
            args.push(arg.clone());
        }
        skip = mine && !bytes.contains(&b'=');
    }
    Again {
        image: image.unwrap_or_else(own_path),
        args,
    }
}

/// Where our image is installed. After an upgrade the kernel calls the old file deleted; the
/// new one lies at the same path.
fn own_path() -> PathBuf {
    let link = std::env::current_exe().unwrap_or_else(|_| "/usr/libexec/musterd".into());
    match link.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(path) => OsString::from_vec(path.to_vec()).into(),
        None => link,
    }
}

/// `--trial-fd N`: can this image take over? Says `yes` on standard output, or why not.
pub(super) fn trial(options: &Options, number: i32) -> ExitCode {
    match try_trial(options, number) {
        Ok(()) => {
            println!("yes");
            ExitCode::from(exit::OK)
        }
        Err(fault) => {
            println!("{fault}");
            ExitCode::from(fault.exit_code())
        }
    }
}

fn try_trial(options: &Options, number: i32) -> Result<(), Fault> {
    let handover = read(number)?;
    load_config(options)?;
    let (state_dir, _) = directories(options)?;
    let rows = Store::check(&state_dir)?;
    tracing::debug!(
        rows,
        workers = handover.nodes.len(),
        "the trial read the state"
    );
    Ok(())
}

/// The message bus of the image before.
pub(super) fn kept_bus(bus: BusState) -> Result<KeptBus, Fault> {
    Ok(KeptBus {
        fd: taken(bus.fd)?,
        fds: bus.fds,
        guid: bus.guid,
        name: bus.name,
        address: bus.address,
    })
}

/// The hand-over of the image before; the descriptor stays open, for the way back.
pub(super) fn read(number: i32) -> Result<Handover, Fault> {
    let bytes = reexec::borrowed(number)
        .and_then(read_all)
        .map_err(|e| Fault::Other(format!("cannot read the hand-over: {e}")))?;
    Handover::decode(&bytes).map_err(|e| Fault::Other(e.to_string()))
}

/// A descriptor of the image before, owned from now on.
pub(super) fn taken(number: i32) -> Result<OwnedFd, Fault> {
    reexec::take(number)
        .map_err(|e| Fault::Other(format!("descriptor {number} of the image before: {e}")))
}

/// Adds what the daemon itself holds to what the supervisor handed over.
pub(super) fn next(
    mut handed: Handed,
    again: Again,
    lock: OwnedFd,
    socket: OwnedFd,
    image: OwnedFd,
    kept: Kept,
) -> Next {
    handed.handover.lock = lock.as_raw_fd();
    handed.handover.socket = socket.as_raw_fd();
    handed.handover.image = image.as_raw_fd();
    handed.fds.extend([lock, socket, image]);
    if let Some(bus) = kept.bus {
        handed.handover.bus = Some(BusState {
            fd: bus.fd.as_raw_fd(),
            fds: bus.fds,
            guid: bus.guid,
            name: bus.name,
            address: bus.address,
        });
        handed.fds.push(bus.fd);
    }
    for peer in kept.peers {
        handed.handover.peers.push(PeerState {
            fd: peer.fd.as_raw_fd(),
            fds: peer.fds,
            answered: peer.answered,
        });
        handed.fds.push(peer.fd);
    }
    Next { handed, again }
}

/// Executes the installed image, or this one again if that fails. Runs on the main thread;
/// returns only if neither can be executed.
pub(super) fn execute_next(next: Next) -> Fault {
    let Next { handed, again } = next;
    let failed = |what: &str, e: &dyn std::fmt::Display| Fault::Other(format!("{what}: {e}"));
    let bytes = match handed.handover.encode() {
        Ok(bytes) => bytes,
        Err(error) => return failed("cannot write the hand-over", &error),
    };
    let memfd = match memfd(c"musterd-handover", &bytes) {
        Ok(memfd) => memfd,
        Err(error) => return failed("cannot make the hand-over", &error),
    };
    let argv = match resume_argv(&again.args, &memfd) {
        Ok(argv) => argv,
        Err(error) => return failed("cannot make the arguments", &error),
    };
    let env = environment();
    let mut keep = handed.handover.numbers();
    keep.push(memfd.as_raw_fd());
    pass_capabilities();
    let path = CString::new(again.image.as_os_str().as_bytes()).unwrap_or_default();
    let error = execute(&Target::Path(&path), &argv, &env, &keep);
    let what = format!("cannot execute {}: {error}", again.image.display());
    match reexec::borrowed(handed.handover.image) {
        Ok(image) => {
            let error = execute(&Target::File(image), &argv, &env, &keep);
            failed(&what, &format_args!("nor the old image: {error}"))
        }
        Err(_) => Fault::Other(what),
    }
}

/// The new image cannot serve after all: executes the one before, with the same hand-over.
pub(super) fn go_back(number: i32, handover: &Handover, why: &Fault) {
    say!("musterd: cannot take over, going back to the image before: {why}");
    let (Ok(memfd), Ok(image)) = (reexec::borrowed(number), reexec::borrowed(handover.image))
    else {
        return;
    };
    let Ok(memfd) = memfd.try_clone_to_owned() else {
        return;
    };
    let Ok(argv) = resume_argv(&again(Some(PathBuf::new())).args, &memfd) else {
        return;
    };
    let mut keep = handover.numbers();
    keep.push(memfd.as_raw_fd());
    pass_capabilities();
    let error = execute(&Target::File(image), &argv, &environment(), &keep);
    say!("musterd: cannot go back either: {error}");
}

/// The next image takes them out of the sets that pass execve again.
fn pass_capabilities() {
    if let Err(error) = privilege::pass_on_exec() {
        say!("musterd: the next image will lack capabilities: {error}");
    }
}

fn environment() -> Vec<CString> {
    std::env::vars_os()
        .filter_map(|(name, value)| {
            CString::new([name.into_vec(), value.into_vec()].join(&b'=')).ok()
        })
        .collect()
}
