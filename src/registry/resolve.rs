//! What a verb's WORKER means (section 2). The cost does not grow with the roll.

use super::Registry;
use super::index::Index;
use crate::worker::{Row, WorkerId};

/// Candidates named by an ambiguity.
pub const CANDIDATES_MAX: usize = 16;

/// Nothing, or more than one row, answers to a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No row.
    #[error("no worker on the roll answers to it")]
    NoSuch,
    /// Several; at most [`CANDIDATES_MAX`] of them, sorted.
    #[error("several workers answer to it")]
    Ambiguous(Vec<WorkerId>),
}

impl Registry {
    /// The row that `text` means, of those that are `visible` to the caller: exact id, a
    /// non-terminal row's name, the newest terminal row's name, `subagent:HANDLE` (a
    /// non-terminal row before the newest terminal one), a unique id prefix.
    ///
    /// Where others' rows are visible too, ask with the caller's own rows first, so that
    /// somebody else's equal name is in nobody's way.
    pub fn resolve(
        &self,
        text: &str,
        visible: impl Fn(&Row) -> bool,
    ) -> Result<WorkerId, ResolveError> {
        let seen = |id: &WorkerId| self.get(*id).is_some_and(&visible);
        if let Ok(id) = text.parse::<WorkerId>()
            && seen(&id)
        {
            return Ok(id);
        }
        if let Some(found) = self.lookup(&self.names, text, &seen) {
            return found;
        }
        if let Some(handle) = text.strip_prefix("subagent:")
            && let Some(found) = self.lookup(&self.handles, handle, &seen)
        {
            return found;
        }
        self.by_prefix(text, &seen)
    }

    /// The row with this id or this unique beginning of an id, whosever it is.
    pub fn resolve_id(&self, text: &str) -> Result<WorkerId, ResolveError> {
        match text.parse::<WorkerId>() {
            Ok(id) if self.get(id).is_some() => Ok(id),
            _ => self.by_prefix(text, &|_| true),
        }
    }

    fn lookup(
        &self,
        index: &Index,
        key: &str,
        seen: &impl Fn(&WorkerId) -> bool,
    ) -> Option<Result<WorkerId, ResolveError>> {
        match one_of(index.active(key).filter(seen)) {
            Err(ResolveError::NoSuch) => index.ended(key).find(seen).map(Ok),
            found => Some(found),
        }
    }

    fn by_prefix(
        &self,
        prefix: &str,
        seen: &impl Fn(&WorkerId) -> bool,
    ) -> Result<WorkerId, ResolveError> {
        // The first id with this prefix is the prefix filled up with the alphabet's first letter.
        let Ok(first) = format!("{prefix:0<8}").parse::<WorkerId>() else {
            return Err(ResolveError::NoSuch);
        };
        if prefix.is_empty() {
            return Err(ResolveError::NoSuch);
        }
        one_of(
            self.rows
                .range(first..)
                .map(|(id, _)| *id)
                .take_while(|id| id.as_str().starts_with(prefix))
                .filter(seen),
        )
    }
}

fn one_of(mut ids: impl Iterator<Item = WorkerId>) -> Result<WorkerId, ResolveError> {
    let Some(first) = ids.next() else {
        return Err(ResolveError::NoSuch);
    };
    let Some(second) = ids.next() else {
        return Ok(first);
    };
    let mut all = vec![first, second];
    all.extend(ids.take(CANDIDATES_MAX - 2));
    all.sort_unstable();
    Err(ResolveError::Ambiguous(all))
}
