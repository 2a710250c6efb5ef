//! `list`: the roll as a table, or all of it as one JSON array.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::report::{self, Users, count, dot, state};
use crate::client::args::ListArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::table::{Cell, Table};
use crate::client::output::text::{command_line, escape, glob};
use crate::client::output::time::{now, relative};
use crate::client::output::{Output, Paint};
use crate::client::view::Worker;
use crate::dbus::client::Listed;
use crate::supervisor::handle::ListFilter;

/// Runs the verb.
pub async fn run(daemon: &Daemon, args: &ListArgs, out: &mut Output) -> Result<Code, Failure> {
    let filter = ListFilter {
        all: args.all || args.status.iter().any(|s| s.is_terminal()),
        status: args.status.clone(),
        kind: args.kind.clone(),
        ..ListFilter::default()
    };
    let mut rows = daemon
        .call(async |client| client.list(filter.clone()).await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    rows.retain(|row| wanted(row, &args.patterns));
    if out.json.is_some() {
        let rows: Vec<Value> = rows.iter().map(to_json).collect();
        out.json(&rows);
        return Ok(Code::DONE);
    }
    let workers: Vec<Worker> = rows.iter().map(report::of_listed).collect();
    let table = table(&workers, &Users::default(), now());
    if out.style.legend && !table.is_empty() {
        out.table(&table);
        out.line("");
        out.line(footer(&workers, args.all));
    } else if out.style.legend {
        out.line(footer(&workers, args.all));
    } else {
        out.table(&table);
    }
    Ok(Code::DONE)
}

fn wanted(row: &Listed, patterns: &[String]) -> bool {
    patterns.is_empty()
        || patterns.iter().any(|p| {
            [&row.id, &row.name, &row.kind]
                .iter()
                .any(|text| glob(p, text))
                || row.id.starts_with(p.as_str())
        })
}

/// A row with the keys of `show --json`, as far as a list knows them.
fn to_json(row: &Listed) -> Value {
    let text = |s: &str| match s {
        "" => Value::Null,
        s => json!(s),
    };
    json!({
        "id": row.id,
        "name": row.name,
        "kind": row.kind,
        "status": row.status,
        "health": text(&row.health),
        "uid": row.uid,
        "pid": (row.pid > 0).then_some(row.pid),
        "parent": text(&row.parent),
        "argv": row.argv,
        "cwd": row.cwd,
        "worktree": text(&row.worktree),
        "created": row.created,
        "started": row.started,
        "exited": row.exited,
        "outcome": text(&row.outcome),
        "exit": report::exit(row.exit_code, row.exit_signal),
        "rung": text(&row.rung),
        "note": text(&row.note),
        "held": row.held,
        "frozen": row.frozen,
        "tokens": row.tokens,
        "leftovers": row.leftovers,
        "read_only": text(&row.read_only),
    })
}

fn table(workers: &[Worker], users: &Users, now: i64) -> Table {
    let kinds = workers.iter().any(|w| w.kind != "command");
    let mut header = vec!["", "ID", "NAME"];
    if kinds {
        header.push("KIND");
    }
    header.extend(["STATUS", "PID", "USER", "SINCE", "COMMAND"]);
    let last = header.len() - 1;
    let cut: &[usize] = if kinds { &[2, 3, last] } else { &[2, last] };
    let mut table = Table::new(&header).numbers(&[last - 3]).cut(cut);
    for worker in workers {
        let (mark, paint) = dot(worker);
        let mut cells = vec![
            Cell {
                text: mark.to_owned(),
                paint,
            },
            escape(&worker.id).into(),
            escape(&worker.name).into(),
        ];
        if kinds {
            cells.push(escape(&worker.kind).into());
        }
        cells.push(Cell {
            text: state(worker),
            paint: match report::paint(worker) {
                Paint::Good => Paint::Plain,
                other => other,
            },
        });
        let since = report::since(worker).map_or_else(|| "?".to_owned(), |at| relative(at, now));
        cells.push(worker.pid.map_or("-".to_owned(), |p| p.to_string()).into());
        cells.push(users.name(worker.owner.uid).into());
        cells.push(since.into());
        cells.push(command_line(&worker.argv).into());
        table.row(cells);
    }
    table
}

/// `4 workers: 1 live, 1 stopping, 2 exited.` with a hint at what is not shown.
fn footer(workers: &[Worker], all: bool) -> String {
    let mut by_status: BTreeMap<&str, u64> = BTreeMap::new();
    for worker in workers {
        *by_status.entry(&worker.status).or_default() += 1;
    }
    let mut text = count(workers.len() as u64, "worker", "workers");
    if !by_status.is_empty() {
        let parts: Vec<String> = by_status
            .iter()
            .map(|(status, n)| format!("{n} {}", escape(status)))
            .collect();
        text.push_str(&format!(": {}", parts.join(", ")));
    }
    text.push('.');
    if !all {
        text.push_str(" Use --all to see ended ones too.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::output::Style;

    fn row(id: &str, name: &str, status: &str) -> Listed {
        Listed {
            id: id.to_owned(),
            name: name.to_owned(),
            kind: "command".to_owned(),
            status: status.to_owned(),
            argv: vec![
                "sh".to_owned(),
                "-c".to_owned(),
                "echo \u{1b}[31m".to_owned(),
            ],
            uid: 4_000_000_000,
            pid: 4711,
            started: Some(60_000_000),
            ..Listed::default()
        }
    }

    #[test]
    fn a_table_holds_what_a_list_knows_and_no_control_characters() {
        let workers = [report::of_listed(&row("4kd02m1x", "fix\u{7}", "live"))];
        let style = Style {
            legend: true,
            colour: false,
        };
        assert_eq!(
            table(&workers, &Users::default(), 120_000_000).render(&style, None),
            concat!(
                "  ID        NAME     STATUS   PID  USER        SINCE     COMMAND\n",
                "● 4kd02m1x  fix\\x07  live    4711  4000000000  1min ago  sh -c \"echo \\x1b[31m\"\n",
            )
        );
    }

    #[test]
    fn patterns_mean_ids_names_and_beginnings_of_ids() {
        let row = row("4kd02m1x", "fix-parser", "live");
        for (pattern, yes) in [
            ("fix-parser", true),
            ("fix*", true),
            ("fix", false),
            ("4kd", true),
            ("*1x", true),
            ("comm*", true),
            ("other", false),
        ] {
            assert_eq!(wanted(&row, &[pattern.to_owned()]), yes, "{pattern}");
        }
    }

    #[test]
    fn unset_values_are_null_in_json() {
        let json = to_json(&row("4kd02m1x", "", "live"));
        assert_eq!(json["outcome"], Value::Null);
        assert_eq!(json["exit"], Value::Null);
        assert_eq!(json["exited"], Value::Null);
        let mut ended = row("4kd02m1x", "", "exited");
        ended.exit_code = Some(3);
        ended.pid = 0;
        let json = to_json(&ended);
        assert_eq!(json["exit"], json!({"code": 3}));
        assert_eq!(json["pid"], Value::Null);
    }

    #[test]
    fn the_footer_counts_by_status() {
        let workers = [
            report::of_listed(&row("a", "", "live")),
            report::of_listed(&row("b", "", "exited")),
            report::of_listed(&row("c", "", "exited")),
        ];
        assert_eq!(footer(&workers, true), "3 workers: 2 exited, 1 live.");
        assert_eq!(
            footer(&[], false),
            "0 workers. Use --all to see ended ones too."
        );
    }
}
