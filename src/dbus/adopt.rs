//! Adopt and Attend: a process comes in by its pidfd, a descriptor goes out.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;

use zbus::{Fd, Message, Variant};

use super::convert;
use super::dict::{Dict, Keys, NO_KEYS, Received};
use super::dispatch::Call;
use super::errors::{Code, Failure};
use super::kind::{kind_from_dict, kind_to_dict};
use super::spec::{put_text, worktree};
use crate::supervisor::adopt::Adoption;
use crate::supervisor::refused::Refused;
use crate::worker::WorktreeChoice;

/// Adopt's dictionary.
pub const ADOPT_KEYS: Keys = &[
    ("name", "s"),
    ("kind", "s"),
    ("kind-fields", "a{sv}"),
    ("worktree", "s"),
    ("worktree-bytes", "ay"),
];

/// Adopt's dictionary to what the supervisor takes.
pub fn adoption_from_dict(dict: Received) -> Result<Adoption, Failure> {
    let mut d = Dict::checked("Adopt", dict, ADOPT_KEYS)?;
    Ok(Adoption {
        name: d.take("name")?.unwrap_or_default(),
        kind: kind_from_dict(d.word("kind")?, d.take("kind-fields")?)?,
        worktree: worktree(d.text("worktree")?),
    })
}

/// The inverse of [`adoption_from_dict`].
pub fn adoption_to_dict(how: &Adoption) -> HashMap<String, Variant<'static>> {
    let mut dict = HashMap::new();
    if !how.name.is_empty() {
        dict.insert("name".to_owned(), how.name.clone().into());
    }
    dict.insert("kind".to_owned(), how.kind.kind_type().as_str().into());
    let fields = kind_to_dict(&how.kind);
    if !fields.is_empty() {
        dict.insert("kind-fields".to_owned(), fields.into());
    }
    match &how.worktree {
        WorktreeChoice::Auto => {}
        WorktreeChoice::None => put_text(&mut dict, "worktree", OsString::from("none").as_ref()),
        WorktreeChoice::Path(path) => put_text(&mut dict, "worktree", path.as_os_str()),
    }
    dict
}

/// Adopt.
pub async fn adopt(call: &Call<'_>) -> Result<Message, Failure> {
    let (pidfd, dict): (zbus::OwnedFd, Received) = call.arguments()?;
    let how = adoption_from_dict(dict)?;
    if let WorktreeChoice::Path(path) = &how.worktree
        && !path.is_absolute()
    {
        let why = "Adopt: worktree: is not an absolute path";
        return Err(Failure::invalid(why));
    }
    // Parent and depth come from the caller's process (section 5).
    if call.who.has_gone() {
        return Err(Refused::CallerGone.into());
    }
    let pidfd = OwnedFd::from(pidfd);
    let ask = |caller| {
        let (pidfd, how) = (pidfd.try_clone(), how.clone());
        async move {
            let pidfd = pidfd.map_err(|e| Refused::Io(format!("cannot copy a descriptor: {e}")))?;
            call.handle().adopt(caller, pidfd, how).await
        }
    };
    let adopted = call.ask(ask).await?;
    call.reply(&convert::spawned(&adopted))
}

/// Attend.
pub async fn attend(call: &Call<'_>) -> Result<Message, Failure> {
    let (worker, options): (String, Received) = call.arguments()?;
    Dict::checked("Attend", options, NO_KEYS)?;
    if !call.fds {
        let why = "Attend answers with a descriptor, and this connection cannot pass any";
        return Err(Failure::new(Code::NotSupported, why));
    }
    let ask = |caller| call.handle().attend(caller, worker.clone());
    let fd = call.ask(ask).await?;
    call.reply(&Fd::from(fd))
}
