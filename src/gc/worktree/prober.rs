//! The daemon's side: keeps a few helpers, asks them over their pipes, and ends the one that
//! does not answer in time. Whatever is not a whole, understood answer means unknown.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::discover::Owned;
use super::wire::{ANSWER_MAX, Answer, Ask, Request};
use super::{Identity, Later, Probes, TreeState};
use crate::worker::{Owner, WorktreeChoice};

/// The helper has its own limit and answers by itself where git hangs; this much later it is
/// taken to hang itself (a dead network mount), and is killed.
const SLACK: Duration = Duration::from_millis(500);

/// A helper that was just started: `musterd probe` with the owner's uid, gid and groups, no
/// capabilities, an empty environment, `/` as working directory, PDEATHSIG, a group of its own.
pub struct HelperIo {
    /// Writing end of its standard input, non-blocking.
    pub stdin: OwnedFd,
    /// Reading end of its standard output, non-blocking.
    pub stdout: OwnedFd,
    /// Ends it and has it reaped. Called once, also for a helper that has ended by itself. Its
    /// git child dies with it, by PDEATHSIG.
    pub kill: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for HelperIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelperIo").finish_non_exhaustive()
    }
}

/// Starts helpers; the supervisor implements it.
pub trait HelperLauncher: Send + Sync {
    /// A new helper for this owner.
    fn launch(&self, owner: Owner) -> Later<io::Result<HelperIo>>;
}

/// How a sweep probes.
#[derive(Debug, Clone, Copy)]
pub struct ProbeOptions {
    /// Ignored files count as dirty (`gc.ignored = "dirty"`).
    pub ignored: bool,
    /// Time limit of one probe.
    pub limit: Duration,
    /// Helpers kept; more are started where more is asked at one time.
    pub keep: usize,
}

/// Asks helpers. Cheap to clone; helpers live until the last clone is dropped.
#[derive(Clone)]
pub struct Prober(Arc<Inner>);

struct Inner {
    launcher: Arc<dyn HelperLauncher>,
    options: ProbeOptions,
    /// Helpers with nothing to do, the one used last at the end.
    idle: Mutex<Vec<Helper>>,
}

struct Helper {
    owner: Owner,
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    kill: Option<Box<dyn FnOnce() + Send>>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(kill) = self.kill.take() {
            kill();
        }
    }
}

impl Helper {
    fn new(owner: Owner, io: HelperIo) -> io::Result<Self> {
        // Ends of pipes that do not fit still leave a process to be ended.
        let mut kill = Some(io.kill);
        let ends = pipe::Sender::from_owned_fd(io.stdin)
            .and_then(|stdin| Ok((stdin, pipe::Receiver::from_owned_fd(io.stdout)?)));
        match ends {
            Ok((stdin, stdout)) => Ok(Self {
                owner,
                stdin,
                stdout,
                kill,
            }),
            Err(error) => {
                if let Some(kill) = kill.take() {
                    kill();
                }
                Err(error)
            }
        }
    }

    async fn ask(&mut self, request: &Request) -> Result<Answer, String> {
        let lost = |e: io::Error| format!("the probe helper went away: {e}");
        self.stdin
            .write_all(&request.encode())
            .await
            .map_err(lost)?;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            if line.len() >= ANSWER_MAX {
                return Err("the probe helper talks without end".to_owned());
            }
            if self.stdout.read_buf(&mut line).await.map_err(lost)? == 0 {
                return Err("the probe helper ended without a whole answer".to_owned());
            }
        }
        Answer::decode(&line).ok_or_else(|| "the probe helper's answer makes no sense".to_owned())
    }
}

impl Prober {
    /// No helper is started before something is asked.
    pub fn new(launcher: Arc<dyn HelperLauncher>, options: ProbeOptions) -> Self {
        Self(Arc::new(Inner {
            launcher,
            options,
            idle: Mutex::new(Vec::new()),
        }))
    }

    /// Is the worktree clean? `mount` is where its file system is to be mounted, if that was
    /// recorded.
    pub async fn probe(&self, owner: Owner, path: PathBuf, mount: Option<PathBuf>) -> TreeState {
        match self.ask(owner, Ask::Probe, path, mount).await {
            Ok(Answer::Clean) => TreeState::Clean,
            Ok(Answer::Dirty { detail }) => TreeState::Dirty(detail),
            Ok(Answer::Unknown { detail }) | Err(detail) => TreeState::Unknown(detail),
            Ok(Answer::Found(_) | Answer::None) => {
                TreeState::Unknown("the probe helper answered another question".to_owned())
            }
        }
    }

    /// The worktree a row owns, looked for with the owner's rights.
    pub async fn owned_worktree(
        &self,
        owner: Owner,
        choice: &WorktreeChoice,
        cwd: &Path,
    ) -> Result<Option<Owned>, String> {
        let (ask, path) = match choice {
            WorktreeChoice::None => return Ok(None),
            WorktreeChoice::Path(path) => (Ask::Identify, path.as_path()),
            WorktreeChoice::Auto => (Ask::Discover, cwd),
        };
        match self.ask(owner, ask, path.to_owned(), None).await? {
            Answer::Found(place) => Ok(Some(place.into())),
            Answer::None if ask == Ask::Discover => Ok(None),
            Answer::Unknown { detail } => Err(detail),
            _ => Err("the probe helper answered another question".to_owned()),
        }
    }

    async fn ask(
        &self,
        owner: Owner,
        ask: Ask,
        path: PathBuf,
        mount: Option<PathBuf>,
    ) -> Result<Answer, String> {
        let limit = self.0.options.limit;
        let request = Request {
            ask,
            ignored: self.0.options.ignored,
            limit,
            mount,
            path,
        };
        // Dropped on any way out but the good one, the helper is ended, and with it what it
        // might still say about this question when the next one is asked.
        let talk = async {
            // One that has ended while it had nothing to do is no answer: asked again.
            if let Some(mut helper) = self.idle(owner)
                && let Ok(answer) = helper.ask(&request).await
            {
                return Ok((helper, answer));
            }
            let mut helper = self.launch(owner).await?;
            let answer = helper.ask(&request).await?;
            Ok((helper, answer))
        };
        match timeout(limit.saturating_add(SLACK), talk).await {
            Ok(Ok((helper, answer))) => {
                self.put_back(helper);
                Ok(answer)
            }
            Ok(Err(why)) => Err(why),
            Err(_) => Err(format!("timed out after {} s", limit.as_secs_f64())),
        }
    }

    fn idle(&self, owner: Owner) -> Option<Helper> {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().rposition(|h| h.owner == owner)?;
        Some(idle.remove(at))
    }

    async fn launch(&self, owner: Owner) -> Result<Helper, String> {
        let cannot = |e: io::Error| format!("cannot start the probe helper: {e}");
        let io = self.0.launcher.launch(owner).await.map_err(cannot)?;
        Helper::new(owner, io).map_err(cannot)
    }

    fn put_back(&self, helper: Helper) {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(helper);
        let surplus = idle.len().saturating_sub(self.0.options.keep);
        let ended: Vec<Helper> = idle.drain(..surplus).collect();
        drop(idle);
        drop(ended);
    }
}

impl Probes for Prober {
    fn probe(&self, owner: Owner, path: PathBuf, mount: Option<PathBuf>) -> Later<TreeState> {
        let prober = self.clone();
        Box::pin(async move { Prober::probe(&prober, owner, path, mount).await })
    }

    fn identify(&self, owner: Owner, path: PathBuf) -> Later<Option<Identity>> {
        let prober = self.clone();
        Box::pin(async move {
            match prober.ask(owner, Ask::Identify, path, None).await {
                Ok(Answer::Found(place)) => Some(Identity(place.inodes)),
                _ => None,
            }
        })
    }
}
