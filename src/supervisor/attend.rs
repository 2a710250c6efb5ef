//! Who is there: a worker counts as attended while a descriptor that Attend gave out is open.
//! It is the reading end of a pipe, of which we hold the other: when the last reader has gone,
//! ours reports it, and when ours goes, a reader sees the end.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Supervisor;
use super::handle::{Caller, Change, Command, Handle};
use super::refused::Refused;
use super::step::Event;
use crate::worker::NodeId;

/// Attendances of one worker at once.
const MOST: usize = 16;

impl Handle {
    /// A descriptor that says somebody is there for as long as it is open.
    pub async fn attend(&self, by: Caller, worker: String) -> Result<OwnedFd, Refused> {
        self.ask(|r| Command::Attend(by, worker, r)).await
    }
}

impl Supervisor {
    pub(super) fn attend(&mut self, by: &Caller, worker: &str) -> Result<OwnedFd, Refused> {
        let (id, node) = self.running(by, worker)?;
        let there = self.children.get(node).map_or(0, |c| c.attendances.len());
        if there >= MOST {
            let why = format!("worker {id} is attended {MOST} times already");
            return Err(Refused::TooMany(why));
        }
        let cannot = |e: std::io::Error| Refused::Io(format!("cannot attend worker {id}: {e}"));
        let (theirs, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|e| cannot(e.into()))?;
        self.children.add_attendance(node, ours).map_err(cannot)?;
        self.watch_life(node);
        let _ = self.changes.send(Change::Changed(id));
        Ok(theirs)
    }

    /// Who held this has gone.
    pub(super) fn attendance_ended(&mut self, key: NodeId) {
        let Some(node) = self.children.end_attendance(key) else {
            return;
        };
        let Some(child) = self.children.get(node) else {
            return;
        };
        let (id, attended, tty) = (child.id, child.attended, child.tty);
        if attended > 0 {
            return;
        }
        if tty {
            // Whoever held its terminal has gone, and the kernel hangs it up: an end by that was
            // asked for.
            self.on_event(node, Event::Signalled(libc::SIGHUP));
        }
        self.watch_life(node);
        let _ = self.changes.send(Change::Changed(id));
    }

    /// Looks before an exit is handled: who hung up first must not be seen second.
    pub(super) fn look_at_attendances(&mut self, node: NodeId) {
        let gone = |fd: &OwnedFd| {
            let mut fds = [PollFd::new(fd, PollFlags::empty())];
            matches!(poll(&mut fds, Some(&Timespec::default())), Ok(n) if n > 0)
        };
        let gone: Vec<NodeId> = self.children.get(node).map_or_else(Vec::new, |child| {
            let all = child.attendances.iter();
            all.filter(|(_, fd)| gone(fd))
                .map(|(key, _)| *key)
                .collect()
        });
        for key in gone {
            self.attendance_ended(key);
        }
    }
}
