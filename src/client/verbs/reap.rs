//! `reap`: one sweep of the collector, with every row's action and reason.

use serde_json::json;

use super::report::count;
use crate::client::args::ReapArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;
use crate::client::output::table::Table;
use crate::client::output::text::escape;
use crate::client::output::time::{now, relative, span};
use crate::dbus::client::{Reaped, ReapedRow};
use crate::supervisor::handle::ReapOptions;

/// Runs the verb.
pub async fn run(daemon: &Daemon, args: &ReapArgs, out: &mut Output) -> Result<Code, Failure> {
    let mut options = ReapOptions {
        dry_run: args.dry_run,
        grace: args.grace,
        workers: args.workers.clone(),
        ..ReapOptions::default()
    };
    let mut report = sweep(daemon, &options).await?;
    while missing(&report) > 0 {
        options.after = report.rows.last().and_then(|row| row.id.parse().ok());
        if options.after.is_none() {
            break;
        }
        let page = sweep(daemon, &options).await?;
        if page.rows.is_empty() {
            break;
        }
        report.rows.extend(page.rows);
    }
    if out.json.is_some() {
        out.json(&json!({
            "dry_run": args.dry_run,
            "counts": report.counts,
            "rows": report.rows,
            "more": missing(&report),
        }));
    } else {
        print(&report, args.dry_run, now(), out);
    }
    Ok(Code::DONE)
}

async fn sweep(daemon: &Daemon, options: &ReapOptions) -> Result<Reaped, Failure> {
    daemon
        .call(async |client| client.reap(options).await)
        .await
        .map_err(|e| failure(e, Asking::Action))
}

fn counted(report: &Reaped, action: &str) -> u64 {
    report.counts.get(action).copied().unwrap_or(0)
}

/// Rows that were judged but are not on the pages seen.
fn missing(report: &Reaped) -> u64 {
    let all: u64 = ["reap", "stamp", "keep"]
        .iter()
        .map(|action| counted(report, action))
        .sum();
    all.saturating_sub(report.rows.len() as u64)
}

fn print(report: &Reaped, dry_run: bool, now: i64, out: &mut Output) {
    if out.quiet {
        return;
    }
    let mut table =
        Table::new(&["ID", "NAME", "DEAD SINCE", "ACTION", "REASON", "DETAIL"]).cut(&[1, 5]);
    for row in &report.rows {
        let since = row.since.and_then(|since| i64::try_from(since).ok());
        table.row(vec![
            escape(&row.id).into(),
            escape(&row.name).into(),
            since.map_or("-".to_owned(), |s| relative(s, now)).into(),
            escape(&row.action).into(),
            escape(&row.reason).into(),
            detail(row).into(),
        ]);
    }
    out.table(&table);
    if !out.style.legend {
        return;
    }
    if !table.is_empty() {
        out.line("");
    }
    if missing(report) > 0 {
        out.line(format!(
            "{} more not shown.",
            count(missing(report), "row", "rows")
        ));
    }
    out.line(summary(report, dry_run));
}

fn detail(row: &ReapedRow) -> String {
    match row.seconds_left.and_then(|left| u64::try_from(left).ok()) {
        // The same as the detail's words, but in units that count.
        Some(left) => format!("{} left", span(std::time::Duration::from_secs(left))),
        None => escape(&row.detail),
    }
}

fn summary(report: &Reaped, dry_run: bool) -> String {
    let (reap, stamp, keep) = (
        counted(report, "reap"),
        counted(report, "stamp"),
        counted(report, "keep"),
    );
    if dry_run {
        format!(
            "{} would be reaped, {stamp} stamped, {keep} kept; nothing done.",
            count(reap, "row", "rows")
        )
    } else {
        format!(
            "{} reaped, {stamp} stamped, {keep} kept.",
            count(reap, "row", "rows")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_summed_up_with_its_zeros() {
        let report = Reaped {
            counts: [("reap", 0), ("stamp", 1), ("keep", 2), ("keep:held", 2)]
                .map(|(k, n)| (k.to_owned(), n))
                .into(),
            rows: vec![ReapedRow::default()],
        };
        assert_eq!(summary(&report, false), "0 rows reaped, 1 stamped, 2 kept.");
        assert_eq!(missing(&report), 2);
        let row = ReapedRow {
            seconds_left: Some(3700),
            ..ReapedRow::default()
        };
        assert_eq!(detail(&row), "1h 1min left");
    }
}
