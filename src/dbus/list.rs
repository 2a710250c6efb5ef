//! A row of ListWorkers as it goes out. Written straight from the view: a page of a thousand rows
//! with a tree of variants for each would cost more than everything else about it.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeTuple, Serializer};
use zbus::{ObjectPath, Signature, Type, as_variant};

use super::convert::OwnedListRow;
use super::object_path;
use crate::supervisor::handle::ListView;
use crate::worker::{Exit, WorkerId};

/// A row of ListWorkers, as sent; what is received is an [`OwnedListRow`].
#[derive(Debug)]
pub struct ListRow<'a>(pub &'a ListView);

impl Type for ListRow<'_> {
    const SIGNATURE: &'static Signature = OwnedListRow::SIGNATURE;
}

impl Serialize for ListRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = self.0;
        let object: ObjectPath<'_> = object_path(view.id);
        let mut row = serializer.serialize_tuple(11)?;
        row.serialize_element(view.id.as_str())?;
        row.serialize_element(&view.name)?;
        row.serialize_element(&view.kind)?;
        row.serialize_element(view.status.as_str())?;
        row.serialize_element(view.health.map_or("", |h| h.as_str()))?;
        row.serialize_element(&view.uid)?;
        row.serialize_element(&view.pid)?;
        row.serialize_element(&view.created.micros())?;
        row.serialize_element(&view.tokens)?;
        row.serialize_element(&object)?;
        row.serialize_element(&More(view))?;
        row.end()
    }
}

/// The dictionary at its end; what is unset is left out.
struct More<'a>(&'a ListView);

impl Serialize for More<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = self.0;
        let mut dict = Dict(serializer.serialize_map(None)?);
        dict.put("argv", (!view.argv.is_empty()).then_some(&view.argv))?;
        dict.put("cwd", (!view.cwd.is_empty()).then_some(&view.cwd))?;
        dict.put("worktree", view.worktree.as_ref())?;
        dict.put("started", view.started.map(|t| t.micros()).as_ref())?;
        dict.put("exited", view.exited.map(|t| t.micros()).as_ref())?;
        dict.put("outcome", view.outcome.map(|o| o.as_str()).as_ref())?;
        match view.exit {
            Some(Exit::Code(code)) => dict.put("exit-code", Some(&code))?,
            Some(Exit::Signal(signal)) => dict.put("exit-signal", Some(&signal))?,
            None => {}
        }
        dict.put("rung", view.rung.map(|r| r.as_str()).as_ref())?;
        dict.put("held", view.held.then_some(&true))?;
        dict.put("frozen", view.frozen.then_some(&true))?;
        dict.put(
            "parent",
            view.parent.as_ref().map(WorkerId::as_str).as_ref(),
        )?;
        dict.put("read-only", view.read_only.as_ref())?;
        dict.put("note", view.note.as_ref())?;
        let names = &view.leftovers;
        dict.put("leftovers", (!names.is_empty()).then_some(names))?;
        dict.0.end()
    }
}

struct Dict<M>(M);

impl<M: SerializeMap> Dict<M> {
    fn put<T: Serialize + Type>(&mut self, key: &str, value: Option<&T>) -> Result<(), M::Error> {
        match value {
            Some(value) => self.0.serialize_entry(key, &as_variant::Serialize(value)),
            None => Ok(()),
        }
    }
}
