//! The shape of one row's file: TOML, a schema version, and every key nobody here knows.
//!
//! Top-level keys come first, `schema` before all, then one table for what belongs together.
//! Unknown keys, at the top and inside known tables, survive a rewrite. `docs/state.md` and the
//! fixtures under `tests/fixtures/rows` hold the shape; what was readable once stays readable.

use toml::de::{DeTable, DeValue};

use super::field::{Field, keep, quote};
use super::tables::{self, Table};
use crate::worker::{Owner, Row, Status, Timestamp, WorkerId};

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

impl Loaded {
    /// The row, whoever wrote it.
    pub fn row(&self) -> &Row {
        match self {
            Loaded::Row(row, _) | Loaded::Newer { shown: row, .. } => row,
        }
    }
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
    /// Larger than any row can be.
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    /// Not TOML; also duplicate keys.
    #[error("line {line}: {what}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// What the parser says.
        what: String,
    },
    /// A key's value is unusable, or a key is missing.
    #[error("key {key:?} {why}")]
    Key {
        /// With its table, as `process.pid`.
        key: String,
        /// What is wrong.
        why: String,
    },
}

pub(super) fn bad(key: impl Into<String>, why: impl Into<String>) -> RecordError {
    RecordError::Key {
        key: key.into(),
        why: why.into(),
    }
}

/// The fields of a row that are top-level keys, in the order of the file.
macro_rules! top_level {
    ($with:ident!($($args:tt)*)) => {
        $with!($($args)*
            name status argv cwd worktree worktree_mount parent depth msg_depth created started exited outcome how_known
            oom_killed rung took processes note failure frames_skipped settled held adopted restarts control restart
            restart_max leftovers_policy trace_id pgid leaf runtime_dir output output_dropped
            journal generation
        )
    };
}

/// The text of a row's file.
pub fn encode(row: &Row, extra: &Extra) -> String {
    let mut out = String::with_capacity(1024);
    let extra = extra.as_deref();
    let mut top = Lines::new(&mut out, extra);
    top.put("schema", &SCHEMA);
    top.put("id", &row.id);
    macro_rules! put {
        ($($field:ident)*) => { $( top.put(stringify!($field), &row.$field); )* };
    }
    top_level!(put!());
    let tables = top.rest(tables::NAMES);

    let mut table = |name: &str, value: &dyn Table| {
        let inner = extra.and_then(|e| e.get(name)).and_then(|v| v.as_table());
        write_table(&mut out, name, value, inner);
    };
    table("owner", &row.owner);
    table("kind", &row.kind);
    table("process", &row.process);
    table("exit", &row.exit);
    table("cancelled", &row.cancelled);
    table("tokens", &row.tokens);
    table("leftovers", &row.leftovers);
    table("limits", &*row.limits);
    table("timeouts", &*row.timeouts);
    table("ending", &*row.ending);
    if !tables.is_empty() {
        out.push('\n');
        // A table of kept values always has a text; were it not so, the known keys are there.
        out.push_str(&toml::to_string(&tables).unwrap_or_default());
    }
    out
}

fn write_table(out: &mut String, name: &str, value: &dyn Table, extra: Option<&toml::Table>) {
    let before = out.len();
    out.push_str("\n[");
    out.push_str(name);
    out.push_str("]\n");
    let start = out.len();
    let mut lines = Lines::new(out, extra);
    value.write(&mut lines);
    for (key, value) in lines.rest(&[]) {
        write_kept(out, &key, &value);
    }
    if out.len() == start {
        out.truncate(before);
    }
}

fn write_kept(out: &mut String, key: &str, value: &toml::Value) {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !key.is_empty() && key.bytes().all(bare) {
        out.push_str(key);
    } else {
        quote(key, out);
    }
    out.push_str(" = ");
    out.push_str(&value.to_string());
    out.push('\n');
}

/// Key by key into one table, known keys before kept ones.
pub(super) struct Lines<'a> {
    out: &'a mut String,
    extra: Option<&'a toml::Table>,
    written: Vec<&'static str>,
}

impl<'a> Lines<'a> {
    fn new(out: &'a mut String, extra: Option<&'a toml::Table>) -> Self {
        Self {
            out,
            extra,
            written: Vec::new(),
        }
    }

    /// Leaves out what is unset.
    pub(super) fn put<F: Field>(&mut self, key: &'static str, value: &F) {
        if !value.is_unset() {
            self.put_always(key, value);
        }
    }

    pub(super) fn put_always<F: Field>(&mut self, key: &'static str, value: &F) {
        self.out.push_str(key);
        self.out.push_str(" = ");
        value.write(self.out);
        self.out.push('\n');
        if self.extra.is_some() {
            self.written.push(key);
        }
    }

    /// Writes the kept keys that are plain values, and answers those that need a table of their
    /// own (they come after all plain ones). Keys in `known` belong to somebody else.
    fn rest(self, known: &[&str]) -> toml::Table {
        let mut tables = toml::Table::new();
        for (key, value) in self.extra.into_iter().flatten() {
            if known.contains(&key.as_str()) || self.written.contains(&key.as_str()) {
                continue;
            }
            if value.is_table() || is_tables(value) {
                tables.insert(key.clone(), value.clone());
            } else {
                write_kept(self.out, key, value);
            }
        }
        tables
    }
}

fn is_tables(value: &toml::Value) -> bool {
    value
        .as_array()
        .is_some_and(|items| !items.is_empty() && items.iter().all(toml::Value::is_table))
}

/// Reads a row's file. `id` is the one in the file's name; the one inside must be equal.
pub fn decode(id: WorkerId, text: &[u8]) -> Result<Loaded, RecordError> {
    if text.is_empty() {
        return Err(RecordError::Empty);
    }
    let text = std::str::from_utf8(text).map_err(|e| RecordError::NotUtf8(e.valid_up_to()))?;
    let mut table = DeTable::parse(text)
        .map_err(|error| syntax(text, &error))?
        .into_inner();
    let schema = match table.remove("schema") {
        None => Err(bad("schema", "is missing")),
        Some(value) => match u64::read(value.into_inner()) {
            Ok(0) => Err(bad("schema", "is 0")),
            Ok(schema) => Ok(schema),
            Err(why) => Err(bad("schema", why)),
        },
    }?;
    let mut reader = Reader {
        row: Row::new(id, Owner { uid: 0, gid: 0 }, Timestamp(0)),
        extra: toml::Table::new(),
        lenient: schema > SCHEMA,
    };
    reader.row.status = Status::Exited;
    reader.all(table)?;
    if schema > SCHEMA {
        return Ok(Loaded::Newer {
            id,
            schema,
            shown: Box::new(reader.row),
        });
    }
    let extra = (!reader.extra.is_empty()).then(|| Box::new(reader.extra));
    Ok(Loaded::Row(Box::new(reader.row), extra))
}

fn syntax(text: &str, error: &toml::de::Error) -> RecordError {
    if text.contains('\0') {
        return RecordError::Zeros;
    }
    let at = error.span().map_or(text.len(), |s| s.start.min(text.len()));
    RecordError::Syntax {
        line: text.as_bytes()[..at]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1,
        what: error.message().replace('\n', ", "),
    }
}

/// Keys that must be there; everything else has a meaning when it is missing.
const REQUIRED: [&str; 4] = ["id", "status", "created", "owner"];

struct Reader {
    row: Row,
    extra: toml::Table,
    /// A newer version's file: what is not understood is left out.
    lenient: bool,
}

impl Reader {
    fn all(&mut self, table: DeTable<'_>) -> Result<(), RecordError> {
        if !self.lenient
            && let Some(key) = REQUIRED.iter().find(|key| !table.contains_key(**key))
        {
            return Err(bad(*key, "is missing"));
        }
        for (key, value) in table {
            match self.one(key.get_ref(), value.into_inner()) {
                Err(error) if !self.lenient => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn one(&mut self, key: &str, value: DeValue<'_>) -> Result<(), RecordError> {
        macro_rules! fields {
            ($($field:ident)*) => {
                match key {
                    "id" => return self.id(value),
                    // The number may be this daemon's own by now; see tables::process.
                    "pgid" => tables::pid(value).map(|pid| self.row.pgid = pid),
                    $( stringify!($field) => Field::read(value).map(|v| self.row.$field = v), )*
                    _ => return self.table(key, value),
                }
            };
        }
        #[allow(unreachable_patterns, reason = "pgid is read before its own arm")]
        let result: Result<(), String> = top_level!(fields!());
        result.map_err(|why| bad(key, why))
    }

    fn id(&self, value: DeValue<'_>) -> Result<(), RecordError> {
        match WorkerId::read(value) {
            Ok(id) if id == self.row.id => Ok(()),
            Ok(id) => Err(bad(
                "id",
                format!("is {id}, but the file's name says {}", self.row.id),
            )),
            Err(why) => Err(bad("id", why)),
        }
    }

    fn table(&mut self, key: &str, value: DeValue<'_>) -> Result<(), RecordError> {
        if !tables::NAMES.contains(&key) {
            let kept = keep(value).map_err(|why| bad(key, why))?;
            self.extra.insert(key.to_owned(), kept);
            return Ok(());
        }
        let DeValue::Table(table) = value else {
            return Err(bad(
                key,
                format!("is of type {}, not table", value.type_str()),
            ));
        };
        let mut rest = toml::Table::new();
        tables::read(&mut self.row, key, table, &mut rest)?;
        if !rest.is_empty() {
            self.extra.insert(key.to_owned(), toml::Value::Table(rest));
        }
        Ok(())
    }
}
