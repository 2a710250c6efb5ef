//! Names of workers: the id that stays with a row for ever, and the node number of a live child.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Crockford's base 32 in lower case: no `i`, `l`, `o`, `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The id of a row: 8 characters of lower-case base 32 without look-alikes (section 2).
///
/// It is also the file name, the object path element, the leaf's name and the journal
/// identifier, so nothing but these characters can ever be in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId([u8; 8]);

/// The text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a worker id (8 characters of 0-9 and a-z without i, l, o, u)")]
pub struct ParseIdError(pub String);

impl WorkerId {
    /// An id from 40 random bits; the caller brings the randomness.
    pub fn from_bits(bits: u64) -> Self {
        let mut text = [0; 8];
        for (place, byte) in text.iter_mut().enumerate() {
            *byte = ALPHABET[(bits >> (5 * place)) as usize & 31];
        }
        Self(text)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        // Only bytes of ALPHABET are ever stored, so this never falls back.
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

impl FromStr for WorkerId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bytes: [u8; 8] = text
            .as_bytes()
            .try_into()
            .map_err(|_| ParseIdError(text.to_owned()))?;
        if bytes.iter().all(|b| ALPHABET.contains(b)) {
            Ok(Self(bytes))
        } else {
            Err(ParseIdError(text.to_owned()))
        }
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for WorkerId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for WorkerId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// The number of a child in the live table. Never used twice in a daemon's life (section 5).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_text() {
        for bits in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let id = WorkerId::from_bits(bits);
            assert_eq!(id.as_str().parse(), Ok(id));
        }
    }

    #[test]
    fn look_alikes_paths_and_wrong_lengths_are_refused() {
        for text in [
            "",
            "abc",
            "abcdefgi",
            "ABCDEFGH",
            "../../xx",
            "abcdefgh1",
            "abcdefg\n",
        ] {
            assert!(text.parse::<WorkerId>().is_err(), "{text:?}");
        }
    }
}
