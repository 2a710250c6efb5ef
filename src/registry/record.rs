//! The shape of one row's file: TOML, a schema version, and every key nobody here knows.

use crate::worker::{Row, WorkerId};

/// The schema this version writes.
pub const SCHEMA: u64 = 1;

/// Keys of a file that this version does not know, with their tables; they survive a rewrite.
pub type Extra = Option<Box<toml::Table>>;

/// A file that was understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Loaded {
    /// A row of this schema.
    Row(Box<Row>, Extra),
    /// A row that a newer version wrote: shown as far as it is understood, never rewritten and
    /// never collected.
    Newer {
        /// Its id, from the file name.
        id: WorkerId,
        /// Its schema.
        schema: u64,
        /// What was understood of it.
        shown: Box<Row>,
    },
}

/// Why a file is no row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A length of 0.
    #[error("the file is empty")]
    Empty,
    /// NUL bytes, as a power cut leaves them where a file was not synced.
    #[error("the file holds NUL bytes")]
    Zeros,
    /// Not UTF-8.
    #[error("the file is not UTF-8 text (byte {0})")]
    NotUtf8(usize),
    /// Not TOML; also duplicate keys.
    #[error("line {line}: {what}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// What the parser says.
        what: String,
    },
    /// A key's value is unusable, or a key is missing.
    #[error("key {key:?}: {why}")]
    Key {
        /// With its table, as `process.pid`.
        key: String,
        /// What is wrong.
        why: String,
    },
}

/// The text of a row's file.
pub fn encode(row: &Row, extra: &Extra) -> String {
    let _ = (row, extra);
    todo!()
}

/// Reads a row's file. `id` is the one in the file's name; the one inside must be equal.
pub fn decode(id: WorkerId, text: &[u8]) -> Result<Loaded, RecordError> {
    let _ = (id, text);
    todo!()
}
