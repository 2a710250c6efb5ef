//! What a worker needs before its fork: its leaf, its runtime directory, its output file, its
//! worktree and its environment. Blocking work, done off the loop.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::fault::StartFault;
use super::handle::Stdio;
use super::{Settings, Supervisor};
use crate::gc::worktree::{Owned, ProbeOptions, Prober, owned_worktree};
use crate::log::id;
use crate::sys::cgroup::Leaf;
use crate::sys::spawn::{Image, Rlimit, search};
use crate::sys::{acl, journal, notify, privilege};
use crate::worker::{Control, Limits, Owner, Row, Spec, WorkerId, WorktreeChoice};

/// journald gets so long to take a worker's stream. It is past this that it hangs.
const JOURNAL_WAIT: Duration = Duration::from_secs(1);

/// Everything the preparation is made from.
pub(super) struct Job {
    set: Arc<Settings>,
    id: WorkerId,
    owner: Owner,
    groups: Vec<u32>,
    parent: Option<WorkerId>,
    trace_id: String,
    leaf: Option<PathBuf>,
    to_journal: bool,
    spec: Spec,
    io: Stdio,
    /// Not the first generation: its directory and its output are there already.
    again: bool,
    /// Looks into the directories of another user with that user's rights.
    look: Option<Prober>,
}

impl Job {
    /// For a generation after the first.
    pub(super) fn again(mut self) -> Self {
        self.again = true;
        self
    }
}

/// What was prepared. Undone by [`Prepared::undo`] if the start fails after all.
#[derive(Debug)]
pub(super) struct Prepared {
    image: Option<Image>,
    pub leaf: Option<Leaf>,
    pub worktree: Option<PathBuf>,
    pub worktree_mount: Option<PathBuf>,
    pub runtime_dir: Option<PathBuf>,
    pub output: Option<PathBuf>,
    pub journal: bool,
    pub unenforced: Vec<String>,
    pub channel: Option<OwnEnd>,
    again: bool,
    pub notify: Option<OwnedFd>,
    /// Whose file the notify socket is, where that is not ours.
    notify_owner: Option<u32>,
    pub tty: bool,
}

/// Our end of a channel, and what its first frame carries.
#[derive(Debug)]
pub(super) struct OwnEnd {
    pub fd: OwnedFd,
    pub payload: Option<String>,
}

/// The number of a worker's end.
const CONTROL_FD: i32 = 3;

impl Prepared {
    pub(super) fn take_image(&mut self) -> Image {
        self.image.take().unwrap_or_default()
    }

    /// Takes back what was made for a worker that never came, but for its leaf, which may be busy
    /// for a moment.
    pub(super) fn undo(self) -> Option<Leaf> {
        if self.again {
            return self.leaf;
        }
        if let Some(dir) = &self.runtime_dir {
            if self.notify.is_some() {
                let _ = notify::unbind(dir, self.notify_owner);
            }
            // Nothing was started that could have put something there.
            let _ = std::fs::remove_dir(dir);
        }
        if let Some(output) = &self.output {
            let _ = std::fs::remove_file(output);
        }
        self.leaf
    }
}

impl Supervisor {
    pub(super) fn preparation(
        &mut self,
        row: &Row,
        spec: Spec,
        io: Stdio,
        groups: Vec<u32>,
    ) -> Job {
        // Output that began in a file goes on there.
        let to_journal =
            self.set.journal.is_some() && row.output.is_none() && self.journal_has_room();
        Job {
            to_journal,
            set: Arc::clone(&self.set),
            id: row.id,
            owner: row.owner,
            parent: row.parent,
            trace_id: row.trace_id.clone(),
            leaf: self
                .tree
                .as_ref()
                .ok()
                .map(|tree| tree.leaf_path(&format!("w-{}", row.id))),
            look: (row.owner.uid != self.set.me.uid).then(|| self.prober_of(groups.clone())),
            groups,
            spec,
            io,
            again: false,
        }
    }

    pub(super) fn prober_of(&self, groups: Vec<u32>) -> Prober {
        let options = ProbeOptions {
            ignored: false,
            limit: self.set.config.gc.probe_timeout,
            keep: 0,
        };
        Prober::new(Arc::new(self.launcher(groups)), options)
    }
}

/// Runs the preparation on a blocking thread.
pub(super) async fn prepare(job: Job) -> Result<Prepared, StartFault> {
    let spec = &job.spec;
    let owned = match &job.look {
        Some(prober) => {
            let found = prober.owned_worktree(job.owner, &spec.worktree, &spec.cwd);
            Some(found.await.map_err(|why| cannot_tell(&why, spec))?)
        }
        None => None,
    };
    match tokio::task::spawn_blocking(move || prepare_now(job, owned)).await {
        Ok(result) => result,
        Err(error) => Err(fault(
            "cannot prepare the worker",
            Path::new(""),
            &std::io::Error::other(error),
        )),
    }
}

fn fault(what: &str, path: &Path, error: &std::io::Error) -> StartFault {
    StartFault {
        errno: error.raw_os_error().unwrap_or(libc::EIO),
        what: what.to_owned(),
        path: path.to_string_lossy().into_owned(),
        leaf: None,
    }
}

/// `owned`: the worktree, where the answer is there already.
fn prepare_now(mut job: Job, owned: Option<Option<Owned>>) -> Result<Prepared, StartFault> {
    let mut prepared = Prepared {
        image: None,
        leaf: None,
        worktree: None,
        worktree_mount: None,
        runtime_dir: None,
        output: None,
        journal: false,
        unenforced: Vec::new(),
        channel: None,
        again: job.again,
        notify: None,
        notify_owner: None,
        tty: job.spec.tty,
    };
    match fill(&mut prepared, &mut job, owned) {
        Ok(image) => {
            prepared.image = Some(image);
            Ok(prepared)
        }
        Err(fault) => Err(StartFault {
            leaf: prepared.undo(),
            ..fault
        }),
    }
}

fn fill(
    prepared: &mut Prepared,
    job: &mut Job,
    owned: Option<Option<Owned>>,
) -> Result<Image, StartFault> {
    let owned = match owned {
        Some(owned) => owned,
        None => own_worktree(&job.spec)?,
    };
    if let Some(owned) = owned {
        prepared.worktree = Some(owned.path);
        prepared.worktree_mount = Some(owned.mount);
    }
    match &job.leaf {
        Some(path) => {
            let leaf = Leaf::create(path).map_err(|e| fault("cannot make the leaf", path, &e))?;
            prepared.unenforced = leaf.set_limits(&job.spec.limits);
            prepared.leaf = Some(leaf);
        }
        None => prepared.unenforced = unenforced(&job.spec.limits),
    }
    let runtime = job.set.runtime_dir.join("w").join(job.id.as_str());
    make_runtime_dir(job, &runtime)
        .or_else(|error| kept_runtime_dir(job, &runtime, error))
        .map_err(|e| fault("cannot make the runtime directory", &runtime, &e))?;
    prepared.runtime_dir = Some(runtime.clone());
    if job.spec.control == Control::Notify {
        let path = runtime.join(notify::NAME);
        let made = notify_socket(prepared, job, &runtime, &path);
        made.map_err(|e| fault("cannot make the notify socket", &path, &e))?;
    }
    let fds = descriptors(prepared, job)?;
    image(job, &runtime, fds)
}

/// Made as its owner rather than handed over, which would need `CAP_CHOWN`.
fn make_runtime_dir(job: &Job, path: &Path) -> std::io::Result<()> {
    if job.owner.uid == job.set.me.uid {
        return std::fs::DirBuilder::new().mode(0o700).create(path);
    }
    // Opened before: the owner need not be able to come here by the path.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let above = rustix::fs::open(job.set.runtime_dir.join("w"), flags, Mode::empty())?;
    privilege::as_file_owner(job.owner.uid, || {
        Ok(rustix::fs::mkdirat(&above, job.id.as_str(), Mode::RWXU)?)
    })
}

/// The directory of the generation before is the worker's own until the worker has ended.
fn kept_runtime_dir(job: &Job, path: &Path, error: std::io::Error) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let kept = job.again && error.kind() == std::io::ErrorKind::AlreadyExists;
    match std::fs::symlink_metadata(path) {
        Ok(meta) if kept && meta.is_dir() && meta.uid() == job.owner.uid => Ok(()),
        _ => Err(error),
    }
}

fn notify_socket(
    prepared: &mut Prepared,
    job: &Job,
    dir: &Path,
    path: &Path,
) -> std::io::Result<()> {
    if path.as_os_str().len() > notify::PATH_MAX {
        let why = "the path is too long for a socket; give musterd a shorter runtime directory";
        return Err(std::io::Error::other(why));
    }
    prepared.notify_owner = (job.owner.uid != job.set.me.uid).then_some(job.owner.uid);
    if job.again {
        // The generation before had it; whoever sends there is none of ours any more.
        match notify::unbind(dir, prepared.notify_owner) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    prepared.notify = Some(notify::bind(dir, prepared.notify_owner)?);
    Ok(())
}

/// Which worktree the row owns. A working directory that is none is left for the child to
/// complain of, which knows the errno.
fn own_worktree(spec: &Spec) -> Result<Option<Owned>, StartFault> {
    if spec.worktree == WorktreeChoice::Auto && !spec.cwd.is_dir() {
        return Ok(None);
    }
    owned_worktree(&spec.worktree, &spec.cwd).map_err(|why| cannot_tell(&why, spec))
}

fn cannot_tell(why: &str, spec: &Spec) -> StartFault {
    let chosen = match &spec.worktree {
        WorktreeChoice::Path(path) => path,
        WorktreeChoice::Auto | WorktreeChoice::None => &spec.cwd,
    };
    StartFault {
        errno: 0,
        what: format!("cannot tell which worktree the row owns ({why})"),
        path: chosen.to_string_lossy().into_owned(),
        leaf: None,
    }
}

/// Standard descriptors: what was passed, else nothing to read, and the journal or the output
/// file to write.
fn descriptors(prepared: &mut Prepared, job: &mut Job) -> Result<Vec<(OwnedFd, i32)>, StartFault> {
    let mut fds = Vec::new();
    let io = std::mem::take(&mut job.io);
    if let Some(stdin) = io.stdin {
        fds.push((stdin, 0));
    }
    let clone = |fd: &OwnedFd| {
        fd.try_clone()
            .map_err(|e| fault("cannot copy a descriptor", Path::new(""), &e))
    };
    let stdout = match io.stdout {
        Some(fd) => fd,
        None => own_output(prepared, job)?,
    };
    let stderr = match io.stderr {
        Some(fd) => fd,
        None => clone(&stdout)?,
    };
    fds.push((stdout, 1));
    fds.push((stderr, 2));
    if job.spec.control == Control::Frames {
        let (fd, theirs) = super::socket::pair()
            .map_err(|e| fault("cannot make the control channel", Path::new(""), &e))?;
        fds.push((theirs, CONTROL_FD));
        let payload = job.spec.payload.take();
        prepared.channel = Some(OwnEnd { fd, payload });
    }
    Ok(fds)
}

/// The journal where it takes one more stream, else a file.
fn own_output(prepared: &mut Prepared, job: &Job) -> Result<OwnedFd, StartFault> {
    if let Some(socket) = job.set.journal.as_deref().filter(|_| job.to_journal) {
        let identifier = format!("muster-{}", job.id);
        match journal::stream(socket, &identifier, JOURNAL_WAIT) {
            Ok(stream) => {
                prepared.journal = true;
                return Ok(stream);
            }
            Err(error) => tracing::warn!(
                MESSAGE_ID = id::OUTPUT_TO_FILE,
                MUSTER_WORKER = job.id.as_str(),
                "output of worker {} goes to a file, since the journal does not take it: {error}",
                job.id
            ),
        }
    }
    let path = job
        .set
        .state_dir
        .join("output")
        .join(format!("{}.log", job.id));
    // O_APPEND: both outputs and every descendant write at the end, wherever that is.
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create_new(!job.again)
        .create(job.again)
        .custom_flags(libc::O_NOFOLLOW)
        .mode(0o600)
        .open(&path)
        .map_err(|e| fault("cannot make the output file", &path, &e))?;
    prepared.output = Some(path);
    if job.owner.uid != job.set.me.uid
        && let Err(error) = acl::let_read(&file, job.owner.uid)
    {
        // A file system without ACLs: the worker writes all the same.
        tracing::warn!(%error, MUSTER_WORKER = %job.id, "the owner cannot read the output");
    }
    Ok(OwnedFd::from(file))
}

#[allow(clippy::needless_update, reason = "tests have one field more")]
fn image(job: &Job, runtime: &Path, fds: Vec<(OwnedFd, i32)>) -> Result<Image, StartFault> {
    let c = |text: &OsStr| {
        CString::new(text.as_bytes())
            .map_err(|e| fault("a NUL byte in", Path::new(text), &std::io::Error::other(e)))
    };
    let argv = job
        .spec
        .argv
        .iter()
        .map(|a| c(a))
        .collect::<Result<Vec<_>, _>>()?;
    let env = environment(job, runtime)
        .iter()
        .map(|e| c(e))
        .collect::<Result<Vec<_>, _>>()?;
    let candidates = argv
        .first()
        .map(|program| search(program, &env))
        .unwrap_or_default();
    let workers = &job.set.config.workers;
    Ok(Image {
        candidates,
        cwd: Some(c(job.spec.cwd.as_os_str())?),
        fds,
        ids: job.set.ids_of(job.owner, job.groups.clone()),
        drop_bounding: job.set.privileges.drop_bounding,
        leaf: job.leaf.clone(),
        umask: Some(workers.umask.0),
        rlimits: job
            .set
            .nofile
            .map(|(soft, hard)| Rlimit {
                resource: libc::RLIMIT_NOFILE,
                soft,
                hard,
            })
            .into_iter()
            .collect(),
        oom_score_adj: Some(workers.oom_score_adj),
        nice: job.spec.limits.nice,
        new_session: job.spec.tty,
        pdeathsig: true,
        argv,
        env,
        ..Image::default()
    })
}

/// What no worker may inherit: a message to these sockets would pass as the daemon's own.
const STRIPPED: [&str; 8] = [
    "NOTIFY_",
    "WATCHDOG_",
    "LISTEN_",
    "MUSTER_",
    "FDSTORE",
    "MAINPID",
    "CREDENTIALS_DIRECTORY",
    "MEMORY_PRESSURE_",
];

fn environment(job: &Job, runtime: &Path) -> Vec<OsString> {
    let kept = job.spec.env.0.iter().filter(|pair| {
        !STRIPPED
            .iter()
            .any(|prefix| pair.as_bytes().starts_with(prefix.as_bytes()))
    });
    let mut env: Vec<OsString> = kept.cloned().collect();
    let mut set = |name: &str, value: &OsStr| {
        let prefix = [name.as_bytes(), b"="].concat();
        env.retain(|pair| !pair.as_bytes().starts_with(&prefix));
        env.push(OsString::from_vec([&prefix, value.as_bytes()].concat()));
    };
    set("MUSTER_WORKER", OsStr::new(job.id.as_str()));
    set("MUSTER_SOCKET", job.set.socket.as_os_str());
    set("MUSTER_RUNTIME_DIR", runtime.as_os_str());
    set("MUSTER_TRACE", OsStr::new(&job.trace_id));
    if job.spec.control == Control::Notify {
        set("NOTIFY_SOCKET", runtime.join(notify::NAME).as_os_str());
        if let Some(pong) = job.spec.timeouts.pong {
            set("WATCHDOG_USEC", OsStr::new(&pong.as_micros().to_string()));
        }
    }
    if job.spec.control == Control::Frames {
        set("MUSTER_CONTROL_FD", OsStr::new(&CONTROL_FD.to_string()));
    }
    if let Some(parent) = job.parent {
        set("MUSTER_PARENT", OsStr::new(parent.as_str()));
    }
    if job.spec.private_tmp || job.set.config.workers.private_tmp {
        set("TMPDIR", runtime.as_os_str());
        set("TMUX_TMPDIR", runtime.as_os_str());
    }
    env
}

/// Limits that only a leaf can enforce.
fn unenforced(limits: &Limits) -> Vec<String> {
    [
        ("memory-max", limits.memory_max.is_some()),
        ("tasks-max", limits.tasks_max.is_some()),
        ("cpu-weight", limits.cpu_weight.is_some()),
        ("cpu-max-percent", limits.cpu_max_percent.is_some()),
    ]
    .iter()
    .filter(|(_, asked)| *asked)
    .map(|(name, _)| (*name).to_owned())
    .collect()
}
