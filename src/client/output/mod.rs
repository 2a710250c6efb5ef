//! What verbs print: tables and JSON, colours, the pager. A verb fills an [`Output`] and `main`
//! sends it; streams (`logs`, `monitor`) write for themselves.

pub mod table;
pub mod text;
pub mod time;

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use serde::Serialize;
use table::Table;

use super::args::{ColorMode, Global, JsonMode};

/// How a text looks on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    /// As it is.
    #[default]
    Plain,
    /// Lives and does well.
    Good,
    /// Wants a look.
    Warn,
    /// Ended as it should not.
    Bad,
    /// Less important.
    Dim,
    /// Header of a table.
    Header,
}

/// What is decided once for all output of a run.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Header and footer.
    pub legend: bool,
    /// Colours.
    pub colour: bool,
}

impl Style {
    /// The text in its colour.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            _ if !self.colour => return text.to_owned(),
            Paint::Plain => return text.to_owned(),
            Paint::Good => "0;1;32",
            Paint::Warn => "0;1;33",
            Paint::Bad => "0;1;31",
            Paint::Dim => "0;90",
            Paint::Header => "4",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Everything a verb prints to standard output.
#[derive(Debug)]
pub struct Output {
    /// Style of tables and blocks.
    pub style: Style,
    /// JSON instead of text; `true` for indented.
    pub json: Option<bool>,
    /// Less words.
    pub quiet: bool,
    columns: Option<usize>,
    pager: bool,
    text: String,
}

impl Output {
    /// As the options and the terminal have it.
    pub fn new(global: &Global) -> Self {
        let tty = io::stdout().is_terminal();
        let json = match (global.json, global.json_auto) {
            (Some(JsonMode::Pretty), _) => Some(true),
            (Some(JsonMode::Short), _) => Some(false),
            (Some(JsonMode::Off), _) | (None, false) => None,
            (None, true) => Some(tty),
        };
        Self {
            style: Style {
                legend: !global.no_legend,
                colour: colour(global.color, tty),
            },
            json,
            quiet: global.quiet,
            columns: tty.then(terminal_columns),
            pager: tty && !global.no_pager && !global.quiet,
            text: String::new(),
        }
    }

    /// One line.
    pub fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// A table, cut to the terminal's width if there is one.
    pub fn table(&mut self, table: &Table) {
        let text = table.render(&self.style, self.columns);
        self.text.push_str(&text);
    }

    /// JSON in the form that was asked for; short where none was.
    pub fn json(&mut self, value: &impl Serialize) {
        let text = match self.json {
            Some(true) => serde_json::to_string_pretty(value),
            _ => serde_json::to_string(value),
        };
        match text {
            Ok(text) => self.line(text),
            Err(error) => say!("musterctl: cannot write JSON: {error}"),
        }
    }

    /// What was printed so far.
    #[cfg(test)]
    pub fn into_text(self) -> String {
        self.text
    }

    /// Sends everything, through the pager where there is one. A reader that has had enough is
    /// no error.
    pub fn send(self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        if self.pager
            && let Some(done) = page(&self.text)
        {
            return done;
        }
        write_out(self.text.as_bytes())
    }
}

/// Writes to standard output; a closed pipe counts as written.
pub fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// `--color`, else `SYSTEMD_COLORS`, else `NO_COLOR`, else whether it is a terminal that can.
fn colour(asked: Option<ColorMode>, tty: bool) -> bool {
    match asked {
        Some(ColorMode::Always) => return true,
        Some(ColorMode::Never) => return false,
        Some(ColorMode::Auto) | None => {}
    }
    if let Ok(value) = std::env::var("SYSTEMD_COLORS") {
        match value.as_str() {
            "0" | "no" | "false" | "off" | "n" | "f" => return false,
            "" => {}
            _ => return true,
        }
    }
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
    tty && !no_color && !dumb
}

/// `COLUMNS`, else what the terminal says, else 80.
fn terminal_columns() -> usize {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|n| *n > 0)
        .or_else(|| {
            let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
            (size.ws_col > 0).then_some(usize::from(size.ws_col))
        })
        .unwrap_or(80)
}

/// Through the pager; `None` where there is to be none or it cannot be started. As systemctl:
/// SYSTEMD_PAGER, else PAGER, else less; empty or `cat` for none; less gets SYSTEMD_LESS.
fn page(text: &str) -> Option<io::Result<()>> {
    let wanted = std::env::var("SYSTEMD_PAGER")
        .or_else(|_| std::env::var("PAGER"))
        .unwrap_or_else(|_| "less".to_owned());
    let words: Vec<&str> = wanted.split_whitespace().collect();
    let (program, args) = words.split_first()?;
    if *program == "cat" {
        return None;
    }
    let options = std::env::var("SYSTEMD_LESS").unwrap_or_else(|_| "FRSXMK".to_owned());
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::piped())
        .env("LESS", options);
    // Under sudo the pager must not hand out a shell, unless it was said that it may.
    let insecure = std::env::var("SYSTEMD_PAGERSECURE")
        .is_ok_and(|v| matches!(v.as_str(), "0" | "no" | "false" | "off"));
    if !insecure {
        command.env("LESSSECURE", "1");
    }
    let mut pager = command.spawn().ok()?;
    if let Some(mut stdin) = pager.stdin.take() {
        // A pager that was left early is no error.
        let _ = stdin.write_all(text.as_bytes());
    }
    Some(pager.wait().map(|_| ()))
}
