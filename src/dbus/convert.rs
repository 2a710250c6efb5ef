//! Options of the methods and their answers, to and from the dictionaries of the contract.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use zbus::{ObjectPath, OwnedObjectPath, OwnedVariant};

use super::dict::{Details, Dict, Keys, Received, put};
use super::errors::Failure;
use super::object_path;
use crate::gc::report::Report;
use crate::supervisor::handle::{
    CancelOptions, CancelReply, DrainOptions, Ended, ListFilter, ReapOptions, Spawned, Whom,
    WorkerView,
};
use crate::worker::{Exit, WorkerId};

/// Bytes of a command line in a list.
const ARGV_IN_LIST: usize = 2048;

/// A row of ListWorkers, as received.
pub type OwnedListRow = (
    String,
    String,
    String,
    String,
    String,
    u32,
    u32,
    u64,
    u64,
    OwnedObjectPath,
    HashMap<String, OwnedVariant>,
);
/// A row of Reap's report, as sent.
pub type ReportRow = (String, &'static str, String, Details);
/// A row of Reap's report, as received.
pub type OwnedReportRow = (String, String, String, HashMap<String, OwnedVariant>);

/// ListWorkers' dictionary.
pub const FILTER_KEYS: Keys = &[
    ("all", "b"),
    ("owner", "u"),
    ("status", "as"),
    ("kind", "s"),
    ("after", "s"),
    ("limit", "u"),
];
/// Cancel's dictionary.
pub const CANCEL_KEYS: Keys = &[("now", "b"), ("keep-descendants", "b")];
/// Reap's dictionary.
pub const REAP_KEYS: Keys = &[
    ("dry-run", "b"),
    ("grace-usec", "t"),
    ("workers", "as"),
    ("limit", "u"),
    ("after", "s"),
];
/// Forget's dictionary.
pub const FORGET_KEYS: Keys = &[("force", "b")];
/// Drain's dictionary.
pub const DRAIN_KEYS: Keys = &[("cancel", "b"), ("wait", "b"), ("exit", "b")];

/// Drain's dictionary.
pub fn drain_from_dict(dict: Received) -> Result<DrainOptions, Failure> {
    let mut d = Dict::checked("Drain", dict, DRAIN_KEYS)?;
    let (cancel, wait) = (d.take::<bool>("cancel")?, d.take::<bool>("wait")?);
    if cancel == Some(true) && wait == Some(true) {
        return Err(d.bad("wait", "was given together with \"cancel\"; give one"));
    }
    Ok(DrainOptions {
        wait: wait.unwrap_or(cancel == Some(false)),
        exit: d.take("exit")?.unwrap_or_default(),
    })
}

/// The inverse of [`drain_from_dict`].
pub fn drain_to_dict(options: DrainOptions) -> Details {
    let mut dict = Details::new();
    put(&mut dict, "wait", options.wait.then_some(true));
    put(&mut dict, "exit", options.exit.then_some(true));
    dict
}

/// ListWorkers' dictionary.
pub fn filter_from_dict(dict: Received) -> Result<ListFilter, Failure> {
    let mut d = Dict::checked("ListWorkers", dict, FILTER_KEYS)?;
    let words = d.take::<Vec<String>>("status")?.unwrap_or_default();
    let status: Result<Vec<_>, String> = words.iter().map(|word| word.parse()).collect();
    Ok(ListFilter {
        all: d.take("all")?.unwrap_or_default(),
        owner: d.take("owner")?,
        status: status.map_err(|why| d.bad("status", &why))?,
        kind: d.take("kind")?,
        after: d.id("after")?,
        limit: d.take("limit")?.unwrap_or_default(),
    })
}

/// The inverse of [`filter_from_dict`].
pub fn filter_to_dict(filter: &ListFilter) -> Details {
    let mut dict = Details::new();
    let words: Vec<&str> = filter.status.iter().map(|s| s.as_str()).collect();
    put(&mut dict, "all", filter.all.then_some(true));
    put(&mut dict, "owner", filter.owner);
    put(&mut dict, "status", (!words.is_empty()).then_some(words));
    put(&mut dict, "kind", filter.kind.clone());
    put(&mut dict, "after", filter.after.map(|id| id.to_string()));
    put(
        &mut dict,
        "limit",
        (filter.limit > 0).then_some(filter.limit),
    );
    dict
}

/// Cancel's dictionary.
pub fn cancel_from_dict(dict: Received) -> Result<CancelOptions, Failure> {
    let mut d = Dict::checked("Cancel", dict, CANCEL_KEYS)?;
    Ok(CancelOptions {
        now: d.take("now")?.unwrap_or_default(),
        keep_descendants: d.take("keep-descendants")?.unwrap_or_default(),
    })
}

/// The inverse of [`cancel_from_dict`].
pub fn cancel_to_dict(options: CancelOptions) -> Details {
    let mut dict = Details::new();
    put(&mut dict, "now", options.now.then_some(true));
    let keep = options.keep_descendants.then_some(true);
    put(&mut dict, "keep-descendants", keep);
    dict
}

/// Reap's dictionary. Here a grace of 0 is a grace: everything dead is past it at once.
pub fn reap_from_dict(dict: Received) -> Result<ReapOptions, Failure> {
    let mut d = Dict::checked("Reap", dict, REAP_KEYS)?;
    Ok(ReapOptions {
        dry_run: d.take("dry-run")?.unwrap_or_default(),
        grace: d.take("grace-usec")?.map(Duration::from_micros),
        workers: d.take("workers")?.unwrap_or_default(),
        limit: d.take("limit")?.unwrap_or_default(),
        after: d.id("after")?,
    })
}

/// The inverse of [`reap_from_dict`].
pub fn reap_to_dict(options: &ReapOptions) -> Details {
    let mut dict = Details::new();
    let workers = (!options.workers.is_empty()).then(|| options.workers.clone());
    let micros = |g: Duration| u64::try_from(g.as_micros()).unwrap_or(u64::MAX);
    put(&mut dict, "dry-run", options.dry_run.then_some(true));
    put(&mut dict, "grace-usec", options.grace.map(micros));
    put(&mut dict, "workers", workers);
    put(
        &mut dict,
        "limit",
        (options.limit > 0).then_some(options.limit),
    );
    put(&mut dict, "after", options.after.map(|id| id.to_string()));
    dict
}

/// `leader`, `group` or `all`.
pub fn whom_word(whom: Whom) -> &'static str {
    match whom {
        Whom::Leader => "leader",
        Whom::Group => "group",
        Whom::All => "all",
    }
}

/// The inverse of [`whom_word`].
pub fn whom_from_word(word: &str) -> Result<Whom, Failure> {
    match word {
        "leader" => Ok(Whom::Leader),
        "group" => Ok(Whom::Group),
        "all" => Ok(Whom::All),
        _ => Err(Failure::invalid(format!(
            "Kill: whom is {word:?}, which is none of leader, group, all"
        ))),
    }
}

fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn list_of(ids: &[WorkerId]) -> Vec<String> {
    ids.iter().map(WorkerId::to_string).collect()
}

/// Adds the exit as `exit-code` or `exit-signal`.
pub fn put_exit(dict: &mut Details, exit: Option<Exit>) {
    match exit {
        Some(Exit::Code(code)) => put(dict, "exit-code", Some(code)),
        Some(Exit::Signal(signal)) => put(dict, "exit-signal", Some(signal)),
        None => {}
    }
}

/// Answer of Spawn.
pub fn spawned(answer: &Spawned) -> (String, ObjectPath<'static>, Details) {
    let mut more = Details::new();
    put(&mut more, "unenforced", Some(answer.unenforced.clone()));
    put(&mut more, "durable", Some(answer.durable));
    (answer.id.to_string(), object_path(answer.id), more)
}

/// Command line in a list: 1,000 rows of 1 MiB would be more than a bus carries. The whole one
/// is in `Status` of that worker and in its CommandLine.
pub fn short(argv: &[String]) -> Vec<String> {
    let mut left = ARGV_IN_LIST;
    let mut out = Vec::new();
    for argument in argv {
        if argument.len() >= left {
            let cut = (0..=left).rev().find(|at| argument.is_char_boundary(*at));
            let cut = cut.unwrap_or(0);
            out.push(format!("{}\u{2026}", &argument[..cut]));
            break;
        }
        left -= argument.len() + 1;
        out.push(argument.clone());
    }
    out
}

/// The leader's pid, 0 for none.
pub fn pid(view: &WorkerView) -> u32 {
    view.pid.and_then(|p| u32::try_from(p).ok()).unwrap_or(0)
}

/// Answer of Cancel.
pub fn cancelled(answer: &CancelReply) -> (&'static str, Details) {
    let mut more = Details::new();
    put(&mut more, "durable", Some(answer.durable));
    put(&mut more, "descendants", Some(list_of(&answer.descendants)));
    put(&mut more, "outcome", answer.outcome.map(|o| o.as_str()));
    (answer.state.as_str(), more)
}

/// Answer of Wait.
pub fn ended(answer: &Ended) -> (&'static str, Details) {
    let view = &answer.view;
    let mut details = Details::new();
    put_exit(&mut details, view.exit);
    put(&mut details, "rung", view.rung.map(|r| r.as_str()));
    put(&mut details, "took-usec", view.took_usec);
    put(&mut details, "processes", Some(view.processes));
    put(
        &mut details,
        "leftovers",
        Some(view.leftovers.names.clone()),
    );
    if let Some(cancelled) = &view.cancelled {
        put(&mut details, "reason", Some(cancelled.reason.clone()));
        put(&mut details, "by", Some(cancelled.by));
    }
    put(&mut details, "oom-killed", Some(view.oom_killed));
    put(&mut details, "settled", Some(view.settled));
    put(
        &mut details,
        "how-known",
        view.how_known.map(|h| h.as_str()),
    );
    (answer.outcome.as_str(), details)
}

/// Answer of Reap.
pub fn report(answer: Report) -> (BTreeMap<String, u64>, Vec<ReportRow>) {
    let rows = answer.rows.into_iter().map(|row| {
        let mut more = Details::new();
        put(&mut more, "name", filled(&row.name));
        put(&mut more, "seconds-left", row.seconds_left);
        put(&mut more, "detail", filled(&row.detail));
        put(&mut more, "since", row.since.map(|t| t.micros()));
        (row.id.to_string(), row.action.as_str(), row.reason, more)
    });
    (answer.counts, rows.collect())
}
