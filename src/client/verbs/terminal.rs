//! The terminal that `run --pty` is typed into: raw while a worker is shown on it, and back as it
//! was on every way out.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{
    OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

/// The modes to go back to, for a panic as well: it ends the program without a destructor.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Puts the modes back when it goes.
#[derive(Debug)]
pub struct Raw;

impl Raw {
    /// Makes standard input's terminal raw. In the background this stops the program until it is
    /// brought to the fore, as any job that changes the terminal (tcsetattr(3)).
    pub fn enter() -> io::Result<Self> {
        let before = modes()?;
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            hook(info);
        }));
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let raw = Self;
        raw.again()?;
        Ok(raw)
    }

    /// Raw again after somebody else had the terminal.
    pub fn again(&self) -> io::Result<()> {
        let before = BEFORE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(mut modes) = before {
            modes.make_raw();
            tcsetattr(io::stdin(), OptionalActions::Drain, &modes)?;
        }
        Ok(())
    }

    /// As it was before, for a while.
    pub fn leave(&self) {
        restore();
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
        BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn restore() {
    // The terminal may be gone; and a panic within the lock must not hang here.
    if let Ok(before) = BEFORE.try_lock()
        && let Some(before) = &*before
    {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, before);
    }
}

/// Stops as any job that reads the terminal from the background, until it is brought to the fore.
pub fn wait_for_foreground() {
    for _ in 0..BACKGROUND_STOPS {
        let own = nix::unistd::getpgrp().as_raw();
        match rustix::termios::tcgetpgrp(io::stdin()) {
            Ok(fore) if fore.as_raw_nonzero().get() != own => {}
            // Ours, or no terminal that jobs are controlled on.
            _ => return,
        }
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TTIN);
    }
}

/// A group without anybody to bring it back is not stopped by the signal: what is read or set
/// then fails by itself.
const BACKGROUND_STOPS: u32 = 100;

/// Modes of standard input's terminal; `ENOTTY` if it is none.
pub fn modes() -> io::Result<Termios> {
    Ok(tcgetattr(io::stdin())?)
}

/// Gives a terminal these modes.
pub fn set_modes(to: impl AsFd, modes: &Termios) -> io::Result<()> {
    Ok(tcsetattr(to, OptionalActions::Now, modes)?)
}

/// Passes the size of standard input's terminal on. The kernel tells the programs on the other
/// one if it has changed. With `redraw` it changes in any case, so that they draw anew.
pub fn pass_size(to: impl AsFd, redraw: bool) -> io::Result<()> {
    let size = tcgetwinsize(io::stdin())?;
    if redraw && tcgetwinsize(&to)? == size {
        let other = Winsize {
            ws_row: size.ws_row.saturating_add(1),
            ..size
        };
        tcsetwinsize(&to, other)?;
    }
    Ok(tcsetwinsize(to, size)?)
}
