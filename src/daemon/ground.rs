//! What must be there before the loop begins: the directories, their lock, the control groups,
//! the roll as it was left.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::again;
use super::dirs::{clear_runtime, directories, private_dir};
use super::options::Options;
use crate::config::{Cgroup, Config};
use crate::error::Fault;
use crate::log::id;
use crate::registry::Registry;
use crate::registry::store::Store;
use crate::service_event;
use crate::supervisor::Settings;
use crate::supervisor::handover::Handover;
use crate::supervisor::reconcile::{Reconciled, reconcile};
use crate::supervisor::unrecorded::end_unrecorded;
use crate::sys::cgroup::{self, Choice, Tree};
use crate::sys::guardian::DaemonSide;
use crate::sys::lock::{LockError, StateLock, acquire};
use crate::sys::privilege::{self, Privileges};
use crate::sys::{process, reexec, systemd};
use crate::worker::Owner;

/// What the main thread has brought up when the loop begins.
pub(super) struct Ground {
    pub(super) set: Settings,
    pub(super) store: Arc<Store>,
    pub(super) registry: Registry,
    pub(super) tree: Result<Tree, String>,
    pub(super) prefix: String,
    pub(super) quarantined: u32,
    pub(super) degraded: Vec<String>,
    pub(super) clock: Option<i64>,
    pub(super) lock: StateLock,
    pub(super) before: Option<Handover>,
    pub(super) image: OwnedFd,
    /// The socket that the service manager passed.
    pub(super) listener: Option<UnixListener>,
}

impl Ground {
    /// Directories, lock, control groups, the roll as it is.
    pub(super) fn lay(
        options: &Options,
        config: Config,
        privileges: Privileges,
        guardian: Option<&DaemonSide>,
        before: Option<Handover>,
    ) -> Result<Self, Fault> {
        let me = Owner {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        let (state_dir, runtime_dir) = directories(options)?;
        // Users get through to what is theirs below, and see no other's.
        let open = privileges.other_ids && !options.is_user();
        let through = if open { 0o711 } else { 0o700 };
        private_dir(&state_dir, me, through)?;
        private_dir(&state_dir.join("output"), me, through)?;
        private_dir(&runtime_dir, me, through)?;
        let (lock, store) = locked(&state_dir, before.as_ref())?;
        let store = Arc::new(store);
        privilege::become_subreaper()
            .map_err(|e| Fault::Other(format!("cannot become a subreaper: {e}")))?;
        let raised = privilege::raise_nofile();
        let prefix = run_prefix(&state_dir, me);
        let tree = match before.as_ref().map(|before| before.tree.clone()) {
            Some(tree) => tree.map(|root| Tree::reopen(&root)),
            None => own_tree(&choice(&config), &format!("{prefix}{}", own_mark())),
        };
        tell_of(&tree, guardian)?;
        let mut degraded = Vec::new();
        let (registry, quarantined) = load(&store, &mut degraded)?;
        if before.is_none() {
            clear_runtime(&runtime_dir, me, privileges)?;
        }
        let idle = options.idle_exit.unwrap_or(config.service.idle_exit);
        let set = Settings {
            socket: socket(options, before.as_ref(), &runtime_dir),
            state_dir,
            runtime_dir,
            me,
            privileges,
            watchdog: systemd::watchdog(),
            system: !options.is_user(),
            journal: None,
            idle_exit: (!idle.is_zero()).then_some(idle),
            nofile: match &before {
                Some(before) => before.nofile,
                None => Some((raised.soft, raised.hard)),
            },
            generation: before.as_ref().map_or(1, |before| before.generation + 1),
            again: again::again(None),
            config,
        };
        Ok(Self {
            clock: clock_of_this_boot(&store),
            set,
            store,
            registry,
            tree,
            prefix,
            quarantined,
            degraded,
            lock,
            before,
            image: reexec::own_image().map_err(Fault::io("open", "/proc/self/exe"))?,
            listener: None,
        })
    }

    /// What the last life of this daemon left behind is ended, and its rows say so.
    pub(super) fn reconcile(&mut self) -> Reconciled {
        if self.before.is_some() {
            return Reconciled::default();
        }
        let mut found = reconcile(&mut self.registry);
        self.degraded.append(&mut found.errors);
        self.end_lost_workers();
        if let Ok(tree) = &self.tree {
            end_old_runs(tree, &self.prefix);
        }
        found
    }

    /// What the last daemon had started and not yet written down.
    fn end_lost_workers(&mut self) {
        let (registry, runtime) = (&self.registry, &self.set.runtime_dir);
        let ended = self.store.list_reaped().map(|mut reaped| {
            reaped.sort_unstable();
            let known = |id| registry.get(id).is_some() || reaped.binary_search(&id).is_ok();
            end_unrecorded(known, runtime)
        });
        match ended {
            Ok(Ok(ended)) => {
                for sentence in ended {
                    tracing::warn!("{sentence}");
                }
            }
            Ok(Err(error)) => self.degraded.push(format!("cannot read /proc: {error}")),
            Err(error) => self.degraded.push(error.to_string()),
        }
    }
}

/// A start may only touch the directory under its lock: another daemon may be at work in it.
/// Where the lock came with the execution, what can fail is done before it is taken over.
fn locked(state_dir: &Path, before: Option<&Handover>) -> Result<(StateLock, Store), Fault> {
    match before {
        Some(before) => {
            let store = Store::open(state_dir)?;
            Ok((StateLock::handed_over(again::taken(before.lock)?), store))
        }
        None => {
            let lock = acquire(state_dir).map_err(|e| lock_fault(e, state_dir))?;
            Ok((lock, Store::open(state_dir)?))
        }
    }
}

fn choice(config: &Config) -> Choice {
    match &config.containment.cgroup {
        Cgroup::Auto => Choice::Auto,
        Cgroup::None => Choice::None,
        Cgroup::Path(path) => Choice::Path(path.clone()),
    }
}

/// The guardian strikes the tree when we die; the log says where there is none.
fn tell_of(tree: &Result<Tree, String>, guardian: Option<&DaemonSide>) -> Result<(), Fault> {
    match (tree, guardian) {
        (Ok(tree), Some(side)) => side
            .tell_tree(tree.root())
            .map_err(|e| Fault::Other(format!("cannot tell the guardian: {e}"))),
        (Ok(_), None) => Ok(()),
        (Err(why), _) => {
            service_event!(WARN, id::CONTAINMENT_WEAK, "containment is weaker: {why}");
            Ok(())
        }
    }
}

fn socket(options: &Options, before: Option<&Handover>, runtime_dir: &Path) -> PathBuf {
    before
        .and_then(|before| before.socket_path.clone())
        .or_else(|| options.socket.clone())
        .unwrap_or_else(|| runtime_dir.join("sock"))
}

/// Wall clock minus boot-time clock as last written down, if that was in this boot.
fn clock_of_this_boot(store: &Store) -> Option<i64> {
    store
        .read_clock()
        .filter(|mark| process::boot_id().is_ok_and(|boot| boot == mark.boot_id))
        .map(|mark| mark.wall_minus_boot_usec)
}

fn own_tree(choice: &Choice, name: &str) -> Result<Tree, String> {
    let mut tree = Tree::find(choice, name).map_err(|weaker| weaker.to_string())?;
    match tree.enter() {
        Ok(()) => Ok(tree),
        Err(error) => {
            let why = format!("cannot enter {}: {error}", tree.root().display());
            let _ = tree.remove();
            Err(why)
        }
    }
}

/// What a life of this daemon left in the hierarchy when nobody cleaned up after it.
fn end_old_runs(tree: &Tree, prefix: &str) {
    for old in cgroup::leftovers_of_old_runs(tree.parent(), prefix) {
        if old != tree.root() {
            let _ = cgroup::kill(&old);
            let _ = cgroup::remove(&old);
        }
    }
}

fn lock_fault(error: LockError, dir: &Path) -> Fault {
    match error {
        LockError::Held { pid: Some(pid), .. } => Fault::AlreadyRunning {
            dir: dir.to_owned(),
            pid,
        },
        LockError::Io { path, source } => Fault::io("lock", path)(source),
        held => Fault::Other(held.to_string()),
    }
}

/// Names the trees of one state directory, whoever serves it.
fn run_prefix(state_dir: &Path, me: Owner) -> String {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    state_dir.hash(&mut hasher);
    format!("{}-{:08x}-", me.uid, hasher.finish() & 0xffff_ffff)
}

/// Names one life of the daemon: a guardian that is late must not strike the next one's workers.
fn own_mark() -> String {
    format!(
        "{}-{:x}",
        std::process::id(),
        crate::sys::clock::now().boot.0
    )
}

fn load(store: &Store, degraded: &mut Vec<String>) -> Result<(Registry, u32), Fault> {
    let loaded = store.load()?;
    for file in &loaded.quarantined {
        let (name, why) = (&file.name, &file.why);
        service_event!(
            ERROR,
            id::ROW_QUARANTINED,
            "row file {name} cannot be read and was moved to quarantine: {why}"
        );
        degraded.push(format!("quarantined {name}: {why}"));
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let mut registry = Registry::new();
    for row in loaded.rows {
        if let Err(row) = registry.insert_loaded(row) {
            degraded.push(format!("row {} is there twice", row.id));
        }
    }
    let quarantined = store.quarantined().map_or(0, |names| names.len());
    Ok((registry, u32::try_from(quarantined).unwrap_or(u32::MAX)))
}
