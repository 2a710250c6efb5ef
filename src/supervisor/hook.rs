//! Stop hooks: a command of a worker's owner, run when nothing of the worker is left, for what
//! a cgroup cannot reach (a container, a remote job). Owner's ids, a leaf of its own, a time
//! limit; the row is settled after it (section 7).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use super::helper::Helper;
use super::timers::Key;
use super::{Inner, Settings, Supervisor};
use crate::sys::cgroup::Leaf;
use crate::sys::spawn::{Image, SpawnError, Started, search};
use crate::sys::{clock, wait};
use crate::worker::{Exit, NodeId, Now, Row};

/// A worker whose hook is under way.
#[derive(Debug, Default)]
pub(super) struct Hook {
    /// The process, once it is forked.
    running: Option<Helper>,
    /// Time was up.
    late: bool,
}

/// A hook that was forked, or was not.
#[derive(Debug)]
pub(super) struct HookStarted {
    node: NodeId,
    outcome: Result<Started, SpawnError>,
    leaf: Option<Leaf>,
}

impl Supervisor {
    /// Starts the hook of an ended worker. `false`: it has none, or it cannot be started.
    pub(super) fn start_hook(&mut self, node: NodeId, now: Now) -> bool {
        let Some(row) = self
            .children
            .get(node)
            .and_then(|c| self.registry.get(c.id))
        else {
            return false;
        };
        if row.ending.stop_hook.is_empty() {
            return false;
        }
        let leaf = self
            .tree
            .as_ref()
            .ok()
            .and_then(|tree| Leaf::create(&tree.leaf_path(&format!("k-{}", row.id))).ok());
        let image = match hook_image(row, &self.set, leaf.as_ref()) {
            Ok(image) => image,
            Err(error) => {
                self.hook_note(node, format!("stop hook: {error}"));
                return false;
            }
        };
        self.hooks.insert(node, Hook::default());
        self.helpers_starting.insert(node);
        let until = now.mono.plus(self.set.config.ladder.stop_hook_timeout);
        self.timers.set(Key::Hook(node), Some(until));
        let forker = self.forker.clone();
        self.spawn_inner(async move {
            let outcome = forker.start(image).await;
            Inner::HookStarted(Box::new(HookStarted {
                node,
                outcome,
                leaf,
            }))
        });
        true
    }

    pub(super) fn hook_started(&mut self, started: HookStarted) {
        let HookStarted {
            node,
            outcome,
            leaf,
        } = started;
        self.helpers_starting.remove(&node);
        match outcome {
            Ok(started) => {
                if let Err(error) = self.children.watch_helper(&started.process, node) {
                    tracing::error!(%error, "cannot watch a stop hook");
                }
                let late = self.hooks.get(&node).is_some_and(|hook| hook.late);
                if let Some(hook) = self.hooks.get_mut(&node) {
                    hook.running = Some(Helper {
                        started,
                        leaf,
                        clears: None,
                    });
                }
                if late {
                    self.hook_late(node);
                }
            }
            Err(error) => {
                if let Some(leaf) = leaf {
                    let _ = leaf.remove();
                }
                self.hook_note(node, format!("stop hook: {error}"));
                self.hook_done(node);
            }
        }
    }

    /// Time is up: the hook and all it started are killed.
    pub(super) fn hook_late(&mut self, node: NodeId) {
        let Some(hook) = self.hooks.get_mut(&node) else {
            return;
        };
        hook.late = true;
        if let Some(helper) = &hook.running {
            helper.kill();
        }
    }

    /// Does a ready process belong to a hook? Then the worker is settled now.
    pub(super) fn hook_ready(&mut self, node: NodeId) -> bool {
        let Some(hook) = self.hooks.get_mut(&node) else {
            return false;
        };
        let (Some(helper), late) = (hook.running.take(), hook.late) else {
            return false;
        };
        helper.kill();
        self.children.unwatch_helper(&helper.started.process);
        let exit = wait::reap(std::os::fd::AsFd::as_fd(&helper.started.process))
            .ok()
            .flatten();
        if let Some(leaf) = helper.leaf {
            self.remove_leaf(leaf, 0, clock::now());
        }
        let failed = match exit {
            _ if late => Some("took too long and was killed".to_owned()),
            Some(Exit::Code(0)) => None,
            Some(Exit::Code(code)) => Some(format!("exited with code {code}")),
            Some(Exit::Signal(signal)) => Some(format!("was ended by signal {signal}")),
            None => Some("its end is not known".to_owned()),
        };
        if let Some(failed) = failed {
            self.hook_note(node, format!("stop hook: {failed}"));
        }
        self.hook_done(node);
        true
    }

    fn hook_done(&mut self, node: NodeId) {
        self.hooks.remove(&node);
        self.timers.set(Key::Hook(node), None);
        self.settle_child(node, clock::now());
    }

    fn hook_note(&mut self, node: NodeId, note: String) {
        if let Some(child) = self.children.get(node) {
            tracing::warn!(
                MUSTER_WORKER = child.id.as_str(),
                "worker {}: {note}",
                child.id
            );
            let _ = self.registry.update(child.id, |row| row.note = Some(note));
        }
    }
}

fn hook_image(row: &Row, set: &Settings, leaf: Option<&Leaf>) -> std::io::Result<Image> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(std::io::Error::other);
    let argv = row
        .ending
        .stop_hook
        .iter()
        .map(|arg| text(arg.as_bytes()))
        .collect::<Result<Vec<_>, _>>()?;
    let variable = |name: &str, value: &[u8]| text(&[name.as_bytes(), b"=", value].concat());
    // The worker's own environment may hold secrets and was never kept.
    let env = vec![
        variable("PATH", b"/usr/local/bin:/usr/bin:/bin")?,
        variable("MUSTER_WORKER", row.id.as_str().as_bytes())?,
        variable("MUSTER_NAME", row.name.as_bytes())?,
        variable(
            "MUSTER_RUNTIME_DIR",
            set.runtime_dir
                .join("w")
                .join(row.id.as_str())
                .as_os_str()
                .as_bytes(),
        )?,
    ];
    let candidates = argv
        .first()
        .map(|program| search(program, &env))
        .unwrap_or_default();
    Ok(Image {
        candidates,
        cwd: Some(text(row.cwd.as_os_str().as_bytes())?),
        ids: set.ids_of(row.owner, Vec::new()),
        drop_bounding: set.privileges.drop_bounding,
        leaf: leaf.map(|leaf| leaf.path().to_owned()),
        umask: Some(0o022),
        pdeathsig: true,
        argv,
        env,
        ..Image::default()
    })
}
