//! Processes of the daemon itself: probe helpers that run under an owner's ids. They are in no
//! row; their exits come to the same loop as everybody's.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::{mpsc, oneshot};

use super::{Inner, Supervisor};
use crate::gc::worktree::{HelperIo, HelperLauncher, Later};
use crate::sys::cgroup::Leaf;
use crate::sys::process::signal_group;
use crate::sys::spawn::{Ids, Image, SpawnError, Started};
use crate::sys::wait;
use crate::worker::{NodeId, Owner};

/// A running helper.
#[derive(Debug)]
pub(super) struct Helper {
    pub started: Started,
    pub leaf: Option<Leaf>,
}

impl Helper {
    /// Ends it and what it started. It is unreaped, so its group id is its own.
    pub(super) fn kill(&self) {
        let _ = signal_group(self.started.pgid, libc::SIGKILL);
        if let Some(leaf) = &self.leaf {
            let _ = leaf.kill();
        }
    }
}

/// A wish for a helper, on its way to the supervisor.
#[derive(Debug)]
pub(super) struct Wish {
    owner: Owner,
    reply: oneshot::Sender<std::io::Result<HelperIo>>,
}

/// A helper that was forked, or was not.
#[derive(Debug)]
pub(super) struct Launched {
    node: NodeId,
    outcome: Result<Started, SpawnError>,
    leaf: Option<Leaf>,
    io: (OwnedFd, OwnedFd),
    reply: oneshot::Sender<std::io::Result<HelperIo>>,
}

/// What the collector is given to start helpers with.
#[derive(Debug)]
pub(super) struct Launcher(pub mpsc::UnboundedSender<Inner>);

impl HelperLauncher for Launcher {
    fn launch(&self, owner: Owner) -> Later<std::io::Result<HelperIo>> {
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send(Inner::HelperWanted(Wish { owner, reply }));
        Box::pin(async move {
            sent.map_err(|_| std::io::Error::other("the service is stopping"))?;
            answer
                .await
                .unwrap_or_else(|_| Err(std::io::Error::other("the service is stopping")))
        })
    }
}

impl Supervisor {
    pub(super) fn launch_helper(&mut self, wish: Wish) {
        let node = self.children.next_node();
        let leaf = self
            .tree
            .as_ref()
            .ok()
            .and_then(|tree| Leaf::create(&tree.leaf_path(&format!("h-{node}"))).ok());
        let made = helper_image(
            wish.owner,
            self.set.me,
            leaf.as_ref().map(|l| l.path().into()),
        );
        let (image, io) = match made {
            Ok(made) => made,
            Err(error) => {
                let _ = wish.reply.send(Err(error));
                return;
            }
        };
        self.helpers_starting.insert(node);
        let forker = self.forker.clone();
        self.spawn_inner(async move {
            let outcome = forker.start(image).await;
            Inner::HelperStarted(Box::new(Launched {
                node,
                outcome,
                leaf,
                io,
                reply: wish.reply,
            }))
        });
    }

    pub(super) fn helper_started(&mut self, launched: Launched) {
        let Launched {
            node,
            outcome,
            leaf,
            io,
            reply,
        } = launched;
        self.helpers_starting.remove(&node);
        let started = match outcome {
            Ok(started) => started,
            Err(error) => {
                if let Some(leaf) = leaf {
                    let _ = leaf.remove();
                }
                let _ = reply.send(Err(std::io::Error::other(error)));
                return;
            }
        };
        if let Err(error) = self.children.watch_helper(&started.process, node) {
            tracing::error!(%error, "cannot watch a probe helper");
        }
        self.helpers.insert(node, Helper { started, leaf });
        let inner = self.inner_in.clone();
        let kill = Box::new(move || {
            let _ = inner.send(Inner::HelperUnwanted(node));
        });
        let (stdin, stdout) = io;
        let _ = reply.send(Ok(HelperIo {
            stdin,
            stdout,
            kill,
        }));
    }

    pub(super) fn kill_helper(&mut self, node: NodeId) {
        // Still in the map means still unreaped, so its group id is its own.
        if let Some(helper) = self.helpers.get(&node) {
            helper.kill();
        }
    }

    pub(super) fn helper_ready(&mut self, node: NodeId) {
        if self.hook_ready(node) {
            return;
        }
        self.kill_helper(node);
        let Some(helper) = self.helpers.remove(&node) else {
            return;
        };
        self.children.unwatch_helper(&helper.started.process);
        let _ = wait::reap(std::os::fd::AsFd::as_fd(&helper.started.process));
        if let Some(leaf) = helper.leaf {
            self.remove_leaf(leaf, 0, crate::sys::clock::now());
        }
    }
}

/// Our own program as `musterd probe`, with an empty environment and two pipes.
fn helper_image(
    owner: Owner,
    me: Owner,
    leaf: Option<PathBuf>,
) -> std::io::Result<(Image, (OwnedFd, OwnedFd))> {
    let (their_in, our_out) = pipe_with(PipeFlags::CLOEXEC)?;
    let (our_in, their_out) = pipe_with(PipeFlags::CLOEXEC)?;
    for ours in [&our_in, &our_out] {
        rustix::io::ioctl_fionbio(ours, true)?;
    }
    let text = |s: &str| CString::new(s).map_err(std::io::Error::other);
    let image = Image {
        argv: vec![text("musterd")?, text("probe")?],
        candidates: vec![text("/proc/self/exe")?],
        cwd: Some(text("/")?),
        fds: vec![(their_in, 0), (their_out, 1)],
        ids: (owner != me && me.uid == 0).then(|| Ids {
            uid: owner.uid,
            gid: owner.gid,
            groups: Vec::new(),
        }),
        leaf,
        umask: Some(0o077),
        pdeathsig: true,
        ..Image::default()
    };
    Ok((image, (our_out, our_in)))
}
