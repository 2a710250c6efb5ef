//! Bringing a row back that was reaped or forgotten, until its retention is over.

use std::sync::Arc;

use super::handle::{Caller, Change, Reply, Right};
use super::refused::Refused;
use super::verbs::answer;
use super::{Inner, Supervisor};
use crate::registry::record::Loaded;
use crate::registry::store::{Store, StoreError};
use crate::registry::writer::{Job, Writer};
use crate::sys::clock;
use crate::worker::{Row, WorkerId};

/// A row that was brought back, or was not.
#[derive(Debug)]
pub(super) struct RestoredRow {
    result: Result<Loaded, Refused>,
    reply: Reply<WorkerId>,
}

impl Supervisor {
    /// Brings back a reaped row: by id, by a unique prefix of it, or the newest of that name.
    pub(super) fn restore(&mut self, by: &Caller, worker: String, reply: Reply<WorkerId>) {
        let store = Arc::clone(&self.store);
        let writer = self.writer.clone();
        let (uid, all) = (by.uid, self.has(by, Right::ManageAll));
        self.spawn_inner(async move {
            let looked = tokio::task::spawn_blocking(move || {
                match find_reaped(&store, &worker, |row| all || row.owner.uid == uid) {
                    // A whole id tells nobody anything; a name that is somebody else's would.
                    Err(Refused::NoSuchReaped(_)) if !all && is_reaped(&store, &worker) => {
                        Err(Refused::NeedsRight(Right::ManageAll))
                    }
                    found => found,
                }
            });
            let result = match looked.await {
                Ok(Ok(loaded)) => move_back(&writer, loaded).await,
                Ok(Err(refused)) => Err(refused),
                Err(error) => Err(Refused::Io(error.to_string())),
            };
            Inner::Restored(Box::new(RestoredRow { result, reply }))
        });
    }

    pub(super) fn restored(&mut self, restored: RestoredRow) {
        let result = restored.result.and_then(|loaded| {
            let id = loaded.row().id;
            match self.registry.insert_loaded(loaded) {
                Ok(()) => Ok(id),
                Err(_) => Err(Refused::Io(format!("worker {id} is on the roll already"))),
            }
        });
        if let Ok(id) = result {
            // Its grace begins anew, or the next sweep would take it again.
            let now = clock::now();
            let _ = self.registry.update(id, |row| row.exited = Some(now.wall));
            drop(self.save(id));
            let _ = self.changes.send(Change::New(id));
            self.schedule_sweep(now);
        }
        answer(restored.reply, result);
    }
}

fn is_reaped(store: &Store, worker: &str) -> bool {
    let id = worker.parse::<WorkerId>();
    id.is_ok_and(|id| matches!(store.load_reaped(id), Ok(Some(_))))
}

fn find_reaped(
    store: &Store,
    worker: &str,
    visible: impl Fn(&Row) -> bool,
) -> Result<Loaded, Refused> {
    let io = |e: StoreError| Refused::Io(e.to_string());
    let none = || Refused::NoSuchReaped(worker.to_owned());
    let ids = store.list_reaped().map_err(io)?;
    let by_id: Vec<WorkerId> = ids
        .iter()
        .copied()
        .filter(|id| id.as_str().starts_with(worker))
        .collect();
    let candidates = if by_id.is_empty() || worker.is_empty() {
        ids
    } else {
        by_id
    };
    let mut best: Option<Loaded> = None;
    let mut same_prefix = Vec::new();
    for id in candidates {
        let Ok(Some(loaded)) = store.load_reaped(id) else {
            continue;
        };
        let row = loaded.row();
        if !visible(row) {
            continue;
        }
        if id.as_str() == worker {
            return Ok(loaded);
        }
        let by_prefix = !worker.is_empty() && id.as_str().starts_with(worker);
        if by_prefix {
            same_prefix.push(id);
        }
        let newer = best.as_ref().is_none_or(|b| b.row().created < row.created);
        if (row.name == worker || by_prefix) && newer {
            best = Some(loaded);
        }
    }
    if same_prefix.len() > 1 {
        same_prefix.truncate(16);
        return Err(Refused::Ambiguous {
            worker: worker.to_owned(),
            candidates: same_prefix,
        });
    }
    best.ok_or_else(none)
}

async fn move_back(writer: &Writer, loaded: Loaded) -> Result<Loaded, Refused> {
    let id = loaded.row().id;
    match writer.submit(Job::Restore(id)).await {
        Ok(Ok(())) => Ok(loaded),
        Ok(Err(error)) => Err(Refused::Io(format!("cannot restore worker {id}: {error}"))),
        Err(_) => Err(Refused::ShuttingDown),
    }
}
