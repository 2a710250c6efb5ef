//! Processes of the daemon itself: probe helpers that run under an owner's ids. They are in no
//! row; their exits come to the same loop as everybody's.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::{mpsc, oneshot};

use super::{Inner, Supervisor};
use crate::gc::worktree::{HelperIo, HelperLauncher, Later};
use crate::sys::cgroup::Leaf;
use crate::sys::process::signal_group;
use crate::sys::spawn::{Ids, Image, SpawnError, Started};
use crate::sys::{clock, wait};
use crate::worker::{Exit, NodeId, Owner, Pid};

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
        let leaf = self.helper_leaf(&format!("h-{node}"));
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
        match self.take_in(node, outcome, leaf) {
            Ok(helper) => self.helpers.insert(node, helper),
            Err(why) => {
                let _ = reply.send(Err(std::io::Error::other(why)));
                return;
            }
        };
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
        if let Some(helper) = self.helpers.remove(&node) {
            self.put_out(helper);
        }
    }

    /// A leaf for a process of the daemon itself; without one it runs in the daemon's own.
    pub(super) fn helper_leaf(&self, name: &str) -> Option<Leaf> {
        let tree = self.tree.as_ref().ok()?;
        match Leaf::create(&tree.leaf_path(name)) {
            Ok(leaf) => Some(leaf),
            Err(error) => {
                tracing::warn!(%error, leaf = name, "cannot make a leaf for a helper");
                None
            }
        }
    }

    /// Watches what was forked. If it was not, or cannot be watched, the answer says why.
    pub(super) fn take_in(
        &mut self,
        node: NodeId,
        outcome: Result<Started, SpawnError>,
        leaf: Option<Leaf>,
    ) -> Result<Helper, String> {
        let (leaf, why) = match outcome {
            Ok(started) => {
                let helper = Helper { started, leaf };
                match self.children.watch_helper(&helper.started.process, node) {
                    Ok(()) => return Ok(helper),
                    Err(error) => {
                        helper.kill();
                        (helper.leaf, format!("cannot be watched: {error}"))
                    }
                }
            }
            Err(error) => (leaf, error.to_string()),
        };
        if let Some(leaf) = leaf {
            self.remove_leaf(leaf, 0, clock::now());
        }
        Err(why)
    }

    /// It has ended: what it started ends too. Answers its exit.
    pub(super) fn put_out(&mut self, helper: Helper) -> Option<Exit> {
        helper.kill();
        self.children.unwatch_helper(&helper.started.process);
        let exit = wait::reap(helper.started.process.as_fd());
        if let Some(leaf) = helper.leaf {
            self.remove_leaf(leaf, 0, clock::now());
        }
        exit.ok().flatten()
    }

    /// Is this a helper or a stop hook? Neither is a stranger.
    pub(super) fn is_helper(&self, pid: Pid) -> bool {
        let hooks = self.hooks.values().filter_map(|hook| hook.running.as_ref());
        hooks
            .chain(self.helpers.values())
            .any(|helper| helper.started.process.id().pid == pid)
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
