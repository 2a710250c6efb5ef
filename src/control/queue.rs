//! Frames that wait for a worker to read them: bounded in number and in bytes, so that one that
//! does not read costs little and blocks nobody.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// Frames that may wait.
const FRAMES_MAX: usize = 256;

/// There is no room: the worker does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it does not read its channel ({frames} frames, {bytes} bytes wait for it)")]
pub struct Full {
    /// Frames that wait.
    pub frames: usize,
    /// Bytes that wait.
    pub bytes: usize,
}

/// A bounded queue of encoded frames, of which the first may be sent by half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    frames: VecDeque<Vec<u8>>,
    sent: usize,
    bytes: usize,
    max: usize,
}

impl Queue {
    /// Holds at most `max` bytes, and any one frame when it is empty.
    pub fn new(max: usize) -> Self {
        Self {
            frames: VecDeque::new(),
            sent: 0,
            bytes: 0,
            max,
        }
    }

    /// With bytes that another queue had not sent yet; they need not begin with a frame.
    pub fn resumed(max: usize, unsent: Vec<u8>) -> Self {
        let mut queue = Self::new(max);
        if !unsent.is_empty() {
            queue.bytes = unsent.len();
            queue.frames.push_back(unsent);
        }
        queue
    }

    /// Would a frame of so many bytes be taken?
    pub fn has_room(&self, bytes: usize) -> bool {
        let too_many = self.frames.len() >= FRAMES_MAX;
        self.frames.is_empty() || !(too_many || self.bytes + bytes > self.max)
    }

    /// Puts a frame at the end.
    ///
    /// # Errors
    /// [`Full`]; then nothing was put.
    pub fn push(&mut self, frame: Vec<u8>) -> Result<(), Full> {
        if !self.has_room(frame.len()) {
            return Err(Full {
                frames: self.frames.len(),
                bytes: self.bytes,
            });
        }
        self.bytes += frame.len();
        self.frames.push_back(frame);
        Ok(())
    }

    /// What is to be sent next; empty when there is nothing.
    pub fn front(&self) -> &[u8] {
        self.frames
            .front()
            .and_then(|frame| frame.get(self.sent..))
            .unwrap_or_default()
    }

    /// So many bytes of [`Queue::front`] were sent.
    pub fn sent(&mut self, bytes: usize) {
        let bytes = bytes.min(self.front().len());
        self.sent += bytes;
        self.bytes -= bytes;
        if self.frames.front().is_some_and(|f| f.len() == self.sent) {
            self.frames.pop_front();
            self.sent = 0;
        }
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Everything that waits, in its order.
    pub fn unsent(&self) -> Vec<u8> {
        let rest = self.frames.iter().skip(1).flatten();
        self.front().iter().chain(rest).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_full_by_bytes_and_by_number() {
        let mut queue = Queue::new(10);
        assert_eq!(queue.push(vec![0; 30]), Ok(()), "one frame always fits");
        assert_eq!(
            queue.push(vec![0]),
            Err(Full {
                frames: 1,
                bytes: 30
            })
        );
        queue.sent(25);
        assert_eq!(queue.push(vec![0; 5]), Ok(()));
        let mut queue = Queue::new(usize::MAX);
        for _ in 0..FRAMES_MAX {
            assert_eq!(queue.push(vec![0]), Ok(()));
        }
        assert!(queue.push(vec![0]).is_err());
    }

    proptest! {
        #[test]
        fn bytes_leave_in_the_order_they_came_in_over_any_number_of_hands(
            frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..20),
            steps in proptest::collection::vec((0usize..30, any::<bool>()), 0..60),
        ) {
            let whole: Vec<u8> = frames.concat();
            let mut queue = Queue::new(usize::MAX);
            let (mut left, mut out) = (frames.into_iter(), Vec::new());
            for (n, hand_over) in steps {
                if let Some(frame) = left.next() {
                    queue.push(frame).unwrap();
                }
                let n = n.min(queue.front().len());
                out.extend_from_slice(&queue.front()[..n]);
                queue.sent(n);
                if hand_over {
                    queue = Queue::resumed(usize::MAX, queue.unsent());
                }
            }
            out.extend(queue.unsent());
            prop_assert!(whole.starts_with(&out));
            prop_assert_eq!(whole.len() - out.len(), left.map(|f| f.len()).sum::<usize>());
        }
    }
}
