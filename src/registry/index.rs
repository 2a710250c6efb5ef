//! From a text to the rows that carry it: those that are not terminal, and the ended ones.

use std::collections::BTreeSet;

use crate::worker::{Timestamp, WorkerId};

type Key = (Box<str>, Timestamp, WorkerId);

/// Sorted by text, then time of creation, so that one range is all rows of a text in their order.
#[derive(Debug, Default)]
pub(super) struct Index {
    active: BTreeSet<Key>,
    ended: BTreeSet<Key>,
}

impl Index {
    fn side(&mut self, ended: bool) -> &mut BTreeSet<Key> {
        if ended {
            &mut self.ended
        } else {
            &mut self.active
        }
    }

    /// An empty text is no name and is not kept.
    pub(super) fn insert(&mut self, text: &str, ended: bool, created: Timestamp, id: WorkerId) {
        if !text.is_empty() {
            self.side(ended).insert((text.into(), created, id));
        }
    }

    pub(super) fn remove(&mut self, text: &str, ended: bool, created: Timestamp, id: WorkerId) {
        self.side(ended).remove(&(text.into(), created, id));
    }

    /// Rows that are not terminal, newest first.
    pub(super) fn active(&self, text: &str) -> impl Iterator<Item = WorkerId> {
        newest_first(&self.active, text)
    }

    /// Terminal rows, newest first.
    pub(super) fn ended(&self, text: &str) -> impl Iterator<Item = WorkerId> {
        newest_first(&self.ended, text)
    }
}

fn newest_first(side: &BTreeSet<Key>, text: &str) -> impl Iterator<Item = WorkerId> {
    let least = (text.into(), Timestamp(i64::MIN), WorkerId::from_bits(0));
    let greatest = (
        text.into(),
        Timestamp(i64::MAX),
        WorkerId::from_bits(u64::MAX),
    );
    side.range(least..=greatest).rev().map(|(_, _, id)| *id)
}

#[cfg(test)]
impl Index {
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.ended.is_empty()
    }
}
