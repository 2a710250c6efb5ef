//! Frames in a stream of bytes: a length of four bytes, big-endian, then one JSON object.
//!
//! Bytes come in as they come; what is kept of an unfinished frame is bounded, and can be handed
//! to another decoder.

#![forbid(unsafe_code)]

/// Bytes of the length before a frame.
pub const HEAD: usize = 4;

/// A length above this is no length: the two sides have lost each other.
pub const ABSURD: u32 = 64 * 1024 * 1024;

/// One thing found in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The bytes of one frame.
    Frame(Vec<u8>),
    /// A frame of this length began that is longer than allowed; it is skipped.
    TooLong(u32),
}

/// The stream cannot be understood any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// A length above [`ABSURD`].
    #[error("a frame of {0} bytes was announced; nothing over {ABSURD} is a frame")]
    Absurd(u32),
    /// A length of 0: not even `{}`.
    #[error("a frame of 0 bytes was announced")]
    Empty,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Head(Vec<u8>),
    Body { length: u32, got: Vec<u8> },
    Skip { left: u32 },
}

/// What another decoder needs in order to go on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Half {
    /// Bytes of an unfinished frame, its length included.
    pub bytes: Vec<u8>,
    /// Bytes of a frame that are still to be skipped. One of the two is empty.
    pub skip: u32,
}

/// Cuts frames out of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoder {
    max: u32,
    state: State,
}

impl Decoder {
    /// Frames of more than `max` bytes are skipped.
    pub fn new(max: u32) -> Self {
        Self {
            max: max.min(ABSURD),
            state: State::Head(Vec::new()),
        }
    }

    /// Goes on where another decoder stopped, also one with another `max`.
    pub fn resumed(max: u32, half: Half) -> Self {
        let mut decoder = Self::new(max);
        if half.skip > 0 {
            decoder.state = State::Skip { left: half.skip };
        } else {
            // What another release took for an unfinished frame is one to us, or the next bytes
            // will say that it is none.
            let mut bytes = half.bytes.as_slice();
            while let Ok(Some(_)) = decoder.next(&mut bytes) {}
        }
        decoder
    }

    /// What [`Decoder::resumed`] needs.
    pub fn half(&self) -> Half {
        match &self.state {
            State::Head(got) => Half {
                bytes: got.clone(),
                skip: 0,
            },
            State::Body { length, got } => Half {
                bytes: [&length.to_be_bytes()[..], got].concat(),
                skip: 0,
            },
            State::Skip { left } => Half {
                bytes: Vec::new(),
                skip: *left,
            },
        }
    }

    /// Nothing of a frame has been read.
    pub fn is_between_frames(&self) -> bool {
        matches!(&self.state, State::Head(got) if got.is_empty())
    }

    /// The next piece, taken off the front of `bytes`; `None` when all of them are used up.
    ///
    /// # Errors
    /// [`Lost`] ends the stream; nothing after it can be told apart.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Piece>, Lost> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Head(got) => {
                    got.extend_from_slice(take(bytes, HEAD - got.len()));
                    let Ok(head) = <[u8; HEAD]>::try_from(got.as_slice()) else {
                        continue;
                    };
                    match u32::from_be_bytes(head) {
                        0 => return Err(Lost::Empty),
                        length if length > ABSURD => return Err(Lost::Absurd(length)),
                        length if length > self.max => {
                            self.state = State::Skip { left: length };
                            return Ok(Some(Piece::TooLong(length)));
                        }
                        length => {
                            let got = Vec::new();
                            self.state = State::Body { length, got };
                        }
                    }
                }
                State::Body { length, got } => {
                    let missing = to_usize(*length) - got.len();
                    got.extend_from_slice(take(bytes, missing));
                    if got.len() == to_usize(*length) {
                        let frame = std::mem::take(got);
                        self.state = State::Head(Vec::new());
                        return Ok(Some(Piece::Frame(frame)));
                    }
                }
                State::Skip { left } => {
                    let skipped = take(bytes, to_usize(*left)).len();
                    *left -= u32::try_from(skipped).unwrap_or(*left);
                    if *left == 0 {
                        self.state = State::Head(Vec::new());
                    }
                }
            }
        }
        Ok(None)
    }
}

fn take<'b>(bytes: &mut &'b [u8], most: usize) -> &'b [u8] {
    let (front, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    front
}

fn to_usize(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A frame with its length before it. `None` if it is too long to be one.
pub fn encode(json: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(json.len())
        .ok()
        .filter(|n| (1..=ABSURD).contains(n))?;
    Some([&length.to_be_bytes()[..], json].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(decoder: &mut Decoder, chunks: &[&[u8]]) -> Result<Vec<Piece>, Lost> {
        let mut found = Vec::new();
        for chunk in chunks {
            let mut rest = *chunk;
            while let Some(piece) = decoder.next(&mut rest)? {
                found.push(piece);
            }
        }
        Ok(found)
    }

    #[test]
    fn a_length_that_is_none_ends_the_stream() {
        for (head, lost) in [
            ([0, 0, 0, 0], Lost::Empty),
            ([4, 0, 0, 1], Lost::Absurd(ABSURD + 1)),
            (*b"Hell", Lost::Absurd(0x4865_6c6c)),
        ] {
            assert_eq!(all(&mut Decoder::new(9), &[&head]), Err(lost));
        }
    }

    #[test]
    fn a_frame_of_just_the_greatest_length_is_taken_and_one_more_is_skipped() {
        let mut bytes = encode(b"123456789").unwrap();
        bytes.extend(encode(b"1234567890").unwrap());
        bytes.extend(encode(b"{}").unwrap());
        let pieces = all(&mut Decoder::new(9), &[&bytes]).unwrap();
        let expected = vec![
            Piece::Frame(b"123456789".to_vec()),
            Piece::TooLong(10),
            Piece::Frame(b"{}".to_vec()),
        ];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn nothing_that_is_no_frame_is_encoded() {
        assert_eq!(encode(b""), None);
        assert_eq!(encode(b"{}"), Some(b"\0\0\0\x02{}".to_vec()));
    }

    fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..12)
    }

    /// Mostly lengths that mean something, and mostly not what follows them.
    fn noise() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..30),
            (0u32..50).prop_map(|n| n.to_be_bytes().to_vec()),
            (1u32..40).prop_map(|n| encode(&vec![b'x'; n as usize]).unwrap()),
            Just(u32::MAX.to_be_bytes().to_vec()),
        ];
        proptest::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
    }

    fn chunked<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
        let mut at: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_the_bytes_are_cut(
            frames in frames(), max in 1u32..40, cuts in proptest::collection::vec(any::<usize>(), 0..20),
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|f| encode(f).unwrap()).collect();
            let expected: Vec<Piece> = frames.iter().map(|f| match u32::try_from(f.len()).unwrap() {
                n if n > max => Piece::TooLong(n),
                _ => Piece::Frame(f.clone()),
            }).collect();
            let mut decoder = Decoder::new(max);
            prop_assert_eq!(all(&mut decoder, &chunked(&bytes, &cuts)), Ok(expected));
            prop_assert!(decoder.is_between_frames());
        }

        #[test]
        fn whatever_comes_in_the_cuts_change_nothing_and_memory_stays_bounded(
            bytes in noise(), max in 1u32..40, cuts in proptest::collection::vec(any::<usize>(), 0..30),
        ) {
            let whole = all(&mut Decoder::new(max), &[&bytes]);
            let mut decoder = Decoder::new(max);
            let mut found = Vec::new();
            let mut lost = None;
            'bytes: for chunk in chunked(&bytes, &cuts) {
                let mut rest = chunk;
                loop {
                    match decoder.next(&mut rest) {
                        Ok(Some(piece)) => found.push(piece),
                        Ok(None) => break,
                        Err(why) => { lost = Some(why); break 'bytes; }
                    }
                }
                prop_assert!(decoder.half().bytes.len() <= HEAD + max as usize);
            }
            prop_assert_eq!(whole, lost.map_or(Ok(found), Err));
        }

        #[test]
        fn a_decoder_can_be_replaced_at_any_byte(
            frames in frames(), max in 1u32..40, cuts in proptest::collection::vec(any::<usize>(), 0..20),
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|f| encode(f).unwrap()).collect();
            let whole = all(&mut Decoder::new(max), &[&bytes]);
            let mut decoder = Decoder::new(max);
            let mut found = Vec::new();
            for chunk in chunked(&bytes, &cuts) {
                found.extend(all(&mut decoder, &[chunk]).unwrap());
                decoder = Decoder::resumed(max, decoder.half());
            }
            prop_assert_eq!(whole, Ok(found));
        }
    }
}
