//! The roll: every row in memory, and its durable shape on disk.
//!
//! [`Registry`] is plain data with indexes. It knows no bus, reads no clock and does no I/O; its
//! owner passes what changed to the [`Writer`](writer::Writer). Specification section 2.

mod batch;
#[cfg(test)]
mod bench_disk;
mod disk;
mod field;
mod index;
pub mod record;
#[cfg(test)]
mod record_tests;
#[cfg(test)]
mod registry_tests;
mod resolve;
mod spares;
#[cfg(test)]
mod spares_tests;
pub mod store;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
pub(crate) mod strategies;
mod tables;
pub mod writer;
#[cfg(test)]
mod writer_tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;

use index::Index;
pub use record::Extra;
pub use resolve::{CANDIDATES_MAX, ResolveError};

use crate::worker::{Owner, Row, Status, WorkerId};

/// A row cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Not on the roll.
    #[error("no worker {0} on the roll")]
    NoSuch(WorkerId),
    /// Written by a newer version; kept byte for byte.
    #[error("worker {0} was written by a newer musterd and is read-only here")]
    ReadOnly(WorkerId),
}

/// What [`Registry::finish`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// The end is written; the new generation.
    Now(u64),
    /// The row had ended before; nothing was changed. Its generation.
    Already(u64),
}

/// One row with what belongs to it on disk.
#[derive(Debug)]
pub struct Entry {
    row: Box<Row>,
    extra: Extra,
    newer: Option<u64>,
}

impl Entry {
    /// The row.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// Its schema, if a newer version wrote it; such a row is shown and never changed.
    pub fn newer_schema(&self) -> Option<u64> {
        self.newer
    }

    /// The text of its file; `None` for a row that must not be rewritten.
    pub fn encode(&self) -> Option<String> {
        self.newer
            .is_none()
            .then(|| record::encode(&self.row, &self.extra))
    }
}

/// Rows of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnerCount {
    /// All rows.
    pub rows: u64,
    /// Those that are not terminal.
    pub active: u64,
}

/// The roll in memory. The cost of one row's operations does not grow with the roll (but for
/// the depth of a tree).
#[derive(Debug, Default)]
pub struct Registry {
    rows: BTreeMap<WorkerId, Entry>,
    names: Index,
    handles: Index,
    children: BTreeSet<(WorkerId, WorkerId)>,
    by_status: [u64; Status::ALL.len()],
    by_owner: HashMap<u32, OwnerCount>,
}

impl Registry {
    /// An empty roll.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a row on the roll. Refused (the row comes back) if its id is there already.
    pub fn insert(&mut self, row: impl Into<Box<Row>>, extra: Extra) -> Result<(), Box<Row>> {
        self.put(Entry {
            row: row.into(),
            extra,
            newer: None,
        })
    }

    /// Puts a row on the roll that a newer version wrote: shown, never changed.
    pub fn insert_newer(
        &mut self,
        shown: impl Into<Box<Row>>,
        schema: u64,
    ) -> Result<(), Box<Row>> {
        self.put(Entry {
            row: shown.into(),
            extra: None,
            newer: Some(schema),
        })
    }

    /// Puts what [`store::Store::load`] or [`store::Store::load_reaped`] found on the roll.
    pub fn insert_loaded(&mut self, loaded: record::Loaded) -> Result<(), Box<Row>> {
        match loaded {
            record::Loaded::Row(row, extra) => self.insert(row, extra),
            record::Loaded::Newer { schema, shown, .. } => self.insert_newer(shown, schema),
        }
    }

    fn put(&mut self, entry: Entry) -> Result<(), Box<Row>> {
        if self.rows.contains_key(&entry.row.id) {
            return Err(entry.row);
        }
        self.count(&entry.row, true);
        self.index(&entry.row);
        self.rows.insert(entry.row.id, entry);
        Ok(())
    }

    /// One row.
    pub fn get(&self, id: WorkerId) -> Option<&Row> {
        self.rows.get(&id).map(Entry::row)
    }

    /// One row with what belongs to it on disk.
    pub fn entry(&self, id: WorkerId) -> Option<&Entry> {
        self.rows.get(&id)
    }

    /// Was it written by a newer version?
    pub fn is_read_only(&self, id: WorkerId) -> bool {
        self.entry(id).is_some_and(|e| e.newer.is_some())
    }

    /// The text of a row's file; `None` for no such row or one that must not be rewritten.
    pub fn encode(&self, id: WorkerId) -> Option<String> {
        self.entry(id).and_then(Entry::encode)
    }

    /// Changes a row; answers its new generation. Id and generation are not the caller's to
    /// set, and once a row is terminal with an outcome, status, outcome, how known and exit
    /// stay: the first terminal write wins.
    pub fn update(
        &mut self,
        id: WorkerId,
        change: impl FnOnce(&mut Row),
    ) -> Result<u64, ChangeError> {
        let entry = self.rows.get_mut(&id).ok_or(ChangeError::NoSuch(id))?;
        if entry.newer.is_some() {
            return Err(ChangeError::ReadOnly(id));
        }
        let before = Keys::of(&entry.row);
        let end = Ended::of(&entry.row);
        let generation = entry.row.generation.saturating_add(1);
        change(&mut entry.row);
        entry.row.id = id;
        entry.row.generation = generation;
        if let Some(end) = end {
            end.put_back(&mut entry.row);
        }
        if !before.are_of(&entry.row) {
            self.reindex(id, &before);
        }
        Ok(generation)
    }

    /// Gives a row another parent. Its generation stays: a verdict that was made does not rest on
    /// the parent. `false` if nothing was changed.
    pub fn hand_on(&mut self, id: WorkerId, to: Option<WorkerId>) -> bool {
        let Some(entry) = self.rows.get_mut(&id).filter(|e| e.newer.is_none()) else {
            return false;
        };
        let before = Keys::of(&entry.row);
        entry.row.parent = to;
        self.reindex(id, &before);
        true
    }

    /// Writes a row's end. `end` sets status, outcome and what goes with them; it is not called
    /// for a row that is terminal with an outcome.
    pub fn finish(
        &mut self,
        id: WorkerId,
        end: impl FnOnce(&mut Row),
    ) -> Result<Finished, ChangeError> {
        let row = self.get(id).ok_or(ChangeError::NoSuch(id))?;
        if Ended::of(row).is_some() {
            return Ok(Finished::Already(row.generation));
        }
        self.update(id, end).map(Finished::Now)
    }

    /// Takes a row off the roll.
    pub fn remove(&mut self, id: WorkerId) -> Option<Entry> {
        let entry = self.rows.remove(&id)?;
        self.count(&entry.row, false);
        self.unindex(id, &Keys::of(&entry.row));
        Some(entry)
    }

    /// Every row, sorted by id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Row> {
        self.rows.values().map(Entry::row)
    }

    /// Rows after `id`, sorted by id: one page after another.
    pub fn iter_after(&self, id: Option<WorkerId>) -> impl DoubleEndedIterator<Item = &Row> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.rows
            .range((from, Bound::Unbounded))
            .map(|(_, e)| e.row())
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// No row at all.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows with this status.
    pub fn count_of(&self, status: Status) -> u64 {
        self.by_status[status as usize]
    }

    /// Counts for every status, zeros included.
    pub fn counts(&self) -> impl Iterator<Item = (Status, u64)> {
        Status::ALL.iter().map(|s| (*s, self.count_of(*s)))
    }

    /// Rows of an owner.
    pub fn count_of_owner(&self, uid: u32) -> OwnerCount {
        self.by_owner.get(&uid).copied().unwrap_or_default()
    }

    /// Rows whose parent is `id`, sorted.
    pub fn children_of(&self, id: WorkerId) -> impl Iterator<Item = WorkerId> {
        self.children
            .range((id, WorkerId::from_bits(0))..)
            .take_while(move |(parent, _)| *parent == id)
            .map(|(_, child)| *child)
    }

    /// Every row below `id`, each once, with its parent. Files that were edited by hand may name
    /// parents in a circle, so what was seen is not gone through again.
    pub fn descendants_of(&self, id: WorkerId) -> Vec<(WorkerId, WorkerId)> {
        let mut found = Vec::new();
        let mut seen = HashSet::from([id]);
        let mut open = vec![id];
        while let Some(parent) = open.pop() {
            for child in self.children_of(parent).filter(|child| seen.insert(*child)) {
                found.push((parent, child));
                open.push(child);
            }
        }
        found
    }

    /// The owner's row that has this name: the non-terminal one, else the newest terminal one.
    pub fn by_name(&self, uid: u32, name: &str) -> Option<WorkerId> {
        self.name_taken(uid, name)
            .or_else(|| self.names.ended(name).find(|id| self.owned_by(*id, uid)))
    }

    /// The owner's non-terminal row that has this name. An empty name is never taken.
    pub fn name_taken(&self, uid: u32, name: &str) -> Option<WorkerId> {
        self.names.active(name).find(|id| self.owned_by(*id, uid))
    }

    fn owned_by(&self, id: WorkerId, uid: u32) -> bool {
        self.get(id).is_some_and(|row| row.owner.uid == uid)
    }

    fn count(&mut self, row: &Row, more: bool) {
        count(
            &mut self.by_status,
            &mut self.by_owner,
            row.status,
            row.owner,
            more,
        );
    }

    fn index(&mut self, row: &Row) {
        let ended = row.status.is_terminal();
        self.names.insert(&row.name, ended, row.created, row.id);
        if let Some(handle) = row.kind.handle() {
            self.handles.insert(handle, ended, row.created, row.id);
        }
        if let Some(parent) = row.parent {
            self.children.insert((parent, row.id));
        }
    }

    fn unindex(&mut self, id: WorkerId, keys: &Keys) {
        let ended = keys.status.is_terminal();
        self.names.remove(&keys.name, ended, keys.created, id);
        if let Some(handle) = &keys.handle {
            self.handles.remove(handle, ended, keys.created, id);
        }
        if let Some(parent) = keys.parent {
            self.children.remove(&(parent, id));
        }
    }

    fn reindex(&mut self, id: WorkerId, before: &Keys) {
        self.unindex(id, before);
        count(
            &mut self.by_status,
            &mut self.by_owner,
            before.status,
            before.owner,
            false,
        );
        // Taken out for the time of the call, so that the indexes can be borrowed beside it.
        if let Some(entry) = self.rows.remove(&id) {
            self.count(&entry.row, true);
            self.index(&entry.row);
            self.rows.insert(id, entry);
        }
    }
}

/// What the indexes are made from.
struct Keys {
    name: String,
    handle: Option<String>,
    status: Status,
    owner: Owner,
    parent: Option<WorkerId>,
    created: crate::worker::Timestamp,
}

impl Keys {
    fn of(row: &Row) -> Self {
        Self {
            name: row.name.clone(),
            handle: row.kind.handle().map(str::to_owned),
            status: row.status,
            owner: row.owner,
            parent: row.parent,
            created: row.created,
        }
    }

    fn are_of(&self, row: &Row) -> bool {
        self.name == row.name
            && self.handle.as_deref() == row.kind.handle()
            && (self.status, self.owner) == (row.status, row.owner)
            && (self.parent, self.created) == (row.parent, row.created)
    }
}

/// What the first terminal write settled.
struct Ended {
    status: Status,
    outcome: Option<crate::worker::Outcome>,
    how_known: Option<crate::worker::HowKnown>,
    exit: Option<crate::worker::Exit>,
}

impl Ended {
    fn of(row: &Row) -> Option<Self> {
        (row.status.is_terminal() && row.outcome.is_some()).then_some(Self {
            status: row.status,
            outcome: row.outcome,
            how_known: row.how_known,
            exit: row.exit,
        })
    }

    fn put_back(self, row: &mut Row) {
        row.status = self.status;
        row.outcome = self.outcome;
        row.how_known = self.how_known;
        row.exit = self.exit;
    }
}

fn count(
    by_status: &mut [u64; Status::ALL.len()],
    by_owner: &mut HashMap<u32, OwnerCount>,
    status: Status,
    owner: Owner,
    more: bool,
) {
    let step = |n: &mut u64| {
        *n = if more {
            n.saturating_add(1)
        } else {
            n.saturating_sub(1)
        };
    };
    step(&mut by_status[status as usize]);
    let of = by_owner.entry(owner.uid).or_default();
    step(&mut of.rows);
    if !status.is_terminal() {
        step(&mut of.active);
    }
    if of.rows == 0 {
        by_owner.remove(&owner.uid);
    }
}
