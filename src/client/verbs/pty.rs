//! `run --pty`: a pair of terminals is made here; the worker gets one end as its controlling
//! terminal, and this program passes on between the other and the one it was called on. The
//! daemon is not in the path. When this program goes, the worker's terminal is hung up.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{mpsc, oneshot};

use super::modes::Modes;
use super::run::{say_unenforced, spawn, title};
use super::terminal::{Raw, modes, pass_size, set_modes, wait_for_foreground};
use super::{report, wait};
use crate::client::args::RunArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;
use crate::dbus::client::CallError;
use crate::dbus::errors;
use crate::supervisor::handle::Stdio;
use crate::worker::Spec;

/// Ctrl-], which hangs up when it is typed this often within [`HANG_UP_WITHIN`].
const HANG_UP: u8 = 0x1d;
const HANG_UP_TIMES: usize = 3;
const HANG_UP_WITHIN: Duration = Duration::from_secs(1);
/// What was typed and not taken by the worker yet; more is dropped, as by a terminal.
const TYPED_MAX: usize = 64 * 1024;
/// What a terminal can hold when its last writer has gone (the kernel's buffers are smaller).
const LEFT_MAX: usize = 1024 * 1024;
/// Above every descriptor that is opened later. Descriptors are closed in the order of their
/// numbers: whoever attends is to have gone before the terminal is hung up.
const MASTER_FROM: i32 = 512;

/// Is there a terminal to show it on?
pub fn check() -> Result<(), Failure> {
    match modes() {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::usage(
            "--pty needs a terminal on standard input; with --pipe the worker gets what this \
             program has, without either its input is empty and its output is kept for \
             `musterctl logs`",
        )),
    }
}

/// Runs the verb.
pub async fn run(
    daemon: &Rc<Daemon>,
    args: &RunArgs,
    spec: Box<Spec>,
    out: &mut Output,
) -> Result<Code, Failure> {
    let cannot = |e: io::Error| Failure::failed(format!("cannot make a terminal: {e}"));
    let (master, slave) = pair().map_err(cannot)?;
    let copy = || slave.try_clone();
    let stdio = || {
        Ok(Stdio {
            stdin: Some(copy()?),
            stdout: Some(copy()?),
            stderr: Some(copy()?),
        })
    };
    let mut signals = Signals::catch()?;
    let spawned = tokio::select! {
        spawned = spawn(daemon, &spec, args, stdio) => spawned?,
        signal = signals.ending() => return Ok(Code::signal(signal)),
    };
    say_unenforced(&spawned);
    if !out.quiet {
        say!(
            "Running as worker {}. Ctrl-] three times hangs up.",
            title(&spawned, &spec)
        );
    }
    let id = &spawned.id;
    // Open until the end: somebody is there.
    let _attendance = attend(daemon, id).await?;
    let modes = Arc::new(Mutex::new(Modes::default()));
    let shown = show(daemon, id, &master, slave, signals, &modes).await;
    put_back(&modes, true);
    match shown? {
        Shown::Ended(ended) => {
            if out.json.is_some() {
                wait::print(std::slice::from_ref(&*ended), out);
            } else if !out.quiet {
                say!("{}", report::ending(&ended.worker));
            }
            Ok(ended.code())
        }
        Shown::HungUp => Err(Failure::failed(format!(
            "hung up; see `musterctl status {id}` for what {id} made of it"
        ))),
        Shown::Signal(signal) => Ok(Code::signal(signal)),
    }
}

/// How it came to an end.
enum Shown {
    Ended(Box<wait::Ended>),
    /// By the keys, or because nobody reads our output any more.
    HungUp,
    Signal(i32),
}

/// The pair, the worker's end with the modes and the size of our terminal.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    // Its modes are those of the shell's line editor while the shell has it.
    wait_for_foreground();
    let (master, slave) = crate::sys::pty::pair()?;
    set_modes(&slave, &modes()?)?;
    pass_size(&slave, false)?;
    // Where the limit of descriptors is lower than that, in any order.
    let master = rustix::io::fcntl_dupfd_cloexec(&master, MASTER_FROM).unwrap_or(master);
    rustix::io::ioctl_fionbio(&master, true)?;
    Ok((master, slave))
}

/// `None`: it has ended already.
async fn attend(daemon: &Daemon, id: &str) -> Result<Option<OwnedFd>, Failure> {
    match daemon.call(async |client| client.attend(id).await).await {
        Ok(fd) => Ok(Some(fd)),
        Err(CallError::Refused {
            code: errors::Code::WrongState | errors::Code::NoSuchWorker,
            ..
        }) => Ok(None),
        Err(error) => Err(failure(error, Asking::Action)),
    }
}

/// Passes on until the worker has ended and all it wrote is shown, or until somebody hangs up.
/// Our copy of the worker's end stays open meanwhile: without it the other one would report the
/// end whenever no program has it open, and there may be one again.
async fn show(
    daemon: &Daemon,
    id: &str,
    master: &OwnedFd,
    slave: OwnedFd,
    mut signals: Signals,
    modes: &Arc<Mutex<Modes>>,
) -> Result<Shown, Failure> {
    let cannot = |e: io::Error| Failure::failed(format!("cannot pass the terminal on: {e}"));
    let copy = || master.try_clone().map_err(cannot);
    let raw = Raw::enter().map_err(cannot)?;
    let _ = pass_size(master, false);
    let (hang_up, mut hung_up) = mpsc::unbounded_channel();
    let (stop, stopped) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| cannot(e.into()))?;
    let (shown, all_shown) = oneshot::channel();
    let (keys, screen) = (copy()?, copy()?);
    let tell = hang_up.clone();
    thread("keys", move || type_in(&keys, &tell)).map_err(cannot)?;
    let seen = Arc::clone(modes);
    thread("screen", move || {
        if show_output(&screen, &stopped, &seen).is_err() {
            let _ = hang_up.send(());
        }
        let _ = shown.send(());
    })
    .map_err(cannot)?;

    let wait = wait::ended(daemon, id);
    tokio::pin!(wait);
    let ended = loop {
        tokio::select! {
            ended = &mut wait => break ended,
            Some(()) = hung_up.recv() => return Ok(Shown::HungUp),
            signal = signals.next() => match signal {
                Signal::SIGWINCH => drop(pass_size(master, false)),
                Signal::SIGTSTP => suspend(&raw, master, modes).map_err(cannot)?,
                Signal::SIGCONT => resume(&raw, master, modes).map_err(cannot)?,
                ending => return Ok(Shown::Signal(ending as i32)),
            },
        }
    };
    drop(slave);
    drop(stop);
    let _ = all_shown.await;
    drop(raw);
    Ok(Shown::Ended(Box::new(ended?)))
}

/// Stops this program as a shell expects it of a job; goes on when it is continued.
fn suspend(raw: &Raw, master: &OwnedFd, modes: &Mutex<Modes>) -> io::Result<()> {
    put_back(modes, false);
    raw.leave();
    nix::sys::signal::raise(Signal::SIGSTOP)?;
    resume(raw, master, modes)
}

fn resume(raw: &Raw, master: &OwnedFd, modes: &Mutex<Modes>) -> io::Result<()> {
    raw.again()?;
    write_out(&lock(modes).redo());
    // Whatever the shell has written meanwhile is drawn over. The size may not be known now.
    let _ = pass_size(master, true);
    Ok(())
}

/// The screen, the mouse and the rest as they were before the worker changed them; for good also
/// a line of our own.
fn put_back(modes: &Mutex<Modes>, for_good: bool) {
    let modes = lock(modes);
    let mut text = modes.undo();
    if for_good && modes.is_within_line() {
        text.push_str("\r\n");
    }
    write_out(&text);
}

fn lock(modes: &Mutex<Modes>) -> MutexGuard<'_, Modes> {
    modes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Best effort: the terminal may be gone.
fn write_out(text: &str) {
    let mut stdout = io::stdout();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)?;
    Ok(())
}

/// From the keyboard to the worker. Goes on reading while the worker takes nothing, for the keys
/// that hang up.
fn type_in(master: &OwnedFd, hang_up: &mpsc::UnboundedSender<()>) {
    let stdin = io::stdin();
    let mut typed: Vec<u8> = Vec::new();
    let mut buffer = [0; 4096];
    let mut escape = Escape::default();
    loop {
        let writing = if typed.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        let mut fds = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(master, writing),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        let (read, write) = (fds[0].revents(), fds[1].revents());
        if !read.is_empty() {
            match rustix::io::read(&stdin, &mut buffer) {
                // The terminal is gone: this program goes, too.
                Ok(0) => break,
                Ok(n) => {
                    let keys = buffer.get(..n).unwrap_or_default();
                    if escape.typed(keys, Instant::now()) {
                        break;
                    }
                    let room = TYPED_MAX.saturating_sub(typed.len()).min(n);
                    typed.extend_from_slice(keys.get(..room).unwrap_or_default());
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => break,
            }
        }
        if write.intersects(PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        if write.contains(PollFlags::OUT) {
            match rustix::io::write(master, &typed) {
                Ok(n) => drop(typed.drain(..n)),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }
    let _ = hang_up.send(());
}

/// From the worker to the screen, until it has ended (`stopped` is at its end) and nothing is
/// left to show. The error: our output does not take it.
fn show_output(master: &OwnedFd, stopped: &OwnedFd, modes: &Mutex<Modes>) -> io::Result<()> {
    let mut stdout = io::stdout();
    let mut master = std::fs::File::from(master.try_clone()?);
    let mut buffer = [0; 16 * 1024];
    let mut left = LEFT_MAX;
    loop {
        let mut fds = [
            PollFd::new(&master, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let over = !fds[1].revents().is_empty();
        match master.read(&mut buffer) {
            Ok(n) if n > 0 => {
                let bytes = buffer.get(..n).unwrap_or_default();
                lock(modes).saw(bytes);
                stdout.write_all(bytes)?;
                stdout.flush()?;
                if over {
                    left = left.saturating_sub(n);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && !over => {}
            // The kernel passes on what it holds before it says that there is nothing.
            _ => return Ok(()),
        }
        if left == 0 {
            return Ok(());
        }
    }
}

/// Counts the keys that hang up.
#[derive(Debug, Default)]
struct Escape {
    typed: usize,
    first: Option<Instant>,
}

impl Escape {
    fn typed(&mut self, keys: &[u8], now: Instant) -> bool {
        for key in keys {
            let late = self
                .first
                .is_some_and(|first| now.duration_since(first) > HANG_UP_WITHIN);
            if *key != HANG_UP || late {
                self.typed = 0;
            }
            if *key == HANG_UP {
                if self.typed == 0 {
                    self.first = Some(now);
                }
                self.typed += 1;
                if self.typed == HANG_UP_TIMES {
                    return true;
                }
            }
        }
        false
    }
}

/// Signals as something to wait for.
struct Signals(mpsc::UnboundedReceiver<Signal>);

impl Signals {
    /// Blocked in this thread and all that it starts, and taken by one of their own. A blocked
    /// signal is kept even where its default is to be ignored (signal(7)).
    fn catch() -> Result<Self, Failure> {
        let cannot = |e: io::Error| Failure::failed(format!("cannot catch signals: {e}"));
        let set: SigSet = [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
            Signal::SIGTSTP,
            Signal::SIGCONT,
            Signal::SIGWINCH,
        ]
        .into_iter()
        .collect();
        set.thread_block().map_err(|e| cannot(e.into()))?;
        let (tell, told) = mpsc::unbounded_channel();
        thread("signals", move || {
            while let Ok(signal) = set.wait() {
                if tell.send(signal).is_err() {
                    return;
                }
            }
        })
        .map_err(cannot)?;
        Ok(Self(told))
    }

    /// Returns at the next signal; never if signals cannot be read.
    async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }

    /// Returns at the next one that ends a program.
    async fn ending(&mut self) -> i32 {
        loop {
            match self.next().await {
                Signal::SIGWINCH | Signal::SIGCONT => {}
                Signal::SIGTSTP => drop(nix::sys::signal::raise(Signal::SIGSTOP)),
                signal => return signal as i32,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_of_the_key_within_a_second_hang_up_and_nothing_else_does() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut escape = Escape::default();
        assert!(!escape.typed(b"\x1d\x1dx\x1d\x1d", at(0)));
        assert!(escape.typed(b"\x1d", at(1000)));
        let mut escape = Escape::default();
        assert!(!escape.typed(b"\x1d\x1d", at(0)));
        assert!(!escape.typed(b"\x1d", at(1001)), "too late");
        assert!(!escape.typed(b"\x1d", at(1002)));
        assert!(escape.typed(b"\x1d", at(1003)));
        assert!(Escape::default().typed(b"ab\x1d\x1d\x1d", at(0)));
    }
}
