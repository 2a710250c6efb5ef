//! The control channels of the workers, seen from the loop: frames in, frames out, and what
//! follows when a channel ends.
//!
//! However much a worker writes, it gets one slice of the loop's time and then waits for its
//! next turn; however little one reads, it holds up nobody.

use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::Supervisor;
use super::life::Promise;
use super::prepare::OwnEnd;
use super::settling::Terminal;
use super::socket::{Read, Socket};
use super::step::Event;
use crate::control::codec::{Half, Piece};
use crate::control::frame::{Down, Heard, Limits, Spawn, Up};
use crate::sys::clock;
use crate::worker::row::clip;
use crate::worker::{Exit, NodeId, Now, Row};

/// Bytes of one channel that are read in one turn.
const SLICE: usize = 8 * 1024;
/// Bytes that a leader left unread and that are handled together with its end; more of them
/// take turns like everybody's.
const SLICE_AT_END: usize = 32 * 1024;
/// Bytes that one channel may have read in its turn: some dozens of frames.
const TURN: usize = 1024;
/// What channels may take of a pass: a call waits for the end of it.
const CHANNELS_SHARE: Duration = Duration::from_micros(50);
/// Why a channel is gone, if nothing is wrong with it.
pub(super) const CLOSED: &str = "its end was closed";
/// Why a channel is gone that had not said all of what it began.
pub(super) const CUT: &str = "it ended within a frame";

/// What is kept of the reason, bytes: it may quote what the worker wrote.
const WHY_MAX: usize = 256;

impl Supervisor {
    /// Asks a worker for a `pong`. `false`: it has no channel.
    pub(super) fn ping(&mut self, node: NodeId, seq: u64) -> bool {
        self.tell(node, &Down::Ping { seq })
    }

    /// Tells a worker that its end was asked for. `false`: it has no channel.
    pub(super) fn tell_cancel(&mut self, node: NodeId, reason: &str) -> bool {
        self.tell(node, &Down::Cancel { reason })
    }

    /// Sends a frame. `false`: it has no channel, or none any more.
    pub(super) fn tell(&mut self, node: NodeId, frame: &Down<'_>) -> bool {
        match frame.encode() {
            Some(bytes) => self.tell_bytes(node, bytes),
            None => {
                tracing::warn!(%node, "a frame that is too long is not sent");
                self.socket(node).is_some()
            }
        }
    }

    pub(super) fn tell_bytes(&mut self, node: NodeId, frame: Vec<u8>) -> bool {
        let Some(socket) = self.socket(node) else {
            return false;
        };
        let behind = socket.is_behind();
        match socket.send(frame) {
            Ok(()) => {
                if socket.is_behind() != behind {
                    self.children.watch_channel(node);
                }
                true
            }
            // Gone: what it had written before is still to be read, and the end comes after it.
            Err(super::socket::Unsent::Io(_)) => false,
            Err(why @ super::socket::Unsent::Full(_)) => {
                self.end_channel(node, &why.to_string(), clock::now());
                false
            }
        }
    }

    /// The same with what may be refused: a frozen worker that cannot read keeps its channel.
    pub(super) fn offer_bytes(&mut self, node: NodeId, frame: Vec<u8>) -> bool {
        let full = self
            .socket(node)
            .is_some_and(|socket| !socket.has_room(frame.len()));
        if full && self.is_frozen_with_channel(node) {
            return false;
        }
        self.tell_bytes(node, frame)
    }

    pub(super) fn is_frozen_with_channel(&self, node: NodeId) -> bool {
        let child = self.children.get(node);
        child.is_some_and(|child| child.frozen && child.channel.is_some())
    }

    fn socket(&mut self, node: NodeId) -> Option<&mut Socket> {
        self.children.get_mut(node)?.channel.as_deref_mut()
    }

    /// A new worker's channel, with its first frame on it.
    pub(super) fn open_channel(&mut self, node: NodeId, end: OwnEnd) {
        let max_frame = self.set.config.limits.max_frame.0;
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        let (id, promise) = (child.id, child.life.promise);
        child.channel = Some(Box::new(Socket::new(end.fd, max_frame)));
        let Some(row) = self.registry.get(id) else {
            return;
        };
        let payload = end
            .payload
            .and_then(|text| RawValue::from_string(text).ok());
        let limits = self.told_limits(row, promise);
        let spawn = spawn_frame(row, node, payload.as_deref(), limits).encode();
        self.children.watch_channel(node);
        if let Some(frame) = spawn {
            self.tell_bytes(node, frame);
        }
    }

    fn told_limits(&self, row: &Row, promise: Promise) -> Limits {
        let usec = |length: Duration| u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        let plan = self.plan(row);
        Limits {
            deadline_usec: self.deadline_told(row).map(usec),
            idle_timeout_usec: promise.idle.map(usec),
            progress_timeout_usec: Some(usec(promise.progress)),
            pong_timeout_usec: promise.pong.map(usec),
            grace_usec: Some(usec(plan.grace)),
            tokens_max: row.limits.tokens_max,
            memory_max: row.limits.memory_max,
            tasks_max: row.limits.tasks_max,
            cpu_weight: row.limits.cpu_weight,
            cpu_max_percent: row.limits.cpu_max_percent,
            nice: row.limits.nice,
            max_frame: self.set.config.limits.max_frame.0,
        }
    }

    /// One turn for the channels that are ready, each a slice. `false`: none was.
    pub(super) fn channel_pass(&mut self) -> bool {
        // What is read now could be answered by the next image only.
        if !self.children.has_channels() || self.is_reloading() {
            return false;
        }
        let began = Instant::now();
        let mut had_one = false;
        while began.elapsed() < CHANNELS_SHARE {
            let ready = match self.children.ready_channels() {
                Ok(ready) if ready.is_empty() => break,
                Ok(ready) => ready,
                Err(error) => {
                    tracing::error!(%error, "cannot watch the control channels");
                    break;
                }
            };
            had_one = true;
            let now = clock::now();
            for node in &ready {
                self.channel_ready(*node, now);
            }
        }
        had_one
    }

    fn channel_ready(&mut self, node: NodeId, now: Now) {
        let Some(socket) = self.socket(node) else {
            return;
        };
        if socket.is_behind() {
            // An error comes back as the end when it is read.
            let _ = socket.flush();
            if !socket.is_behind() {
                self.children.watch_channel(node);
            }
        }
        self.read_channel(node, TURN, now);
    }

    /// Reads up to `most` bytes and handles what they complete. Answers how many there were.
    fn read_channel(&mut self, node: NodeId, most: usize, now: Now) -> usize {
        let mut buffer = [0; SLICE];
        let mut done = 0;
        while done < most {
            let Some(socket) = self.socket(node) else {
                break;
            };
            let room = SLICE.min(most - done);
            match socket.read(&mut buffer[..room]) {
                Ok(Read::Bytes(n)) => {
                    done += n;
                    self.frames_came(node, &buffer[..n], now);
                    self.owed(node, n);
                }
                Ok(Read::Nothing) => {
                    self.owed(node, usize::MAX);
                    break;
                }
                Ok(Read::End) => {
                    let why = if socket.decoder.is_between_frames() {
                        CLOSED
                    } else {
                        CUT
                    };
                    self.end_channel(node, why, now);
                    break;
                }
                Err(error) => {
                    self.end_channel(node, &format!("it cannot be read: {error}"), now);
                    break;
                }
            }
        }
        done
    }

    /// So much of what the ended leader had written has been read. After the last of it comes
    /// its end.
    fn owed(&mut self, node: NodeId, read: usize) {
        let Some(socket) = self.socket(node) else {
            return;
        };
        let Some((left, exit)) = socket.owed else {
            return;
        };
        let left = left.saturating_sub(read);
        socket.owed = (left > 0).then_some((left, exit));
        if left == 0 {
            self.on_event(node, Event::LeaderExited(exit));
        }
    }

    /// Handles the frames that a leader wrote before its end, as far as was written by now: a
    /// process that holds the other end too could go on for ever. `false`: they take turns, and
    /// the last one brings the end.
    pub(super) fn drain_channel(&mut self, node: NodeId, exit: Option<Exit>, now: Now) -> bool {
        let Some(socket) = self.socket(node) else {
            return true;
        };
        let unread = socket.unread();
        if let Some(exit) = exit.filter(|_| unread > SLICE_AT_END) {
            socket.owed = Some((unread, exit));
            return false;
        }
        self.read_channel(node, unread, now);
        true
    }

    fn frames_came(&mut self, node: NodeId, bytes: &[u8], now: Now) {
        let mut rest = bytes;
        loop {
            let Some(socket) = self.socket(node) else {
                return;
            };
            match socket.decoder.next(&mut rest) {
                Ok(None) => return,
                Ok(Some(Piece::TooLong(_))) => self.skipped(node, 1),
                Ok(Some(Piece::Frame(frame))) => match Up::read(&frame) {
                    Ok(Heard::Frame(up, fields)) => {
                        self.skipped(node, u64::from(fields));
                        self.heard(node, up, now);
                    }
                    Ok(Heard::Unknown | Heard::Malformed(_)) => self.skipped(node, 1),
                    Err(why) => return self.end_channel(node, &why.to_string(), now),
                },
                Err(why) => return self.end_channel(node, &why.to_string(), now),
            }
        }
    }

    fn skipped(&mut self, node: NodeId, n: u64) {
        if let Some(child) = self.children.get_mut(node) {
            child.skipped += n;
        }
    }

    fn heard(&mut self, node: NodeId, up: Up, now: Now) {
        match up {
            Up::Pong { .. } => return self.ponged(node, now),
            Up::Usage {
                input_tokens,
                output_tokens,
            } => return self.used(node, input_tokens, output_tokens, now),
            _ => self.progressed(node, now),
        }
        match up {
            Up::TurnDone(whole) => self.fold(node, Terminal::TurnDone, Some(whole), now),
            Up::Result { outcome } => self.fold(node, Terminal::Result, outcome, now),
            Up::Failed { error } => self.fold(node, Terminal::Failed(error), None, now),
            Up::Request { id, name, args } => self.request(node, id, &name, args.as_deref(), now),
            Up::Event { event } => {
                if let Some(child) = self.children.get(node) {
                    tracing::debug!(MUSTER_WORKER = child.id.as_str(), %event, "an event");
                }
            }
            Up::Ready | Up::Pong { .. } | Up::Usage { .. } => {}
        }
    }

    /// No channel any more. What follows for a worker that lives on is up to its signs of life.
    fn end_channel(&mut self, node: NodeId, why: &str, now: Now) {
        let Some(child) = self.children.get_mut(node) else {
            return;
        };
        let Some(socket) = child.channel.as_deref() else {
            return;
        };
        let owed = socket.owed;
        child.machine.channel_ended();
        let runs = child.machine.leader_runs();
        // Its leader has ended before: nothing follows from it, but the row is to say it.
        if (owed.is_some() || !runs) && why != CLOSED {
            child.lost.get_or_insert_with(|| clip(why, WHY_MAX).into());
        }
        self.children.close_channel(node);
        match owed {
            Some((_, exit)) => self.on_event(node, Event::LeaderExited(exit)),
            None if runs => self.channel_lost(node, &clip(why, WHY_MAX), now),
            None => {}
        }
    }
}

fn spawn_frame<'a>(
    row: &'a Row,
    node: NodeId,
    payload: Option<&'a RawValue>,
    limits: Limits,
) -> Down<'a> {
    Down::Spawn(Box::new(Spawn {
        worker: row.id,
        node: node.0,
        name: &row.name,
        kind: &row.kind,
        label: row.kind.label(),
        parent: row.parent,
        depth: row.depth,
        msg_depth: row.msg_depth,
        trace_id: &row.trace_id,
        payload,
        limits,
    }))
}

/// A half-read frame in words that a hand-over can carry: base 16.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String never fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The inverse of [`to_hex`].
pub(super) fn from_hex(text: &str) -> std::io::Result<Vec<u8>> {
    let bad = || std::io::Error::new(std::io::ErrorKind::InvalidData, "bytes are no base 16");
    text.as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok();
            // A sign would be understood as well.
            let digits = |p: &&str| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit());
            pair.filter(digits)
                .and_then(|p| u8::from_str_radix(p, 16).ok())
                .ok_or_else(bad)
        })
        .collect()
}

/// For a hand-over.
pub(super) fn half_of(bytes: &str, skip: u32) -> std::io::Result<Half> {
    Ok(Half {
        bytes: from_hex(bytes)?,
        skip,
    })
}

#[cfg(test)]
mod tests {
    use super::{from_hex, to_hex};

    #[test]
    fn every_byte_survives_base_16() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&all)).unwrap(), all);
        for bad in ["0", "0g", "+1", "é"] {
            assert!(from_hex(bad).is_err(), "{bad}");
        }
    }
}
