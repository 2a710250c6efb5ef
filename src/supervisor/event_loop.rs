//! The event loop: what is ready is taken up in an order, each kind of work a share of a pass, so
//! that a flood of one holds up no other.

use std::time::{Duration, Instant};

use super::children::Ready;
use super::handle::Queued;
use super::timers::Key;
use super::{Inner, Stopped, Supervisor};
use crate::sys::{clock, systemd};
use crate::worker::Now;

/// What one kind of work may take of a pass of the loop before the others have their turn. One
/// thing may take longer; the next is not begun.
pub(super) const SHARE: Duration = Duration::from_micros(100);
/// Tasks that a call passes through one after the other on its way here or back, on this thread:
/// all of them get their turn before the next work of this task.
const HOPS: u32 = 4;
/// Channels and sweeps have their turn when nothing else is to be done, and at the latest after
/// so long.
const BACKGROUND_WAIT: Duration = Duration::from_millis(2);

enum Turn {
    Command(Queued),
    Ready,
    Inner(Inner),
    Signal(i32),
    Deadline,
    Doors,
    Time,
    Background,
}

/// The bus runs on this thread too.
async fn let_others() {
    for _ in 0..HOPS {
        tokio::task::yield_now().await;
    }
}

impl Supervisor {
    /// Runs until the service is to end; then everything is on disk.
    pub async fn run(mut self) -> Stopped {
        let mut ready = Vec::new();
        let mut last_background = Instant::now();
        self.watch_disk();
        self.correct_clock(clock::now());
        self.save_changed_rows();
        self.activity.reset(clock::now().mono);
        self.schedule_sweep(clock::now());
        self.look_for_idleness(clock::now());
        self.tell_watchdog(clock::now());
        loop {
            let turn = self.turn(&mut ready).await;
            let background = matches!(turn, Turn::Background);
            match turn {
                Turn::Command(command) => self.commands_in_batch(command),
                Turn::Ready => {
                    self.handle_ready(std::mem::take(&mut ready));
                    self.give_turns().await;
                }
                Turn::Inner(inner) => self.handle_inner(inner),
                Turn::Signal(signal) => self.handle_signal(signal),
                Turn::Time => self.give_turns().await,
                Turn::Doors => self.doors_answered(clock::now()),
                Turn::Deadline => self.handle_deadlines(clock::now()),
                // The pass below.
                Turn::Background => {}
            }
            if background || last_background.elapsed() >= BACKGROUND_WAIT {
                let (channels, sweep) = (self.channel_pass(), self.sweep_pass());
                if channels || sweep {
                    let_others().await;
                }
                last_background = Instant::now();
            }
            if let Some(stopped) = self.is_over(clock::now()) {
                self.close().await;
                return stopped;
            }
        }
    }

    async fn turn(&mut self, ready: &mut Vec<Ready>) -> Turn {
        let sleep = self.timers.next().map(|due| due.since(clock::now().mono));
        let time = async {
            match sleep {
                // A sleep of no length would wait for the reactor's next turn.
                Some(Duration::ZERO) => {}
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            signal = self.signals.recv() => Turn::Signal(signal),
            looked = self.children.ready(ready) => {
                if let Err(error) = looked {
                    tracing::error!(%error, "cannot watch the children");
                }
                Turn::Ready
            }
            Some(inner) = self.inner.recv() => Turn::Inner(inner),
            () = time => Turn::Time,
            () = self.deadlines.reached() => Turn::Deadline,
            () = self.leaving.answer() => Turn::Doors,
            // Nobody holds the handle any more: no command comes, the rest goes on.
            Some(command) = self.commands.recv() => Turn::Command(command),
            // Last: what workers write and what sweeps find waits for everything else.
            () = std::future::ready(()), if self.sweeps.has_work() => Turn::Background,
            looked = self.children.channel_ready(), if !self.is_reloading() => {
                if let Err(error) = looked {
                    tracing::error!(%error, "cannot watch the control channels");
                }
                Turn::Background
            }
        }
    }

    /// The children and the timers come first; what always has something to say must not make
    /// everybody else wait for ever.
    async fn give_turns(&mut self) {
        let began = Instant::now();
        while began.elapsed() < SHARE {
            match self.inner.try_recv() {
                Ok(inner) => self.handle_inner(inner),
                Err(_) => break,
            }
        }
        self.handle_time(clock::now());
        self.handle_deadlines(clock::now());
        if let Ok(command) = self.commands.try_recv() {
            self.commands_in_batch(command);
        }
        let_others().await;
    }

    /// Takes what else is waiting too, so that a burst of calls costs one round of the loop.
    fn commands_in_batch(&mut self, first: Queued) {
        let (began, now) = (Instant::now(), clock::now().mono);
        let mut next = Some(first);
        while let Some(queued) = next {
            self.counters.lag.add(now.since(queued.at));
            self.handle_command(queued.command);
            next = match began.elapsed() < SHARE {
                true => self.commands.try_recv().ok(),
                false => None,
            };
        }
    }

    fn handle_ready(&mut self, ready: Vec<Ready>) {
        let began = Instant::now();
        for ready in ready {
            // What is left is ready still, and the set says so again.
            if began.elapsed() >= SHARE {
                break;
            }
            match ready {
                Ready::Leader(node) => self.leader_ready(node),
                Ready::Leaf(node) => self.leaf_ready(node),
                Ready::Tracked(node) => self.tracked_ready(node),
                Ready::Helper(node) => self.helper_ready(node),
                Ready::Notify(node) => self.notify_ready(node, clock::now()),
                Ready::Attendance(key) => self.attendance_ended(key),
            }
        }
    }

    fn handle_inner(&mut self, inner: Inner) {
        match inner {
            Inner::Started(result) => self.start_ended(*result),
            Inner::StoppingSaved { node, durable } => self.stopping_saved(node, durable),
            Inner::Scanned(scan) => self.scanned(scan),
            Inner::Swept(swept) => self.swept(*swept),
            Inner::LookedAt(looked) => self.adopted(*looked),
            Inner::Restored(restored) => self.restored(*restored),
            Inner::OutputCut(cut) => self.output_cut(cut),
            Inner::HelperWanted(wish) => self.launch_helper(wish),
            Inner::HelperStarted(launched) => self.helper_started(*launched),
            Inner::HelperUnwanted(node) => self.kill_helper(node),
            Inner::ClearWanted(ids, dir) => self.clear_dir(ids, dir),
            Inner::Cleared => {}
            Inner::HookStarted(started) => self.hook_started(*started),
            Inner::TrialRuns { node, started } => self.trial_runs(node, *started),
            Inner::Tried { node, verdict } => self.tried(node, verdict),
            Inner::Asked { node, id, asked } => self.request_done(node, id, *asked),
        }
    }

    fn handle_signal(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => self.child_signal(clock::now()),
            libc::SIGTERM | libc::SIGINT => self.stop(clock::now()),
            _ => {}
        }
    }

    /// Takes up some of what is due; the rest is due still.
    fn handle_time(&mut self, now: Now) {
        let began = Instant::now();
        while began.elapsed() < SHARE
            && let Some((due, key)) = self.timers.pop(now.mono)
        {
            self.counters.lag.add(now.mono.since(due));
            match key {
                Key::Node(node) => self.tick(node),
                Key::Listen(node) => self.listen_again(node),
                Key::Stopping(node) => self.stops_too_long(node),
                Key::Life(node) => self.look_at_life(node, now),
                Key::Restart(id) => self.restart_due(id, now),
                Key::Hook(node) => self.end_hook(node, "took too long and was killed"),
                Key::LazySave => self.save_changed_rows(),
                Key::StaleLeaves => self.remove_stale_leaves(now),
                Key::Output => self.cut_output(),
                Key::Strangers => self.scan(),
                Key::Sweep => self.own_sweep(now),
                Key::Lookers => self.end_lookers(now),
                Key::Idle => self.look_for_idleness(now),
                Key::Watchdog => self.tell_watchdog(now),
                Key::Reload => self.reload_is_late(),
                Key::Drain => {}
            }
        }
    }

    /// Said from the loop, whose pass brought us here: a loop that hangs says nothing.
    fn tell_watchdog(&mut self, now: Now) {
        if let Some(interval) = self.set.watchdog {
            systemd::alive();
            self.timers
                .set(Key::Watchdog, Some(now.mono.plus(interval / 2)));
        }
    }
}
