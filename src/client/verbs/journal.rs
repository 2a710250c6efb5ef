//! Output that went to the journal, read by `journalctl`: it knows who may read what, how files
//! are rotated and how to follow.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use crate::client::output::text::escape;
use crate::client::view::Worker;

/// Read at once.
const BLOCK: usize = 64 * 1024;
/// Blocks that wait for a slow terminal.
const QUEUE: usize = 16;
/// After a worker's end its last lines may still be on their way through journald.
const SETTLE: Duration = Duration::from_millis(700);
/// Who may read all of the journal (systemd-journald.service(8)).
const READERS: [&str; 3] = ["systemd-journal", "adm", "wheel"];

/// A running `journalctl`.
#[derive(Debug)]
pub struct Reader {
    child: Child,
    blocks: Receiver<Vec<u8>>,
    follow: bool,
    heard: Instant,
    pub anything: bool,
}

/// What a look brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// These bytes.
    Block(Vec<u8>),
    /// None yet.
    Quiet,
    /// No more will come.
    End,
}

/// The words of the query. Anybody may write under any identifier, so the uid is asked for too.
pub fn query(worker: &Worker, lines: Option<usize>, follow: bool) -> Vec<String> {
    let mut words: Vec<String> = ["--quiet", "--no-pager", "--output=cat"]
        .map(str::to_owned)
        .into();
    match (lines, follow) {
        (Some(lines), _) => words.push(format!("--lines={lines}")),
        // By itself it follows from the last ten lines on.
        (None, true) => words.push("--lines=all".to_owned()),
        (None, false) => {}
    }
    if follow {
        words.push("--follow".to_owned());
    }
    words.push(format!("--identifier=muster-{}", worker.id));
    words.push(format!("_UID={}", worker.owner.uid));
    words
}

impl Reader {
    /// Starts it.
    ///
    /// # Errors
    /// There is no `journalctl`.
    pub fn start(worker: &Worker, lines: Option<usize>, follow: bool) -> io::Result<Self> {
        let mut child = Command::new("journalctl")
            .args(query(worker, lines, follow))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let (send, blocks) = sync_channel(QUEUE);
        let out = child.stdout.take();
        std::thread::spawn(move || {
            let Some(mut out) = out else { return };
            let mut block = vec![0; BLOCK];
            while let Ok(got @ 1..) = out.read(&mut block) {
                if send.send(block[..got].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            blocks,
            follow,
            heard: Instant::now(),
            anything: false,
        })
    }

    /// What there is now; `over` says that the worker has ended. Waits only where nothing is
    /// followed.
    pub fn look(&mut self, over: bool) -> Look {
        let got = if self.follow {
            self.blocks.try_recv()
        } else {
            self.blocks.recv().map_err(|_| TryRecvError::Disconnected)
        };
        match got {
            Ok(block) => {
                self.heard = Instant::now();
                self.anything = true;
                Look::Block(block)
            }
            Err(TryRecvError::Disconnected) => Look::End,
            Err(TryRecvError::Empty) if !over => {
                self.heard = Instant::now();
                Look::Quiet
            }
            Err(TryRecvError::Empty) if self.heard.elapsed() < SETTLE => Look::Quiet,
            Err(TryRecvError::Empty) => Look::End,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It may follow for ever, or be through; both are fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines, for `status`.
pub fn tail(worker: &Worker, lines: usize) -> io::Result<Vec<u8>> {
    let limit = Duration::from_secs(5);
    let mut reader = Reader::start(worker, Some(lines), false)?;
    let end = Instant::now() + limit;
    let mut all = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match reader.blocks.recv_timeout(left) {
            Ok(block) => {
                reader.anything = true;
                all.extend(block);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(all),
            Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Why nothing may have been found, where the caller cannot read all of the journal.
pub fn hint(worker: &Worker) -> Option<String> {
    if rustix::process::geteuid().is_root() {
        return None;
    }
    let own = nix::unistd::getgroups().unwrap_or_default();
    let reads_all = READERS.iter().any(|name| {
        let group = nix::unistd::Group::from_name(name).ok().flatten();
        group.is_some_and(|group| own.contains(&group.gid))
    });
    (!reads_all).then(|| {
        format!(
            "nothing of {} can be read in the journal by you; members of the group \
             systemd-journal can: sudo journalctl -t muster-{} _UID={}",
            escape(&worker.title()),
            escape(&worker.id),
            worker.owner.uid
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::view::Owner;

    #[test]
    fn a_query_names_the_worker_and_its_owner() {
        let worker = Worker {
            id: "4kd02m1x".to_owned(),
            owner: Owner { uid: 1000, gid: 7 },
            ..Worker::default()
        };
        let text = |lines, follow| query(&worker, lines, follow).join(" ");
        let end = "--identifier=muster-4kd02m1x _UID=1000";
        let begin = "--quiet --no-pager --output=cat";
        assert_eq!(text(None, false), format!("{begin} {end}"));
        assert_eq!(
            text(None, true),
            format!("{begin} --lines=all --follow {end}")
        );
        assert_eq!(text(Some(3), false), format!("{begin} --lines=3 {end}"));
    }
}
