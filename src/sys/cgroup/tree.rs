//! The part of the hierarchy that is ours:
//! `<root>/supervisor` for the daemon, `<root>/workers/<leaf>` for each worker, so that one
//! write to `<root>/workers/cgroup.kill` ends them all and no inner group has processes.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::{Leaf, Removed, leaf, mount, read, write};

/// Where leaves are to be made (`containment.cgroup`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Choice {
    /// The delegated unit; without systemd, our own cgroup.
    #[default]
    Auto,
    /// Nowhere.
    None,
    /// Under this directory.
    Path(PathBuf),
}

/// Why there are no leaves, in words: containment is weaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weaker(pub String);

impl fmt::Display for Weaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const SUPERVISOR: &str = "supervisor";
const WORKERS: &str = "workers";
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// A subtree that the daemon may write to.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// Made by us under another's group, hence removed with us.
    embedded: bool,
    controllers: Vec<String>,
    /// The cgroup of the workers' directory, as the kernel names it.
    rel: Option<PathBuf>,
}

/// What [`Choice::Auto`] comes to.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// The unit's own directory.
    Unit(PathBuf),
    /// A directory of our own below this one.
    Below(PathBuf),
}

impl Tree {
    /// Finds the place and makes the directories. `run_name` is unique to this life of the
    /// daemon; it names the tree where that is not the unit itself.
    pub fn find(choice: &Choice, run_name: &str) -> Result<Self, Weaker> {
        let place = match choice {
            Choice::None => return Err(Weaker("switched off in the configuration".into())),
            Choice::Path(path) => chosen(path)?,
            Choice::Auto => automatic()?,
        };
        let (root, embedded) = match place {
            Place::Unit(unit) => (unit, false),
            Place::Below(parent) => (parent.join(embedded_name(run_name)), true),
        };
        let mut tree = Self {
            root,
            embedded,
            controllers: Vec::new(),
            rel: None,
        };
        tree.make().map_err(|e| {
            let _ = tree.remove_empty();
            Weaker(format!(
                "cannot make cgroups in {}: {e}",
                tree.root.display()
            ))
        })?;
        tree.rel = mount::cgroup_of(&tree.workers());
        Ok(tree)
    }

    /// The tree of the image before, which the daemon sits in already.
    pub fn reopen(root: &Path) -> Self {
        let embedded = root
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&embedded_name("")));
        let mut tree = Self {
            root: root.to_owned(),
            embedded,
            controllers: Vec::new(),
            rel: None,
        };
        tree.rel = mount::cgroup_of(&tree.workers());
        tree.note_controllers();
        tree
    }

    fn note_controllers(&mut self) {
        let enabled = read(&self.workers(), "cgroup.subtree_control").unwrap_or_default();
        self.controllers = enabled
            .split_ascii_whitespace()
            .map(str::to_owned)
            .collect();
    }

    fn make(&self) -> io::Result<()> {
        for directory in [
            self.root.clone(),
            self.root.join(SUPERVISOR),
            self.workers(),
        ] {
            match std::fs::create_dir(&directory) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                other => other?,
            }
        }
        // Who moves a process must be able to write in the common ancestor of both groups.
        for directory in [self.root.as_path(), self.parent()] {
            if self.embedded || directory == self.root {
                File::options()
                    .write(true)
                    .open(directory.join("cgroup.procs"))?;
            }
        }
        Ok(())
    }

    /// Moves the daemon into its own leaf and hands controllers down as far as they go.
    pub fn enter(&mut self) -> io::Result<()> {
        write(&self.root.join(SUPERVISOR), "cgroup.procs", "0")?;
        let workers = self.workers();
        let mut chain = vec![self.root.as_path(), workers.as_path()];
        if self.embedded {
            chain.insert(0, self.parent());
        }
        for directory in chain {
            for controller in CONTROLLERS {
                // Refused while others' processes sit in an inner group: then less is enforced.
                let _ = enable(directory, controller);
            }
        }
        self.note_controllers();
        Ok(())
    }

    /// Makes a leaf. One of that name that has no process in it is taken over.
    pub fn leaf(&self, name: &str) -> io::Result<Leaf> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0', '\n']) {
            let what = format!("{name:?} cannot name a cgroup");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let leaf = Leaf::at(self.workers().join(name));
        match std::fs::create_dir(leaf.path()) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && !leaf.populated()? => Ok(leaf),
            Err(e) => Err(e),
            Ok(()) => Ok(leaf),
        }
    }

    /// Where a leaf of this name lies, made or not.
    pub fn leaf_path(&self, name: &str) -> PathBuf {
        self.workers().join(name)
    }

    /// The name of the leaf that a cgroup ([`super::of_process`]) lies in, if it is one of ours.
    pub fn leaf_name_of(&self, cgroup: &Path) -> Option<String> {
        let below = cgroup.strip_prefix(self.rel.as_ref()?).ok()?;
        Some(below.components().next()?.as_os_str().to_str()?.to_owned())
    }

    /// Its top group, as the kernel names it.
    pub fn root_cgroup(&self) -> Option<PathBuf> {
        self.rel.as_ref()?.parent().map(Path::to_owned)
    }

    /// Its top directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of all leaves.
    pub fn workers(&self) -> PathBuf {
        self.root.join(WORKERS)
    }

    /// Where trees of earlier runs would be, see [`super::leftovers_of_old_runs`].
    pub fn parent(&self) -> &Path {
        self.root.parent().unwrap_or(&self.root)
    }

    /// Was it made below a group that is not the daemon's own? Then it goes with the daemon.
    pub fn is_embedded(&self) -> bool {
        self.embedded
    }

    /// `some avg10` of `memory` or `cpu` in its `*.pressure` file, in hundredths of a percent;
    /// `None` without pressure accounting in the kernel (Documentation/accounting/psi.rst).
    pub fn pressure(&self, what: &str) -> Option<u32> {
        let text = read(&self.root, &format!("{what}.pressure")).ok()?;
        some_avg10(&text)
    }

    /// Controllers that the leaves have; known after [`Tree::enter`].
    pub fn controllers(&self) -> &[String] {
        &self.controllers
    }

    /// The leaves that exist, whoever made them.
    pub fn leaves(&self) -> io::Result<Vec<Leaf>> {
        let mut leaves = Vec::new();
        for entry in std::fs::read_dir(self.workers())? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                leaves.push(Leaf::at(entry.path()));
            }
        }
        Ok(leaves)
    }

    /// SIGKILL to every process of every worker.
    pub fn kill_all(&self) -> io::Result<()> {
        leaf::kill(&self.workers())
    }

    /// Removes what is empty. The daemon's own leaf stays while it sits in it; an embedded tree
    /// is finally removed by the guardian or by the next start.
    pub fn remove(self) -> io::Result<Removed> {
        self.remove_empty()
    }

    fn remove_empty(&self) -> io::Result<Removed> {
        let workers = leaf::remove(&self.workers())?;
        if self.embedded {
            leaf::remove(&self.root)
        } else {
            Ok(workers)
        }
    }
}

/// The name of a tree under a group that is not the daemon's own.
pub(super) fn embedded_name(run_name: &str) -> String {
    format!("musterd-{run_name}")
}

/// The directory to kill when the daemon of this tree is dead.
pub(in crate::sys) fn workers_of(root: &Path) -> PathBuf {
    root.join(WORKERS)
}

fn enable(directory: &Path, controller: &str) -> io::Result<()> {
    let has = |file| {
        read(directory, file)
            .is_ok_and(|text| text.split_ascii_whitespace().any(|name| name == controller))
    };
    if has("cgroup.controllers") && !has("cgroup.subtree_control") {
        write(
            directory,
            "cgroup.subtree_control",
            &format!("+{controller}"),
        )?;
    }
    Ok(())
}

fn chosen(path: &Path) -> Result<Place, Weaker> {
    let shown = path.display();
    let real = path
        .canonicalize()
        .map_err(|e| Weaker(format!("containment.cgroup {shown}: {e}")))?;
    if mount::is_cgroup2(&real) {
        Ok(Place::Below(real))
    } else {
        Err(Weaker(format!(
            "containment.cgroup {shown} is not in a cgroup2 hierarchy"
        )))
    }
}

fn automatic() -> Result<Place, Weaker> {
    let (own, writable) = mount::own().map_err(|e| Weaker(e.to_string()))?;
    if !writable {
        return Err(Weaker(format!("{} is mounted read-only", own.display())));
    }
    let unit = own.ancestors().find(|directory| is_unit(directory));
    if let Some(unit) = unit
        && (is_delegated(unit) || is_own_user_service(unit))
    {
        return Ok(within_unit(unit, &own, alone_in(unit)));
    }
    if Path::new("/run/systemd/system").exists() {
        let what = unit.unwrap_or(&own).display();
        return Err(Weaker(format!(
            "{what} is not delegated to us: run as a unit with Delegate=yes, or set containment.cgroup"
        )));
    }
    Ok(Place::Below(own))
}

/// A delegated unit is taken whole by its main process only. A daemon that somebody started in
/// it, or in a leaf of it, keeps to a directory of its own.
fn within_unit(unit: &Path, own: &Path, alone: bool) -> Place {
    if own == unit.join(SUPERVISOR) || (own == unit && alone) {
        Place::Unit(unit.to_owned())
    } else {
        Place::Below(own.to_owned())
    }
}

/// systemd names the directories of services and scopes after them; the first one upwards is
/// the unit that we are part of, and only its delegation is meant for us.
fn is_unit(directory: &Path) -> bool {
    let name = directory
        .extension()
        .and_then(|extension| extension.to_str());
    matches!(name, Some("service" | "scope"))
}

/// systemd marks what it delegates (`Delegate=yes`); reading `trusted.` needs privileges.
fn is_delegated(unit: &Path) -> bool {
    ["user.delegate", "trusted.delegate"]
        .into_iter()
        .any(|name| {
            let mut value = [0_u8; 8];
            rustix::fs::getxattr(unit, name, &mut value)
                .is_ok_and(|length| value.get(..length) == Some(b"1"))
        })
}

/// A user's service manager marks nothing (tried with 252), while all below it is delegated to
/// it. There, the main process of a service may take its unit: ours says `Delegate=yes`.
fn is_own_user_service(unit: &Path) -> bool {
    let is_main =
        std::env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    let is_service = |directory: &Path| directory.extension().is_some_and(|e| e == "service");
    let manager = unit.ancestors().skip(1).find(|directory| {
        let name = directory.file_name().and_then(|name| name.to_str());
        is_service(directory) && name.is_some_and(|name| name.starts_with("user@"))
    });
    is_main && is_service(unit) && manager.is_some_and(is_delegated)
}

/// Are we the only process that sits directly in it?
fn alone_in(unit: &Path) -> bool {
    let own = std::process::id().to_string();
    read(unit, "cgroup.procs").is_ok_and(|text| text.lines().all(|pid| pid == own))
}

/// From `some avg10=12.34 avg60=...` the 1234.
fn some_avg10(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let value = line
        .split(' ')
        .find_map(|word| word.strip_prefix("avg10="))?;
    let (whole, part) = value.split_once('.')?;
    let part: u32 = format!("{part:0<2}").get(..2)?.parse().ok()?;
    Some(
        whole
            .parse::<u32>()
            .ok()?
            .saturating_mul(100)
            .saturating_add(part),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_main_process_of_a_unit_takes_it_whole() {
        let unit = Path::new("/sys/fs/cgroup/system.slice/musterd.service");
        let whole = Place::Unit(unit.to_owned());
        assert_eq!(within_unit(unit, unit, true), whole);
        assert_eq!(within_unit(unit, &unit.join("supervisor"), false), whole);
        assert_eq!(
            within_unit(unit, unit, false),
            Place::Below(unit.to_owned())
        );
        let leaf = unit.join("workers/w-1");
        assert_eq!(within_unit(unit, &leaf, true), Place::Below(leaf.clone()));
    }

    #[test]
    fn the_nearest_unit_is_the_one_that_counts() {
        let own = Path::new("/c/user@1000.service/app.slice/term.scope/x");
        let unit = own.ancestors().find(|directory| is_unit(directory));
        assert_eq!(
            unit,
            Some(Path::new("/c/user@1000.service/app.slice/term.scope"))
        );
    }

    #[test]
    fn what_is_no_cgroup_is_refused_in_words() {
        let error = Tree::find(&Choice::Path("/proc/self".into()), "x").unwrap_err();
        assert!(error.0.contains("/proc/self"), "{error}");
        assert!(Tree::find(&Choice::Path("/nonexistent".into()), "x").is_err());
        assert!(Tree::find(&Choice::None, "x").is_err());
    }
}
