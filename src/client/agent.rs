//! polkit's agent for a terminal: asks for the password that a call needs, as systemctl does.

use std::io::{IsTerminal, Read, pipe};
use std::process::{Child, Command, Stdio};

/// A running `pkttyagent`; ended when dropped.
#[derive(Debug)]
pub struct Agent(Child);

impl Agent {
    /// Starts it for this process, and returns once polkit knows it. `None` where there is no
    /// terminal to ask on or no such program.
    pub fn start() -> Option<Self> {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        let (mut registered, end) = pipe().ok()?;
        // It closes descriptor 1 once it is registered; it speaks on /dev/tty.
        let child = Command::new("pkttyagent")
            .args(["--notify-fd", "1", "--fallback", "--process"])
            .arg(std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(end)
            .spawn()
            .ok()?;
        let agent = Self(child);
        let mut nothing = [0];
        let _ = registered.read(&mut nothing);
        Some(agent)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // SIGTERM lets it put the terminal's echo back.
        if let Ok(pid) = i32::try_from(self.0.id()) {
            let pid = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.0.wait();
    }
}
