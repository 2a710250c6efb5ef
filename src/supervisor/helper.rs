//! Processes of the daemon itself that run under an owner's ids: probes, and what clears a
//! worker's directory. They are in no row; their exits come to the same loop as everybody's.

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
use crate::sys::{clock, dirs, wait};
use crate::worker::{Exit, NodeId, Owner, Pid};

/// A running helper.
#[derive(Debug)]
pub(super) struct Helper {
    pub started: Started,
    pub leaf: Option<Leaf>,
    /// A directory that it clears, to be removed after it.
    pub clears: Option<PathBuf>,
    /// A sweep's probe: the next sweep asks again, so a reload need not wait for it.
    pub for_sweep: bool,
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
    groups: Vec<u32>,
    for_sweep: bool,
    reply: oneshot::Sender<std::io::Result<HelperIo>>,
}

/// A helper that was forked, or was not.
#[derive(Debug)]
pub(super) struct Launched {
    node: NodeId,
    outcome: Result<Started, SpawnError>,
    leaf: Option<Leaf>,
    purpose: Purpose,
}

/// What a helper is for.
#[derive(Debug)]
enum Purpose {
    Probe {
        io: Pair,
        for_sweep: bool,
        reply: oneshot::Sender<std::io::Result<HelperIo>>,
    },
    Clear(PathBuf),
}

/// What the collector is given to start helpers with.
#[derive(Debug)]
pub(super) struct Launcher {
    inner: mpsc::UnboundedSender<Inner>,
    /// Supplementary groups, where they are known.
    groups: Vec<u32>,
    for_sweep: bool,
}

impl HelperLauncher for Launcher {
    fn launch(&self, owner: Owner) -> Later<std::io::Result<HelperIo>> {
        let (reply, answer) = oneshot::channel();
        let groups = self.groups.clone();
        let wish = Wish {
            owner,
            groups,
            for_sweep: self.for_sweep,
            reply,
        };
        let sent = self.inner.send(Inner::HelperWanted(wish));
        Box::pin(async move {
            sent.map_err(|_| std::io::Error::other("the service is stopping"))?;
            answer
                .await
                .unwrap_or_else(|_| Err(std::io::Error::other("the service is stopping")))
        })
    }
}

impl Supervisor {
    /// Starts helpers of a spawn with an owner's ids and these supplementary groups.
    pub(super) fn launcher(&self, groups: Vec<u32>) -> Launcher {
        Launcher {
            inner: self.inner_in.clone(),
            groups,
            for_sweep: false,
        }
    }

    /// Starts helpers of a sweep.
    pub(super) fn sweep_launcher(&self) -> Launcher {
        Launcher {
            for_sweep: true,
            ..self.launcher(Vec::new())
        }
    }

    pub(super) fn launch_helper(&mut self, wish: Wish) {
        let made = probe_pipes().and_then(|(theirs, ours)| {
            let (stdin, stdout) = theirs;
            let ids = self.set.ids_of(wish.owner, wish.groups);
            let image = self.helper_image(&["probe"], vec![(stdin, 0), (stdout, 1)], ids)?;
            Ok((image, ours))
        });
        match made {
            Ok((image, io)) => {
                let (for_sweep, reply) = (wish.for_sweep, wish.reply);
                let purpose = Purpose::Probe {
                    io,
                    for_sweep,
                    reply,
                };
                self.fork_helper(image, purpose);
            }
            Err(error) => {
                let _ = wish.reply.send(Err(error));
            }
        }
    }

    /// Removes a worker's runtime directory; what is in it, as its owner, who alone may.
    pub(super) fn remove_runtime_dir(&mut self, owner: Owner, dir: PathBuf) {
        let failed = |dir: &std::path::Path, error: std::io::Error| {
            tracing::warn!(dir = %dir.display(), %error, "cannot remove a worker's directory");
        };
        let Some(ids) = self.set.ids_of(owner, Vec::new()) else {
            tokio::task::spawn_blocking(move || {
                if let Err(error) = dirs::remove_all(&dir) {
                    failed(&dir, error);
                }
            });
            return;
        };
        self.spawn_inner(async move {
            // Mostly nothing was put there.
            let removed = tokio::task::spawn_blocking({
                let dir = dir.clone();
                move || std::fs::remove_dir(dir)
            });
            match removed.await {
                Ok(Ok(())) => Inner::Cleared,
                _ => Inner::ClearWanted(ids, dir),
            }
        });
    }

    pub(super) fn clear_dir(&mut self, ids: Ids, dir: PathBuf) {
        let shown = dir.to_string_lossy().into_owned();
        match self.helper_image(&["clear", &shown], Vec::new(), Some(ids)) {
            Ok(image) => self.fork_helper(image, Purpose::Clear(dir)),
            Err(error) => tracing::warn!(%error, dir = shown, "cannot clear"),
        }
    }

    fn fork_helper(&mut self, mut image: Image, purpose: Purpose) {
        let node = self.children.next_node();
        let leaf = self.helper_leaf(&format!("h-{node}"));
        image.leaf = leaf.as_ref().map(|leaf| leaf.path().to_owned());
        self.helpers_starting.insert(node);
        let forker = self.forker.clone();
        self.spawn_inner(async move {
            let outcome = forker.start(image).await;
            Inner::HelperStarted(Box::new(Launched {
                node,
                outcome,
                leaf,
                purpose,
            }))
        });
    }

    pub(super) fn helper_started(&mut self, launched: Launched) {
        let Launched {
            node,
            outcome,
            leaf,
            purpose,
        } = launched;
        self.helpers_starting.remove(&node);
        let taken = self.take_in(node, outcome, leaf);
        match (taken, purpose) {
            (
                Ok(mut helper),
                Purpose::Probe {
                    io,
                    for_sweep,
                    reply,
                },
            ) => {
                helper.for_sweep = for_sweep;
                if for_sweep && self.is_reloading() {
                    helper.kill();
                }
                self.helpers.insert(node, helper);
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
            (Ok(mut helper), Purpose::Clear(dir)) => {
                helper.clears = Some(dir);
                self.helpers.insert(node, helper);
            }
            (Err(why), Purpose::Probe { reply, .. }) => {
                let _ = reply.send(Err(std::io::Error::other(why)));
            }
            (Err(why), Purpose::Clear(dir)) => {
                tracing::warn!(why, dir = %dir.display(), "cannot clear");
            }
        }
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
                let helper = Helper {
                    started,
                    leaf,
                    clears: None,
                    for_sweep: false,
                };
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
        if let Some(dir) = helper.clears.clone() {
            tokio::task::spawn_blocking(move || {
                if let Err(error) = std::fs::remove_dir(&dir) {
                    tracing::warn!(%error, dir = %dir.display(), "cannot remove");
                }
            });
        }
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

    /// Our own program with an empty environment, under these ids.
    fn helper_image(
        &self,
        args: &[&str],
        fds: Vec<(OwnedFd, i32)>,
        ids: Option<Ids>,
    ) -> std::io::Result<Image> {
        let text = |s: &str| CString::new(s).map_err(std::io::Error::other);
        let argv = std::iter::once(&"musterd").chain(args);
        Ok(Image {
            argv: argv.map(|arg| text(arg)).collect::<Result<_, _>>()?,
            candidates: vec![text("/proc/self/exe")?],
            cwd: Some(text("/")?),
            fds,
            ids,
            drop_bounding: self.set.privileges.drop_bounding,
            umask: Some(0o077),
            pdeathsig: true,
            ..Image::default()
        })
    }
}

type Pair = (OwnedFd, OwnedFd);

/// Two pipes: the helper's input and output, then our ends of them.
fn probe_pipes() -> std::io::Result<(Pair, Pair)> {
    let (their_in, our_out) = pipe_with(PipeFlags::CLOEXEC)?;
    let (our_in, their_out) = pipe_with(PipeFlags::CLOEXEC)?;
    for ours in [&our_in, &our_out] {
        rustix::io::ioctl_fionbio(ours, true)?;
    }
    Ok(((their_in, their_out), (our_out, our_in)))
}

/// The body of `musterd clear DIR`: removes what lies in a worker's runtime directory. Runs
/// under the owner's ids, so it can do no more than the owner.
pub fn clear_main() -> std::process::ExitCode {
    let Some(dir) = std::env::args_os().nth(2) else {
        return crate::error::exit::USAGE.into();
    };
    match dirs::clear(std::path::Path::new(&dir)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(_) => std::process::ExitCode::FAILURE,
    }
}
