//! The tables of a row's file: `[owner]`, `[kind]`, `[process]` and the others.

use toml::de::{DeTable, DeValue};

use super::field::{Field, keep};
use super::record::{Lines, RecordError, bad};
use crate::worker::{
    Cancellation, Ending, Exit, Kind, KindType, Leftovers, Limits, Owner, Pid, ProcessId,
    ProcessIdError, ReplyTo, Row, Timeouts, Tokens,
};

/// Every table of a row.
pub(super) const NAMES: &[&str] = &[
    "owner",
    "kind",
    "process",
    "exit",
    "cancelled",
    "tokens",
    "leftovers",
    "limits",
    "timeouts",
    "ending",
];

/// Something that is written as a table.
pub(super) trait Table {
    fn write(&self, lines: &mut Lines<'_>);
}

impl<T: Table> Table for Option<T> {
    fn write(&self, lines: &mut Lines<'_>) {
        if let Some(value) = self {
            value.write(lines);
        }
    }
}

/// One table while it is read: known keys are taken out, what is left is kept.
struct Taking<'a, 'i> {
    name: &'a str,
    table: DeTable<'i>,
}

impl Taking<'_, '_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    fn take<F: Field>(&mut self, key: &str) -> Result<Option<F>, RecordError> {
        match self.table.remove(key) {
            None => Ok(None),
            Some(value) => match F::read(value.into_inner()) {
                Ok(value) => Ok(Some(value)),
                Err(why) => Err(bad(self.key(key), why)),
            },
        }
    }

    fn need<F: Field>(&mut self, key: &str) -> Result<F, RecordError> {
        self.take(key)?
            .ok_or_else(|| bad(self.key(key), "is missing"))
    }

    /// Is one of these keys there? A table with none of them holds only what is kept.
    fn any(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.table.contains_key(*key))
    }
}

/// Reads the table `name` into the row; keys that are not known go to `rest`.
pub(super) fn read(
    row: &mut Row,
    name: &str,
    table: DeTable<'_>,
    rest: &mut toml::Table,
) -> Result<(), RecordError> {
    let mut from = Taking { name, table };
    match name {
        "owner" => {
            row.owner = Owner {
                uid: from.need("uid")?,
                gid: from.need("gid")?,
            }
        }
        "kind" => row.kind = kind(&mut from)?,
        "process" => process(row, &mut from)?,
        "exit" => row.exit = exit(&mut from)?,
        "cancelled" if from.any(&["by", "reason", "at"]) => {
            row.cancelled = Some(Cancellation {
                by: from.need("by")?,
                reason: from.take("reason")?.unwrap_or_default(),
                at: from.need("at")?,
            });
        }
        "tokens" => row.tokens = take_tokens(&mut from)?,
        "leftovers" => row.leftovers = take_leftovers(&mut from)?,
        "limits" => row.limits = take_limits(&mut from)?.into(),
        "timeouts" => row.timeouts = take_timeouts(&mut from)?.into(),
        "ending" => row.ending = take_ending(&mut from)?.into(),
        _ => {}
    }
    for (key, value) in from.table {
        let key = key.into_inner();
        let kept = keep(value.into_inner()).map_err(|why| bad(format!("{name}.{key}"), why))?;
        rest.insert(key.into_owned(), kept);
    }
    Ok(())
}

/// Tables in which every key may be missing.
macro_rules! plain {
    ($($take:ident $Type:ident { $($field:ident)* })*) => {$(
        fn $take(from: &mut Taking<'_, '_>) -> Result<$Type, RecordError> {
            let mut value = $Type::default();
            $( if let Some(found) = from.take(stringify!($field))? { value.$field = found; } )*
            Ok(value)
        }

        impl Table for $Type {
            fn write(&self, lines: &mut Lines<'_>) {
                $( lines.put(stringify!($field), &self.$field); )*
            }
        }
    )*};
}
plain! {
    take_tokens Tokens { input output }
    take_leftovers Leftovers { count names }
    take_limits Limits { memory_max tasks_max cpu_weight cpu_max_percent nice tokens_max }
    take_timeouts Timeouts { deadline idle progress pong }
    take_ending Ending { stop_signal grace kill_grace stop_hook }
}

impl Table for Owner {
    fn write(&self, lines: &mut Lines<'_>) {
        lines.put_always("uid", &self.uid);
        lines.put_always("gid", &self.gid);
    }
}

impl Table for Cancellation {
    fn write(&self, lines: &mut Lines<'_>) {
        lines.put_always("by", &self.by);
        lines.put("reason", &self.reason);
        lines.put_always("at", &self.at);
    }
}

impl Table for ProcessId {
    fn write(&self, lines: &mut Lines<'_>) {
        lines.put("pid", &self.pid);
        lines.put_always("start_ticks", &self.start_ticks);
        lines.put("boot_id", &self.boot_id);
    }
}

/// A recorded pid. `None` if the number is this daemon's own by now, which happens whenever pids
/// start over (a container, a reboot): whatever had it has gone, and the row must still load.
pub(super) fn pid(value: DeValue<'_>) -> Result<Option<Pid>, String> {
    match Pid::new(i64::read(value)?) {
        Ok(pid) => Ok(Some(pid)),
        Err(ProcessIdError::Own(_)) => Ok(None),
        Err(error) => Err(format!("is wrong: {error}")),
    }
}

fn process(row: &mut Row, from: &mut Taking<'_, '_>) -> Result<(), RecordError> {
    if !from.any(&["pid", "start_ticks", "boot_id"]) {
        return Ok(());
    }
    let start_ticks = from.need("start_ticks")?;
    let boot_id = from.need("boot_id")?;
    let value = from
        .table
        .remove("pid")
        .ok_or_else(|| bad(from.key("pid"), "is missing"))?;
    let pid = pid(value.into_inner()).map_err(|why| bad(from.key("pid"), why))?;
    row.process = pid.map(|pid| ProcessId {
        pid,
        start_ticks,
        boot_id,
    });
    if row.process.is_none() && row.note.is_none() {
        row.note = Some("its recorded pid is the pid of musterd itself now".to_owned());
    }
    Ok(())
}

impl Table for Exit {
    fn write(&self, lines: &mut Lines<'_>) {
        match self {
            Exit::Code(code) => lines.put_always("code", code),
            Exit::Signal(signal) => lines.put_always("signal", signal),
        }
    }
}

fn exit(from: &mut Taking<'_, '_>) -> Result<Option<Exit>, RecordError> {
    match (from.take("code")?, from.take("signal")?) {
        (Some(_), Some(_)) => Err(bad("exit", "holds both code and signal")),
        (Some(code), None) => Ok(Some(Exit::Code(code))),
        (None, signal) => Ok(signal.map(Exit::Signal)),
    }
}

impl Field for KindType {
    fn read(value: DeValue<'_>) -> Result<Self, String> {
        String::read(value)?
            .parse()
            .map_err(|e| format!("is wrong: {e}"))
    }

    fn write(&self, out: &mut String) {
        self.to_string().write(out);
    }
}

impl Table for Kind {
    fn write(&self, lines: &mut Lines<'_>) {
        lines.put("type", &self.kind_type());
        match self {
            Kind::RootTurn {
                ctx,
                event,
                reservation,
                msg_depth,
            } => {
                lines.put("ctx", ctx);
                lines.put("event", event);
                lines.put("reservation", reservation);
                lines.put("msg_depth", msg_depth);
            }
            Kind::StepTurn {
                run,
                step,
                reservation,
            } => {
                lines.put("run", run);
                lines.put("step", step);
                lines.put("reservation", reservation);
            }
            Kind::Think {
                purpose,
                ctx,
                reply_to,
                extra,
                reservation,
            } => {
                lines.put("purpose", purpose);
                lines.put("ctx", ctx);
                lines.put("reply_to_node", &reply_to.map(|r| r.node));
                lines.put("reply_to_request", &reply_to.map(|r| r.request));
                lines.put("extra", extra);
                lines.put("reservation", reservation);
            }
            Kind::Subagent { handle } => lines.put("handle", handle),
            Kind::Command => {}
        }
    }
}

fn kind(from: &mut Taking<'_, '_>) -> Result<Kind, RecordError> {
    let kind = match from.take("type")?.unwrap_or(KindType::Command) {
        KindType::RootTurn => Kind::RootTurn {
            ctx: from.take("ctx")?.unwrap_or_default(),
            event: from.take("event")?,
            reservation: from.take("reservation")?,
            msg_depth: from.take("msg_depth")?.unwrap_or_default(),
        },
        KindType::StepTurn => Kind::StepTurn {
            run: from.take("run")?.unwrap_or_default(),
            step: from.take("step")?.unwrap_or_default(),
            reservation: from.take("reservation")?,
        },
        KindType::Think => Kind::Think {
            purpose: from.take("purpose")?.unwrap_or_default(),
            ctx: from.take("ctx")?,
            reply_to: reply_to(from)?,
            extra: from.take("extra")?.unwrap_or_default(),
            reservation: from.take("reservation")?,
        },
        KindType::Subagent => Kind::Subagent {
            handle: from.take("handle")?.unwrap_or_default(),
        },
        KindType::Command => Kind::Command,
    };
    Ok(kind)
}

fn reply_to(from: &mut Taking<'_, '_>) -> Result<Option<ReplyTo>, RecordError> {
    if !from.any(&["reply_to_node", "reply_to_request"]) {
        return Ok(None);
    }
    Ok(Some(ReplyTo {
        node: from.need("reply_to_node")?,
        request: from.need("reply_to_request")?,
    }))
}
