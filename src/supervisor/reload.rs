//! Reload: the running image is replaced by the installed one, in place (section 12).
//!
//! ```text
//! Reload -> trial (the new image as a child, with a copy of the hand-over) -> no: all goes on
//!        -> yes: stop hooks end, while everything is served -> answered -> quiesce (nothing new is read, all that was read is answered)
//!        -> the loop ends with a hand-over -> the main thread executes -> the new image resumes
//! ```

use std::ffi::{CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::channel::to_hex;
use super::children::Child;
use super::handle::{Caller, Change, Reply, Right};
use super::handover::{Handover, NodeState, TrackedState, version};
use super::helper::Helper;
use super::refused::Refused;
use super::timers::Key;
use super::verbs::answer;
use super::{Inner, Supervisor};
use crate::log::id;
use crate::service_event;
use crate::sys::reexec::memfd;
use crate::sys::spawn::Image;
use crate::sys::{clock, systemd};
use crate::worker::{NodeId, Now};

/// The new image has this long to say yes.
const TRIAL: Duration = Duration::from_secs(15);
/// Everything that was received is answered within this, or the old image goes on.
const QUIET: Duration = Duration::from_secs(15);
/// What a trial may say.
const WORDS_MAX: u64 = 4096;

/// How to execute ourselves again.
#[derive(Debug, Clone)]
pub struct Again {
    /// The installed image.
    pub image: PathBuf,
    /// Our arguments, less what belongs to one start only.
    pub args: Vec<OsString>,
}

/// Where a reload stands.
#[derive(Debug, Default)]
pub(super) enum State {
    #[default]
    None,
    /// The new image is being tried.
    Trial(Waiting),
    /// It said yes; stop hooks end first, while everything is served.
    Hooks(Waiting),
    /// It said yes; the old one falls silent.
    Quiet { bus: bool },
}

/// Who waits for the verdict on an image, and what it was tried with.
#[derive(Debug)]
pub(super) struct Waiting {
    replies: Vec<Reply<u64>>,
    /// Of the hand-over.
    version: u32,
}

/// Everything that goes to the next image. The descriptors stay open under their numbers.
#[derive(Debug)]
pub struct Handed {
    /// The table in words.
    pub handover: Handover,
    /// What its numbers stand for.
    pub fds: Vec<OwnedFd>,
}

impl Supervisor {
    pub(super) fn reload(&mut self, by: &Caller, reply: Reply<u64>) {
        if !self.has(by, Right::ManageService) {
            return answer(reply, Err(Refused::NeedsRight(Right::ManageService)));
        }
        if self.is_to_leave() || self.is_leaving() {
            return answer(reply, Err(Refused::ShuttingDown));
        }
        match &mut self.reload {
            State::Trial(waiting) | State::Hooks(waiting) => return waiting.replies.push(reply),
            State::Quiet { .. } => return answer(reply, Err(Refused::Reloading)),
            State::None => {}
        }
        match self.trial_image() {
            Ok((image, said)) => {
                self.reload = State::Trial(Waiting {
                    replies: vec![reply],
                    version: version(self.closed_until_resume().as_ref()),
                });
                self.try_image(image, said);
            }
            Err(error) => {
                answer(
                    reply,
                    Err(Refused::Io(format!("cannot try the new image: {error}"))),
                );
            }
        }
    }

    /// The new image as a child: the same arguments, a copy of the hand-over, one pipe to answer.
    fn trial_image(&mut self) -> std::io::Result<(Image, OwnedFd)> {
        let bytes = self.handover().encode().map_err(std::io::Error::other)?;
        let copy = memfd(c"musterd-trial", &bytes)?;
        let (said, says) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&said, true)?;
        let text = |s: OsString| CString::new(s.into_vec()).map_err(std::io::Error::other);
        let mut argv = vec![text("musterd".into())?, text("--trial-fd=3".into())?];
        for arg in &self.set.again.args {
            argv.push(text(arg.clone())?);
        }
        let env = std::env::vars_os()
            .map(|(name, value)| {
                text(OsString::from_vec(
                    [name.into_vec(), value.into_vec()].join(&b'='),
                ))
            })
            .collect::<Result<_, _>>()?;
        let image = Image {
            argv,
            env,
            candidates: vec![text(self.set.again.image.clone().into_os_string())?],
            cwd: Some(text("/".into())?),
            fds: vec![(copy, 3), (says.try_clone()?, 1), (says, 2)],
            pdeathsig: true,
            ..Image::default()
        };
        Ok((image, said))
    }

    fn try_image(&mut self, image: Image, said: OwnedFd) {
        let node = self.children.next_node();
        self.helpers_starting.insert(node);
        let forker = self.forker.clone();
        let inner = self.inner_in.clone();
        self.spawn_inner(async move {
            let started = match forker.start(image).await {
                Ok(started) => started,
                Err(error) => {
                    return Inner::Tried {
                        node,
                        verdict: Err(error.to_string()),
                    };
                }
            };
            let _ = inner.send(Inner::TrialRuns {
                node,
                started: Box::new(started),
            });
            let words = tokio::time::timeout(TRIAL, hear(said)).await;
            let verdict = match words {
                Ok(words) if words.lines().last() == Some("yes") => Ok(()),
                Ok(words) if words.trim().is_empty() => Err("it ended without a word".to_owned()),
                Ok(words) => Err(words.trim().to_owned()),
                Err(_) => Err(format!("it gave no answer in {} s", TRIAL.as_secs())),
            };
            Inner::Tried { node, verdict }
        });
    }

    pub(super) fn trial_runs(&mut self, node: NodeId, started: crate::sys::spawn::Started) {
        self.helpers_starting.remove(&node);
        if let Err(error) = self.children.watch_helper(&started.process, node) {
            tracing::error!(%error, "cannot watch the trial");
        }
        self.helpers.insert(
            node,
            Helper {
                started,
                leaf: None,
                clears: None,
                for_sweep: false,
            },
        );
    }

    pub(super) fn tried(&mut self, node: NodeId, verdict: Result<(), String>) {
        self.helpers_starting.remove(&node);
        self.kill_helper(node);
        let State::Trial(waiting) = std::mem::take(&mut self.reload) else {
            return;
        };
        match verdict {
            Ok(()) => {
                self.reload = State::Hooks(waiting);
                let longest = self.set.config.ladder.stop_hook_timeout + QUIET;
                let until = clock::now().mono.plus(longest);
                self.timers.set(Key::Reload, Some(until));
                self.reload_without_hooks();
            }
            Err(why) => self.refuse_image(waiting, &why),
        }
    }

    /// The reload goes on once no hook runs: they are not handed over.
    pub(super) fn reload_without_hooks(&mut self) {
        if self.hooks.is_empty() {
            self.go_on_reloading();
        }
    }

    fn go_on_reloading(&mut self) {
        let waiting = match std::mem::take(&mut self.reload) {
            State::Hooks(waiting) => waiting,
            other => return self.reload = other,
        };
        self.timers.set(Key::Reload, None);
        if self.is_to_leave() {
            return self.refuse_image(waiting, "the service was told to end meanwhile");
        }
        if version(self.closed_until_resume().as_ref()) > waiting.version {
            return self.refuse_image(waiting, "it was tried before a drain began; ask again");
        }
        let generation = self.set.generation + 1;
        for reply in waiting.replies {
            answer(reply, Ok(generation));
        }
        self.fall_silent(clock::now());
    }

    /// Time is up for what a reload waits for.
    pub(super) fn reload_is_late(&mut self) {
        match std::mem::take(&mut self.reload) {
            State::Hooks(waiting) => {
                self.refuse_image(waiting, "stop hooks did not end in time; ask again");
            }
            other => {
                self.reload = other;
                self.give_up_reload("not everything fell silent in time");
            }
        }
    }

    fn refuse_image(&self, waiting: Waiting, why: &str) {
        service_event!(
            ERROR,
            id::RELOAD_REFUSED,
            "the new image was refused, this one goes on: {why}"
        );
        for reply in waiting.replies {
            let why = format!("the new image was refused, the old one serves on: {why}");
            answer(reply, Err(Refused::Io(why)));
        }
    }

    fn fall_silent(&mut self, now: Now) {
        systemd::reloading();
        self.reload = State::Quiet { bus: false };
        self.timers.set(Key::Reload, Some(now.mono.plus(QUIET)));
        let _ = self.quiesce.send(true);
        for node in self.children.nodes() {
            let waiters = self
                .children
                .get_mut(node)
                .map(|c| std::mem::take(&mut c.waiters));
            for waiter in waiters.unwrap_or_default() {
                answer(waiter, Err(Refused::Reloading));
            }
        }
        for starting in self.starting.values_mut() {
            for waiter in std::mem::take(&mut starting.waiters) {
                answer(waiter, Err(Refused::Reloading));
            }
        }
        self.refuse_restart_waiters();
        self.refuse_waiting_sweeps();
        // Each ends when nobody asks it any more.
        self.lookers.clear();
        // A spawn under way waits for its probe; what clears a directory has no second try.
        for helper in self.helpers.values().filter(|helper| helper.for_sweep) {
            helper.kill();
        }
    }

    /// The bus side has answered all it had received.
    pub(super) fn bus_is_quiet(&mut self) {
        if let State::Quiet { bus } = &mut self.reload {
            *bus = true;
        }
    }

    pub(super) fn is_not_reloading(&self) -> bool {
        matches!(self.reload, State::None)
    }

    pub(super) fn is_reloading(&self) -> bool {
        matches!(self.reload, State::Quiet { .. })
    }

    /// A reload that falls silent ends, and the old image goes on.
    pub(super) fn give_up_reload(&mut self, why: &str) {
        if self.is_reloading() {
            service_event!(
                ERROR,
                id::RELOAD_REFUSED,
                "a reload is given up, this image goes on: {why}"
            );
            systemd::ready_again();
            self.reload = State::None;
            let _ = self.quiesce.send(false);
            // A sweep that was left to the next image.
            self.schedule_sweep(clock::now());
            let _ = self.changes.send(Change::Service);
        }
    }

    /// Nothing is under way that a hand-over could not carry.
    pub(super) fn may_hand_over(&self) -> bool {
        matches!(self.reload, State::Quiet { bus: true })
            && self.starting.is_empty()
            && self.helpers.is_empty()
            && self.helpers_starting.is_empty()
            && self.hooks.is_empty()
            && self.asked == 0
            && self.children.iter().all(|child| child.cancels.is_empty())
            && self.sweeps.is_quiet()
            && self.strangers.is_quiet()
    }

    /// The table in words, with the numbers of the descriptors it has open.
    pub(super) fn handover(&mut self) -> Handover {
        let nodes = self.children.iter().map(node_state).collect();
        let closed = self.closed_until_resume();
        Handover {
            version: version(closed.as_ref()),
            closed,
            release: crate::RELEASE.to_owned(),
            generation: self.set.generation,
            next_node: self.children.next_unused(),
            nodes,
            again: self.agains(),
            counters: self.counters.clone(),
            started: self.started,
            last_reap: self.last_reap,
            nofile: self.set.nofile,
            tree: self
                .tree
                .as_ref()
                .map(|tree| tree.root().to_owned())
                .map_err(Clone::clone),
            clock: self.clock,
            ..Handover::default()
        }
    }

    /// Ends the supervisor with everything the next image needs.
    pub(super) fn hand_over(&mut self) -> Handed {
        let handover = self.handover();
        let mut fds = Vec::new();
        for node in self.children.nodes() {
            let Some(child) = self.children.remove(node) else {
                continue;
            };
            fds.push(child.process.into_fd());
            fds.extend(child.notify.map(|notify| notify.socket));
            fds.extend(child.attendances.into_iter().map(|(_, fd)| fd));
            fds.extend(child.channel.map(|channel| channel.into_fd()));
            fds.extend(
                child
                    .tracked
                    .into_iter()
                    .map(|tracked| tracked.process.into_fd()),
            );
        }
        Handed { handover, fds }
    }
}

fn half(child: &Child) -> Option<crate::control::codec::Half> {
    child.channel.as_ref().map(|channel| channel.decoder.half())
}

async fn hear(said: OwnedFd) -> String {
    let Ok(said) = pipe::Receiver::from_owned_fd(said) else {
        return String::new();
    };
    let mut words = Vec::new();
    let _ = said.take(WORDS_MAX).read_to_end(&mut words).await;
    String::from_utf8_lossy(&words).into_owned()
}

/// For the daemon: the arguments of the next execution.
pub fn resume_argv(args: &[OsString], memfd: &OwnedFd) -> std::io::Result<Vec<CString>> {
    let mut all = vec![
        OsString::from("musterd"),
        OsString::from(format!("--resume-fd={}", memfd.as_raw_fd())),
    ];
    all.extend(args.iter().cloned());
    all.into_iter()
        .map(|arg| CString::new(arg.into_vec()).map_err(std::io::Error::other))
        .collect()
}

/// One child as the next image gets it.
fn node_state(child: &Child) -> NodeState {
    NodeState {
        node: child.node,
        worker: child.id,
        kind: child.kind,
        process: child.process.id(),
        pidfd: child.process.as_raw_fd(),
        pgid: child.pgid,
        leaf: child.leaf.as_ref().map(|leaf| leaf.path().to_owned()),
        machine: child.machine.clone(),
        deadline: child.deadline,
        started: child.started,
        bucket: child.bucket,
        adopted: child.adopted.is_some(),
        life: Some(child.life.clone()),
        lost: child.lost.clone(),
        frozen: child.frozen,
        processes: child.processes,
        looked: child.waiting.is_none(),
        unenforced: child.unenforced.clone(),
        tracked: child
            .tracked
            .iter()
            .map(|tracked| TrackedState {
                process: tracked.process.id(),
                pidfd: tracked.process.as_raw_fd(),
                comm: tracked.comm.clone(),
                in_group: tracked.in_group,
            })
            .collect(),
        notify: child.notify.as_ref().map(|n| n.socket.as_raw_fd()),
        stop_by: child.notify.as_ref().and_then(|n| n.stop_by),
        tty: child.tty,
        attendances: child
            .attendances
            .iter()
            .map(|(_, fd)| fd.as_raw_fd())
            .collect(),
        channel: child.channel.as_ref().map(|channel| channel.number()),
        half_frame: half(child).map_or(String::new(), |half| to_hex(&half.bytes)),
        skip: half(child).map_or(0, |half| half.skip),
        unsent: child
            .channel
            .as_ref()
            .map_or(String::new(), |channel| to_hex(&channel.unsent())),
        skipped: child.skipped,
        said: Some(child.said),
        says: child.says.to_string(),
    }
}
