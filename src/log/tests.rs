use std::sync::{Condvar, Mutex};

use super::*;
use crate::worker::{Outcome, Owner, Row, Timestamp, WorkerId};

/// What a sink got, and a gate that keeps it from taking more.
#[derive(Default)]
struct Got {
    lines: Mutex<Vec<String>>,
    stalled: Mutex<bool>,
    moves_on: Condvar,
}

fn log(level: LogLevel) -> (Arc<Got>, Log, Dispatch) {
    let got = Arc::new(Got::default());
    let take = {
        let got = Arc::clone(&got);
        move |line| {
            let mut stalled = got.stalled.lock().unwrap();
            while *stalled {
                stalled = got.moves_on.wait(stalled).unwrap();
            }
            got.lines.lock().unwrap().push(line);
        }
    };
    let (log, dispatch) = Log::build(Sink::Test(Box::new(take)), level).unwrap();
    (got, log, dispatch)
}

fn lines(got: &Got) -> Vec<String> {
    got.lines.lock().unwrap().clone()
}

#[test]
fn lines_carry_their_level_and_no_control_characters() {
    let (got, log, dispatch) = log(LogLevel::Debug);
    dispatcher::with_default(&dispatch, || {
        tracing::error!("one\n<0>forged \u{1b}[2J");
        tracing::warn!(path = "/x", MUSTER_WORKER = "abc", "two");
        tracing::info!("three");
        tracing::debug!("four");
        tracing::trace!("five");
    });
    drop(log);
    assert_eq!(
        lines(&got),
        [
            "<3>one\\n<0>forged \\u{1b}[2J\n",
            "<4>two path=/x\n",
            "<6>three\n",
            "<7>four\n"
        ]
    );
}

#[test]
fn zbus_is_quiet_and_the_level_can_be_changed() {
    let (got, log, dispatch) = log(LogLevel::Warn);
    dispatcher::with_default(&dispatch, || {
        tracing::info!("no");
        log.control().set_level(LogLevel::Debug);
        tracing::debug!("yes");
        tracing::debug!(target: "zbus::connection", "no");
        tracing::warn!(target: "zbus::connection", "bus");
        log.control().set_level(LogLevel::Error);
        tracing::warn!("no");
    });
    assert_eq!(log.control().level(), LogLevel::Error);
    drop(log);
    assert_eq!(lines(&got), ["<7>yes\n", "<4>bus\n"]);
}

#[test]
fn a_reader_that_stalls_blocks_nobody_and_what_was_lost_is_told() {
    let (got, log, dispatch) = log(LogLevel::Info);
    *got.stalled.lock().unwrap() = true;
    dispatcher::with_default(&dispatch, || {
        for n in 0..QUEUE + 500 {
            tracing::info!("{n}");
        }
    });
    let dropped = log.dropped();
    assert!((498..=500).contains(&dropped), "{dropped}");
    *got.stalled.lock().unwrap() = false;
    got.moves_on.notify_all();
    drop(log);
    let lines = lines(&got);
    assert!(
        lines[1].starts_with(&format!("{dropped} log lines were dropped")),
        "{lines:?}"
    );
    assert_eq!(lines.len() as u64, QUEUE as u64 + 500 - dropped + 1);
}

/// Stands where the journald layer does: the replayed event reaches it whole.
struct Fields(Arc<Mutex<Vec<(String, String)>>>);

impl<S: Subscriber> Layer<S> for Fields {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut record = Record {
            metadata: event.metadata(),
            values: Vec::new(),
        };
        event.record(&mut record);
        let mut got = self.0.lock().unwrap();
        got.push((
            "line".to_owned(),
            event.metadata().line().unwrap().to_string(),
        ));
        for (field, value) in record.values {
            got.push((field.name().to_owned(), value));
        }
    }
}

#[test]
fn a_workers_event_reaches_the_journal_with_all_its_fields() {
    let fields = Arc::new(Mutex::new(Vec::new()));
    let journal = Dispatch::new(tracing_subscriber::registry().with(Fields(Arc::clone(&fields))));
    let (log, dispatch) = Log::build(Sink::Journal(journal), LogLevel::Info).unwrap();
    let owner = Owner { uid: 1000, gid: 1 };
    let mut row = Row::new(WorkerId::from_bits(0), owner, Timestamp(0));
    row.name = "fix".to_owned();
    row.outcome = Some(Outcome::Completed);
    let here = line!() + 2;
    dispatcher::with_default(&dispatch, || {
        crate::worker_event!(INFO, id::WORKER_EXITED, &row, "worker {} ended", row.id);
    });
    drop(log);
    let mut got = fields.lock().unwrap().clone();
    got.sort();
    let wanted = [
        ("MESSAGE_ID", id::WORKER_EXITED),
        ("MUSTER_KIND", "command"),
        ("MUSTER_NAME", "fix"),
        ("MUSTER_OUTCOME", "completed"),
        ("MUSTER_OWNER", "1000"),
        ("MUSTER_WORKER", "00000000"),
        ("line", &here.to_string()),
        ("message", "worker 00000000 ended"),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(got, wanted);
}

#[test]
fn message_ids_are_different_and_well_formed() {
    let mut ids: Vec<_> = id::ALL.iter().map(|(_, id)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), id::ALL.len());
    let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    assert!(
        ids.iter()
            .all(|id| id.len() == 32 && id.bytes().all(lower_hex))
    );
}
