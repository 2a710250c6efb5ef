//! Turning an [`Image`] into what a child can use without allocating: arrays of pointers that
//! live as long as the child shares memory.

use std::ffi::{CStr, CString, c_char, c_long};
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32};

use super::child::{Child, Items, Move};
use super::{Ids, Image, SpawnError, Stage};
use crate::sys::fdslots::Slots;

/// What a shell uses where PATH is not set.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// The paths that execvp(3) would try for `program` under the PATH of `env` (the worker's, not
/// the daemon's). A program with a slash is the only candidate itself; an empty element of PATH
/// is the working directory.
pub fn search(program: &CStr, env: &[CString]) -> Vec<CString> {
    let name = program.to_bytes();
    if name.contains(&b'/') || name.is_empty() {
        return vec![program.to_owned()];
    }
    let path = env
        .iter()
        .find_map(|entry| entry.as_bytes().strip_prefix(b"PATH="));
    path.unwrap_or(DEFAULT_PATH)
        .split(|b| *b == b':')
        .filter_map(|directory| {
            let directory = if directory.is_empty() {
                &b"."[..]
            } else {
                directory
            };
            CString::new([directory, b"/", name].concat()).ok()
        })
        .collect()
}

/// Owns everything that [`Child`] points into.
pub(super) struct Prepared {
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    candidates: Vec<*const c_char>,
    moves: Vec<Move>,
    procs: i32,
    cut: i32,
    oom_score_adj: Option<CString>,
    ids: Option<(u32, u32)>,
}

impl Prepared {
    /// Checks the image and assigns slots. `own_oom` is the daemon's own oom_score_adj;
    /// `join`: one more slot for `cgroup.procs`.
    pub(super) fn new(
        image: &Image,
        slots: &Slots,
        own_oom: Option<i32>,
        join: bool,
    ) -> Result<Self, SpawnError> {
        let invalid = |what: &str| {
            let error = io::Error::from_raw_os_error(libc::EINVAL);
            SpawnError::new(Stage::Prepare, &error, format!("({what})"))
        };
        if image.argv.is_empty() || image.candidates.is_empty() {
            return Err(invalid("nothing to execute"));
        }
        if image.ids.as_ref().is_some_and(holds_no_id) {
            return Err(invalid("4294967295 is no user and no group"));
        }
        let numbers = slots.numbers();
        let targets = targets(image);
        let wanted = targets.len() + usize::from(join);
        let lowest = wanted
            .checked_sub(1)
            .and_then(|last| numbers.get(last).copied());
        let highest = targets.iter().copied().max().unwrap_or(0);
        if lowest.is_none_or(|lowest| lowest <= highest) {
            return Err(invalid("too many descriptors to pass, or too high numbers"));
        }
        let moves: Vec<Move> = numbers
            .iter()
            .copied()
            .zip(targets.iter().copied())
            .collect();
        for (i, (_, target)) in moves.iter().enumerate() {
            if *target < 0 || moves.iter().skip(i + 1).any(|(_, other)| other == target) {
                return Err(invalid("a descriptor number is used twice or negative"));
            }
        }
        let procs = if join {
            numbers.get(targets.len()).copied()
        } else {
            None
        };
        let oom = image.oom_score_adj.filter(|adj| Some(*adj) != own_oom);
        Ok(Self {
            argv: pointers(&image.argv),
            env: pointers(&image.env),
            candidates: pointers(&image.candidates),
            moves,
            procs: procs.unwrap_or(-1),
            cut: slots.cut(),
            oom_score_adj: oom.and_then(|adj| CString::new(adj.to_string()).ok()),
            ids: ids(image),
        })
    }

    /// Slots and targets, in the order of [`targets`].
    pub(super) fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// The slot for `cgroup.procs`, or -1.
    pub(super) fn procs(&self) -> i32 {
        self.procs
    }

    /// Are user and group changed?
    pub(super) fn changes_ids(&self) -> bool {
        self.ids.is_some()
    }

    /// Points into `self` and `image`: keep both until the child has executed or ended.
    pub(super) fn child(&self, image: &Image) -> Child {
        let null = std::ptr::null();
        Child {
            argv: self.argv.as_ptr(),
            env: self.env.as_ptr(),
            candidates: self.candidates.as_ptr(),
            cwd: image.cwd.as_ref().map_or(null, |cwd| cwd.as_ptr()),
            moves: Items::of(&self.moves),
            cut: self.cut,
            procs: self.procs,
            new_session: image.new_session,
            rlimits: Items::of(&image.rlimits),
            oom_score_adj: self
                .oom_score_adj
                .as_ref()
                .map_or(null, |text| text.as_ptr()),
            nice: image.nice,
            umask: image.umask,
            ids: self.ids,
            groups: Items::of(image.ids.as_ref().map_or(&[], |ids| &ids.groups)),
            drop_bounding: image.drop_bounding,
            parent: c_long::from(std::process::id()),
            pdeathsig: image.pdeathsig,
            #[cfg(test)]
            halt_before_exec: image.halt_before_exec,
            stage: AtomicU8::new(Stage::Clone as u8),
            errno: AtomicI32::new(0),
            candidate: AtomicU32::new(0),
        }
    }
}

/// The wanted numbers: those of `image.fds` in their order, then the missing of 0, 1, 2.
pub(super) fn targets(image: &Image) -> Vec<i32> {
    let mut targets: Vec<i32> = image.fds.iter().map(|(_, target)| *target).collect();
    for standard in 0..=2 {
        if !targets.contains(&standard) {
            targets.push(standard);
        }
    }
    targets
}

/// An unprivileged daemon cannot even set what it has.
/// setresuid(2) and its like take -1 for "as it is": the child would keep the daemon's.
fn holds_no_id(ids: &Ids) -> bool {
    [ids.uid, ids.gid].contains(&u32::MAX) || ids.groups.contains(&u32::MAX)
}

fn ids(image: &Image) -> Option<(u32, u32)> {
    let ids = image.ids.as_ref()?;
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let own = uid != 0 && ids.uid == uid && ids.gid == gid;
    (!own).then_some((ids.uid, ids.gid))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    let ended = std::iter::once(std::ptr::null());
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain(ended)
        .collect()
}
