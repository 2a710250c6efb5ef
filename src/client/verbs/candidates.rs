//! `__candidates`: what a shell offers for WORKER. One `WORD<tab>WHAT IT IS` a line; asked at every
//! press of the key, so it starts no daemon and complains of nothing.

use std::time::Duration;

use crate::client::args::Global;
use crate::client::link::Daemon;
use crate::client::output::Output;
use crate::client::output::text::{command_line, escape};
use crate::dbus::client::Listed;
use crate::supervisor::handle::ListFilter;

/// A shell that waits is worse than one that offers nothing.
const LIMIT: Duration = Duration::from_secs(2);

/// Prints them; nothing where no daemon answers.
pub async fn run(global: &Global, out: &mut Output) {
    let quiet = Global {
        quiet: true,
        no_ask_password: true,
        ..global.clone()
    };
    let rows = async {
        let daemon = Daemon::connect_running(&quiet).await.ok()?;
        let filter = ListFilter {
            all: true,
            ..ListFilter::default()
        };
        let list = daemon.call(async |client| client.list(filter.clone()).await);
        list.await.ok()
    };
    let rows = tokio::time::timeout(LIMIT, rows).await.ok().flatten();
    for row in rows.unwrap_or_default() {
        for line in lines(&row) {
            out.line(line);
        }
    }
}

/// The id, and the name if a shell takes it as it is.
fn lines(row: &Listed) -> Vec<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let what = match row.name.as_str() {
        "" => escape(&command_line(&row.argv)),
        name => escape(name),
    };
    let mut lines = vec![format!("{}\t{} {what}", row.id, row.status)];
    if !row.name.is_empty() && row.name.chars().all(is_plain) && !row.name.starts_with('-') {
        lines.push(format!("{}\t{} {}", row.name, row.status, row.id));
    }
    lines
}
