//! Stop hooks: a command of a worker's owner, run when nothing of the worker is left, for what
//! a cgroup cannot reach (a container, a remote job). Owner's ids, a leaf of its own, a time
//! limit; the row is settled after it (section 7).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use super::handle::Change;
use super::helper::Helper;
use super::timers::Key;
use super::{Inner, Settings, Supervisor};
use crate::sys::cgroup::Leaf;
use crate::sys::spawn::{Image, SpawnError, Started, search};
use crate::worker::{Exit, NodeId, Now, Row, Status, WorkerId};

/// A worker whose hook is under way.
#[derive(Debug)]
pub(super) struct Hook {
    /// When nothing of the worker was left.
    ended: Now,
    /// The process, once it is forked.
    pub running: Option<Helper>,
    /// Why we killed it, if we did.
    killed: Option<&'static str>,
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
        let leaf = self.helper_leaf(&hook_leaf(row.id));
        let image = match hook_image(row, &self.set, leaf.as_ref()) {
            Ok(image) => image,
            Err(error) => {
                if let Some(leaf) = leaf {
                    self.remove_leaf(leaf, 0, now);
                }
                self.hook_note(node, &error.to_string());
                return false;
            }
        };
        let hook = Hook {
            ended: now,
            running: None,
            killed: None,
        };
        self.hooks.insert(node, hook);
        let id = row.id;
        if row.status == Status::Live {
            let _ = self
                .registry
                .update(id, |row| row.status = Status::Stopping);
            self.save_lazily(id, now);
        }
        let _ = self.changes.send(Change::Changed(id));
        self.answer_cancels(node);
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
        match self.take_in(node, outcome, leaf) {
            Ok(helper) => {
                let Some(hook) = self.hooks.get_mut(&node) else {
                    return helper.kill();
                };
                if hook.killed.is_some() {
                    helper.kill();
                }
                hook.running = Some(helper);
            }
            Err(why) => {
                self.hook_note(node, &why);
                self.hook_done(node);
            }
        }
    }

    /// The hook and all it started are killed; `why` goes into the row.
    pub(super) fn end_hook(&mut self, node: NodeId, why: &'static str) {
        let Some(hook) = self.hooks.get_mut(&node) else {
            return;
        };
        hook.killed.get_or_insert(why);
        if let Some(helper) = &hook.running {
            helper.kill();
        }
    }

    pub(super) fn end_hooks(&mut self, why: &'static str) {
        let nodes: Vec<NodeId> = self.hooks.keys().copied().collect();
        for node in nodes {
            self.end_hook(node, why);
        }
    }

    /// Does a ready process belong to a hook? Then the worker is settled now.
    pub(super) fn hook_ready(&mut self, node: NodeId) -> bool {
        let Some(hook) = self.hooks.get_mut(&node) else {
            return false;
        };
        let killed = hook.killed;
        let Some(helper) = hook.running.take() else {
            return false;
        };
        let failed = match (killed, self.put_out(helper)) {
            (Some(why), _) => why.to_owned(),
            (None, Some(Exit::Code(0))) => String::new(),
            (None, Some(Exit::Code(code))) => format!("exited with code {code}"),
            (None, Some(Exit::Signal(signal))) => format!("was ended by signal {signal}"),
            (None, None) => "its end is not known".to_owned(),
        };
        if !failed.is_empty() {
            self.hook_note(node, &failed);
        }
        self.hook_done(node);
        true
    }

    fn hook_done(&mut self, node: NodeId) {
        self.timers.set(Key::Hook(node), None);
        if let Some(hook) = self.hooks.remove(&node) {
            self.settle_child(node, hook.ended);
        }
        self.reload_without_hooks();
    }

    fn hook_note(&mut self, node: NodeId, what: &str) {
        let note = format!("stop hook: {what}");
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

/// Name of the leaf that the hook of a worker runs in.
pub(super) fn hook_leaf(id: WorkerId) -> String {
    format!("k-{id}")
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
