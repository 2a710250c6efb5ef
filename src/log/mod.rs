//! The daemon's log: to journald with structured fields, or as plain lines on stderr.
//!
//! Whoever logs only puts a record into a bounded queue; a thread of its own hands it on, so a
//! journald that stalls or a full pipe blocks nobody. What did not fit is counted and told.
//! Specification section 16.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::reload;

use crate::config::LogLevel;

pub mod id;

/// One line about a worker, with all its structured fields.
///
/// `worker_event!(INFO, id::WORKER_EXITED, row, "worker {} ended: {}", row.id, outcome)`, where
/// `row` is a `&Row`.
#[macro_export]
macro_rules! worker_event {
    ($level:ident, $id:expr, $row:expr, $($message:tt)+) => {{
        let row: &$crate::worker::Row = $row;
        tracing::event!(
            tracing::Level::$level,
            MESSAGE_ID = $id,
            MUSTER_WORKER = row.id.as_str(),
            MUSTER_NAME = (!row.name.is_empty()).then_some(row.name.as_str()),
            MUSTER_KIND = row.kind.label().as_str(),
            MUSTER_KIND_FIELDS = $crate::log::kind_fields(&row.kind).as_deref(),
            MUSTER_OWNER = row.owner.uid,
            MUSTER_OUTCOME = row.outcome.map(|o| o.as_str()),
            MUSTER_TRACE = (!row.trace_id.is_empty()).then_some(row.trace_id.as_str()),
            MUSTER_PARENT = row.parent.as_ref().map(|parent| parent.as_str()),
            $($message)+
        )
    }};
}

/// The fields of a kind as JSON; `None` for a plain program, which has none.
pub fn kind_fields(kind: &crate::worker::Kind) -> Option<String> {
    match kind {
        crate::worker::Kind::Command => None,
        kind => serde_json::to_string(kind).ok(),
    }
}

/// One line about the service, with its `MESSAGE_ID`.
///
/// `service_event!(WARN, id::STATE_DEGRADED, "cannot write {path}: {error}")`
#[macro_export]
macro_rules! service_event {
    ($level:ident, $id:expr, $($message:tt)+) => {
        tracing::event!(tracing::Level::$level, MESSAGE_ID = $id, $($message)+)
    };
}

/// Where the log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Target {
    /// The journal if stderr is connected to it (`JOURNAL_STREAM`, systemd.exec(5)), else stderr.
    #[default]
    Auto,
    /// The journal.
    Journal,
    /// Stderr.
    Stderr,
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "journal" => Ok(Self::Journal),
            "stderr" => Ok(Self::Stderr),
            _ => Err(format!("{text:?} is none of auto, journal, stderr")),
        }
    }
}

/// The running log. Dropping it hands on what is queued, for at most two seconds.
pub struct Log {
    control: Arc<Control>,
    dropped: Arc<AtomicU64>,
    queue: Option<SyncSender<Message>>,
    ended: Receiver<()>,
    _thread: JoinHandle<()>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("to_journal", &self.control.to_journal)
            .finish_non_exhaustive()
    }
}

/// The level of a running log, to be read and set from any thread.
pub struct Control {
    filter: Box<dyn Fn(LogLevel) + Send + Sync>,
    level: std::sync::Mutex<LogLevel>,
    to_journal: bool,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("level", &self.level)
            .field("to_journal", &self.to_journal)
            .finish_non_exhaustive()
    }
}

impl Control {
    /// Logs from now on what this level asks for.
    pub fn set_level(&self, level: LogLevel) {
        if let Ok(mut now) = self.level.lock() {
            *now = level;
        }
        (self.filter)(level);
    }

    /// The level in force.
    pub fn level(&self) -> LogLevel {
        self.level.lock().map_or(LogLevel::Info, |level| *level)
    }

    /// Does it go to the journal?
    pub fn to_journal(&self) -> bool {
        self.to_journal
    }
}

/// Lines that wait; about as many bytes as a burst of exits makes.
const QUEUE: usize = 1024;
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Log {
    /// Makes the log of this process. May be called once; `Target::Journal` without a journald
    /// is an error.
    pub fn start(target: Target, level: LogLevel) -> io::Result<Log> {
        let (log, dispatch) = Self::build(sink(target)?, level)?;
        dispatcher::set_global_default(dispatch).map_err(io::Error::other)?;
        Ok(log)
    }

    fn build(sink: Sink, level: LogLevel) -> io::Result<(Log, Dispatch)> {
        let (queue, records) = mpsc::sync_channel(QUEUE);
        let (end, ended) = mpsc::channel();
        let dropped = Arc::new(AtomicU64::new(0));
        let to_journal = matches!(sink, Sink::Journal(_));
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn({
            let dropped = Arc::clone(&dropped);
            move || {
                hand_on(sink, &records, &dropped);
                let _ = end.send(());
            }
        })?;
        let (filter, handle) = reload::Layer::new(filter(level));
        let layer = Queue {
            queue: queue.clone(),
            dropped: Arc::clone(&dropped),
        };
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(filter).with(layer));
        let control = Control {
            filter: Box::new(move |level| {
                let _ = handle.reload(self::filter(level));
            }),
            level: std::sync::Mutex::new(level),
            to_journal,
        };
        let log = Log {
            control: Arc::new(control),
            dropped,
            queue: Some(queue),
            ended,
            _thread: thread,
        };
        Ok((log, dispatch))
    }

    /// What reads and sets its level.
    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Lines that did not fit into the queue since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The layer holds another end of the queue for ever, so the thread needs a word.
        let Some(queue) = self.queue.take() else {
            return;
        };
        let until = Instant::now() + LAST_WORDS;
        while let Err(TrySendError::Full(_)) = queue.try_send(Message::End) {
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self
            .ended
            .recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// zbus tells of every message at debug; nobody acts on that. Not `EnvFilter`, which brings an
/// engine of regular expressions with it.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new()
        .with_default(level)
        .with_target("zbus", level.min(LevelFilter::WARN))
}

enum Sink {
    /// A dispatcher with the journald layer.
    Journal(Dispatch),
    Stderr(Style),
    #[cfg(test)]
    Test(Box<dyn FnMut(String) + Send>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `<4>text`, sd-daemon(3): something that collects stderr for the journal.
    Prefixed,
    /// `musterd: warning: text`.
    Plain,
}

fn sink(target: Target) -> io::Result<Sink> {
    let wanted = match target {
        Target::Journal => true,
        Target::Auto => stderr_is_journal(),
        Target::Stderr => false,
    };
    if wanted {
        match tracing_journald::layer() {
            Ok(layer) => {
                let layer = layer
                    .with_field_prefix(None)
                    .with_syslog_identifier("musterd".to_owned())
                    .with_priority_mappings(PriorityMappings {
                        info: Priority::Informational,
                        debug: Priority::Debug,
                        ..PriorityMappings::new()
                    });
                let registry = tracing_subscriber::registry().with(layer);
                return Ok(Sink::Journal(Dispatch::new(registry)));
            }
            Err(error) if target == Target::Journal => return Err(error),
            Err(_) => {}
        }
    }
    let collected = std::env::var_os("JOURNAL_STREAM").is_some() && !io::stderr().is_terminal();
    Ok(Sink::Stderr(if collected {
        Style::Prefixed
    } else {
        Style::Plain
    }))
}

/// `JOURNAL_STREAM` is inherited by children whose stderr is something else by then, so device
/// and inode are compared.
fn stderr_is_journal() -> bool {
    let Ok(stat) = rustix::fs::fstat(rustix::stdio::stderr()) else {
        return false;
    };
    std::env::var("JOURNAL_STREAM")
        .is_ok_and(|stream| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// An event with its values as text, which may outlive the call that made it.
struct Record {
    metadata: &'static Metadata<'static>,
    values: Vec<(Field, String)>,
}

enum Message {
    Record(Record),
    End,
}

impl Visit for Record {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.values.push((field.clone(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.values.push((field.clone(), format!("{value:?}")));
    }
}

/// The layer of this process: into the queue, or counted as dropped.
struct Queue {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl<S: Subscriber> Layer<S> for Queue {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut record = Record {
            metadata: event.metadata(),
            values: Vec::new(),
        };
        event.record(&mut record);
        if let Err(TrySendError::Full(_)) = self.queue.try_send(Message::Record(record)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The body of the log's thread.
fn hand_on(mut sink: Sink, records: &Receiver<Message>, dropped: &AtomicU64) {
    let mut told = 0;
    while let Ok(Message::Record(record)) = records.recv() {
        sink.write(&record);
        let now = dropped.load(Ordering::Relaxed);
        if now != told {
            sink.tell_dropped(now - told);
            told = now;
        }
    }
}

/// tracing's own limit of fields in one event.
const FIELDS: usize = 32;

impl Sink {
    fn write(&mut self, record: &Record) {
        match self {
            Sink::Journal(dispatch) => replay(dispatch, record),
            Sink::Stderr(style) => {
                // Nobody is left to be told if stderr has gone.
                let _ = io::stderr().write_all(line(record, *style).as_bytes());
            }
            #[cfg(test)]
            Sink::Test(take) => take(line(record, Style::Prefixed)),
        }
    }

    fn tell_dropped(&mut self, count: u64) {
        let text =
            format!("{count} log lines were dropped, since the log was not read fast enough");
        match self {
            Sink::Journal(dispatch) => {
                dispatcher::with_default(dispatch, || tracing::warn!("{text}"));
            }
            Sink::Stderr(style) => {
                let line = format!("{}{text}\n", style.start(Level::WARN));
                let _ = io::stderr().write_all(line.as_bytes());
            }
            #[cfg(test)]
            Sink::Test(take) => take(text),
        }
    }
}

/// Makes the event again on this thread, from the same call site, for the journald layer.
fn replay(dispatch: &Dispatch, record: &Record) {
    let Some((spare, _)) = record.values.first() else {
        return;
    };
    let mut values: [(&Field, Option<&dyn tracing::Value>); FIELDS] = [(spare, None); FIELDS];
    for (slot, (field, value)) in values.iter_mut().zip(&record.values) {
        *slot = (field, Some(value as &dyn tracing::Value));
    }
    let fields = record.metadata.fields();
    dispatcher::with_default(dispatch, || {
        Event::dispatch(record.metadata, &fields.value_set(&values));
    });
}

impl Style {
    fn start(self, level: Level) -> &'static str {
        match (self, level) {
            (Style::Prefixed, Level::ERROR) => "<3>",
            (Style::Prefixed, Level::WARN) => "<4>",
            (Style::Prefixed, Level::INFO) => "<6>",
            (Style::Prefixed, _) => "<7>",
            (Style::Plain, Level::ERROR) => "musterd: error: ",
            (Style::Plain, Level::WARN) => "musterd: warning: ",
            (Style::Plain, _) => "musterd: ",
        }
    }
}

/// The message, then fields that are not among those it is made from.
fn line(record: &Record, style: Style) -> String {
    let mut line = style.start(*record.metadata.level()).to_owned();
    let message = |f: &Field| f.name() == "message";
    let structured = |f: &Field| f.name() == "MESSAGE_ID" || f.name().starts_with("MUSTER_");
    for (_, text) in record.values.iter().filter(|(f, _)| message(f)) {
        push_visible(&mut line, text);
    }
    for (field, value) in &record.values {
        if !message(field) && !structured(field) {
            let _ = write!(line, " {}=", field.name());
            push_visible(&mut line, value);
        }
    }
    line.push('\n');
    line
}

/// A worker's text must not draw on somebody's terminal, nor forge a line.
fn push_visible(line: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
}

#[cfg(test)]
mod tests;
