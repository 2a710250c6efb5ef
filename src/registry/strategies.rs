//! Arbitrary rows, for property tests here and elsewhere.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::worker::{
    BootId, Cancellation, Control, Ending, Exit, HowKnown, Kind, Leftovers, LeftoversPolicy,
    Limits, Outcome, Owner, Pid, ProcessId, ReplyTo, RestartPolicy, Row, Rung, Status, Timeouts,
    Timestamp, Tokens, WorkerId,
};

/// Text with everything that a format may stumble over.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{0,8}",
        1 => any::<String>(),
        1 => "[\"'\\\\\n\t\r\u{0}\u{1b}\u{7f}\u{85}#=\\[\\]{}. é]{0,12}",
    ]
}

/// Bytes that may not be UTF-8.
pub(crate) fn os_text() -> impl Strategy<Value = OsString> {
    prop_oneof![
        2 => text().prop_map(OsString::from),
        1 => vec(any::<u8>(), 0..16).prop_map(OsString::from_vec),
    ]
}

pub(crate) fn path() -> impl Strategy<Value = PathBuf> {
    os_text().prop_map(PathBuf::from)
}

pub(crate) fn id() -> impl Strategy<Value = WorkerId> {
    any::<u64>().prop_map(WorkerId::from_bits)
}

/// Mostly of our time, some at the ends of the type.
pub(crate) fn timestamp() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        3 => 0..4_000_000_000_000_000i64,
        1 => any::<i64>(),
        1 => select(&[i64::MIN, -1, 0, i64::MAX][..]),
    ]
    .prop_map(Timestamp)
}

pub(crate) fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..100_000u64).prop_map(Duration::from_millis),
        (any::<u64>(), 0..1_000_000_000u32).prop_map(|(s, n)| Duration::new(s, n)),
    ]
}

pub(crate) fn pid() -> impl Strategy<Value = Pid> {
    (2..i64::from(i32::MAX)).prop_filter_map("our own pid", |n| Pid::new(n).ok())
}

pub(crate) fn process_id() -> impl Strategy<Value = ProcessId> {
    (pid(), any::<u64>(), any::<u128>()).prop_filter_map("boot id", |(pid, start_ticks, boot)| {
        let boot_id: BootId = format!("{boot:032x}").parse().ok()?;
        Some(ProcessId {
            pid,
            start_ticks,
            boot_id,
        })
    })
}

pub(crate) fn kind() -> impl Strategy<Value = Kind> {
    let reservation = || option::of(any::<u64>());
    prop_oneof![
        Just(Kind::Command),
        text().prop_map(|handle| Kind::Subagent { handle }),
        (text(), text(), reservation()).prop_map(|(run, step, reservation)| Kind::StepTurn {
            run,
            step,
            reservation
        }),
        (text(), option::of(text()), reservation(), any::<u32>()).prop_map(
            |(ctx, event, reservation, msg_depth)| Kind::RootTurn {
                ctx,
                event,
                reservation,
                msg_depth
            }
        ),
        (
            text(),
            option::of(text()),
            option::of((any::<u64>(), any::<u64>())),
            text(),
            reservation()
        )
            .prop_map(|(purpose, ctx, reply, extra, reservation)| Kind::Think {
                purpose,
                ctx,
                reply_to: reply.map(|(node, request)| ReplyTo { node, request }),
                extra,
                reservation
            }),
    ]
}

pub(crate) fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        any::<i32>().prop_map(Exit::Code),
        any::<i32>().prop_map(Exit::Signal)
    ]
}

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    (
        option::of(any::<u64>()),
        option::of(any::<u64>()),
        option::of(any::<u64>()),
        option::of(any::<u32>()),
        option::of(any::<i32>()),
        option::of(any::<u64>()),
    )
        .prop_map(
            |(memory_max, tasks_max, cpu_weight, cpu_max_percent, nice, tokens_max)| Limits {
                memory_max,
                tasks_max,
                cpu_weight,
                cpu_max_percent,
                nice,
                tokens_max,
            },
        )
}

pub(crate) fn timeouts() -> impl Strategy<Value = Timeouts> {
    let some = || option::of(duration());
    (some(), some(), some(), some()).prop_map(|(deadline, idle, progress, pong)| Timeouts {
        deadline,
        idle,
        progress,
        pong,
    })
}

pub(crate) fn ending() -> impl Strategy<Value = Ending> {
    (
        option::of(any::<i32>()),
        option::of(duration()),
        option::of(duration()),
        vec(os_text(), 0..3),
    )
        .prop_map(|(stop_signal, grace, kill_grace, stop_hook)| Ending {
            stop_signal,
            grace,
            kill_grace,
            stop_hook,
        })
}

fn cancellation() -> impl Strategy<Value = Cancellation> {
    (any::<u32>(), text(), timestamp()).prop_map(|(by, reason, at)| Cancellation { by, reason, at })
}

/// Sets fields of the rows of another strategy.
macro_rules! fill {
    ($rows:expr; $($field:ident: $strategy:expr),* $(,)?) => {
        // Boxed: the value trees of so many fields would take the whole stack of a test.
        ($rows, ($(($strategy).boxed()),*))
            .prop_map(|(mut row, ($($field),*))| {
                $( row.$field = $field; )*
                row
            })
            .boxed()
    };
}

/// Any row; its parts need not fit together.
pub(crate) fn row() -> impl Strategy<Value = Row> {
    asked(ended(begun()))
}

fn begun() -> BoxedStrategy<Row> {
    let new = (id(), any::<u32>(), any::<u32>(), timestamp())
        .prop_map(|(id, uid, gid, created)| Row::new(id, Owner { uid, gid }, created));
    fill!(new;
        name: text(),
        kind: kind(),
        argv: vec(os_text(), 0..4),
        cwd: path(),
        worktree: option::of(path()),
        parent: option::of(id()),
        depth: any::<u32>(),
        started: option::of(timestamp()),
        process: option::of(process_id()),
        pgid: option::of(pid()),
        leaf: option::of(path()),
        generation: any::<u64>(),
    )
}

fn ended(rows: BoxedStrategy<Row>) -> BoxedStrategy<Row> {
    let rows = fill!(rows;
        status: select(Status::ALL),
        exited: option::of(timestamp()),
        outcome: option::of(select(Outcome::ALL)),
        how_known: option::of(select(HowKnown::ALL)),
        exit: option::of(exit()),
        oom_killed: any::<bool>(),
        rung: option::of(select(Rung::ALL)),
        took: option::of(duration()),
        processes: any::<u32>(),
    );
    let leftovers = (any::<u32>(), vec(text(), 0..3));
    fill!(rows;
        note: option::of(text()),
        failure: text().prop_map(Into::into),
        frames_skipped: any::<u16>(),
        settled: any::<bool>(),
        cancelled: option::of(cancellation()),
        tokens: (any::<u64>(), any::<u64>())
            .prop_map(|(input, output)| Tokens { input, output }),
        restarts: any::<u32>(),
        leftovers: leftovers.prop_map(|(count, names)| Leftovers { count, names }),
        held: any::<bool>(),
        adopted: any::<bool>(),
        msg_depth: any::<u32>(),
        worktree_mount: option::of(path()),
    )
}

fn asked(rows: BoxedStrategy<Row>) -> BoxedStrategy<Row> {
    fill!(rows;
        limits: limits().prop_map(Into::into),
        timeouts: timeouts().prop_map(Into::into),
        ending: ending().prop_map(Into::into),
        control: select(Control::ALL),
        restart: select(RestartPolicy::ALL),
        restart_max: option::of(any::<u32>()),
        leftovers_policy: select(LeftoversPolicy::ALL),
        trace_id: text(),
        runtime_dir: option::of(path()),
        output: option::of(path()),
        output_dropped: any::<u64>(),
        journal: any::<bool>(),
    )
}
