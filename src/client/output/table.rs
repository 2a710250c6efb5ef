//! Tables without borders: a header underlined on a terminal, columns two blanks apart (one
//! after the dot), cut to the terminal's width.

use super::text::{ellipsize, width};
use super::{Paint, Style};

/// No column is cut below this.
const LEAST: usize = 8;

/// One cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Its text; already escaped.
    pub text: String,
    /// How it looks on a terminal.
    pub paint: Paint,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            paint: Paint::Plain,
        }
    }
}

/// A table in the making.
#[derive(Debug, Default)]
pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    numbers: Vec<usize>,
    cut: Vec<usize>,
}

impl Table {
    /// With these headings; an empty first one is the column of the dot.
    pub fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            ..Self::default()
        }
    }

    /// These columns hold numbers, flush right.
    #[must_use]
    pub fn numbers(mut self, columns: &[usize]) -> Self {
        self.numbers = columns.to_vec();
        self
    }

    /// These columns may be cut where the terminal is too narrow.
    #[must_use]
    pub fn cut(mut self, columns: &[usize]) -> Self {
        self.cut = columns.to_vec();
        self
    }

    /// One more row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Are there no rows?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text; `columns` is the terminal's width, where there is one.
    pub fn render(&self, style: &Style, columns: Option<usize>) -> String {
        let widths = self.widths(style.legend, columns);
        let mut out = String::new();
        if style.legend && !self.rows.is_empty() {
            let cells: Vec<Cell> = self.header.iter().map(|h| Cell::from(*h)).collect();
            let line = self.line(
                &cells,
                &widths,
                &Style {
                    colour: false,
                    ..*style
                },
            );
            // The underline is drawn under the whole width, as systemctl does.
            let total = columns.map_or(0, |c| c.min(self.total(&widths)));
            let pad = " ".repeat(total.saturating_sub(width(&line)));
            out.push_str(&style.paint(Paint::Header, &format!("{line}{pad}")));
            out.push('\n');
        }
        for row in &self.rows {
            out.push_str(&self.line(row, &widths, style));
            out.push('\n');
        }
        out
    }

    fn widths(&self, legend: bool, columns: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .header
            .iter()
            .enumerate()
            .map(|(i, heading)| {
                let cells = self.rows.iter().filter_map(|r| r.get(i));
                let head = if legend { width(heading) } else { 0 };
                cells.map(|c| width(&c.text)).fold(head, usize::max)
            })
            .collect();
        let Some(columns) = columns else {
            return widths;
        };
        // The widest that may be cut gives way, until it fits or none can give any more.
        while self.total(&widths) > columns {
            let over = self.total(&widths) - columns;
            let widest = self
                .cut
                .iter()
                .copied()
                .filter(|i| widths.get(*i).is_some_and(|w| *w > LEAST))
                .max_by_key(|i| widths[*i]);
            let Some(widest) = widest else { break };
            let second = self
                .cut
                .iter()
                .filter(|i| **i != widest)
                .filter_map(|i| widths.get(*i))
                .copied()
                .max()
                .unwrap_or(0);
            let floor = second.clamp(LEAST, widths[widest] - 1);
            widths[widest] = widths[widest].saturating_sub(over).max(floor);
        }
        widths
    }

    /// Blanks after column `i`.
    fn gap(&self, i: usize) -> usize {
        match self.header.get(i) {
            Some(heading) if heading.is_empty() => 1,
            _ => 2,
        }
    }

    fn total(&self, widths: &[usize]) -> usize {
        let gaps: usize = (0..widths.len().saturating_sub(1))
            .map(|i| self.gap(i))
            .sum();
        widths.iter().sum::<usize>() + gaps
    }

    fn line(&self, cells: &[Cell], widths: &[usize], style: &Style) -> String {
        let mut out = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let wanted = widths.get(i).copied().unwrap_or(0);
            let text = ellipsize(&cell.text, wanted);
            let pad = wanted.saturating_sub(width(&text));
            let text = style.paint(cell.paint, &text);
            let last = i + 1 == cells.len();
            if self.numbers.contains(&i) {
                out.push_str(&" ".repeat(pad));
                out.push_str(&text);
            } else {
                out.push_str(&text);
                if !last {
                    out.push_str(&" ".repeat(pad));
                }
            }
            if !last {
                out.push_str(&" ".repeat(self.gap(i)));
            }
        }
        out.truncate(out.trim_end_matches(' ').len());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["", "ID", "NAME", "PID", "COMMAND"])
            .numbers(&[3])
            .cut(&[2, 4]);
        table.row(vec![
            Cell {
                text: "●".into(),
                paint: Paint::Good,
            },
            "4kd02m1x".into(),
            "fix-parser".into(),
            "4711".into(),
            "claude -p \"fix the parser and run the tests\"".into(),
        ]);
        table.row(vec![
            "○".into(),
            "7m3q9tz0".into(),
            "".into(),
            "-".into(),
            "true".into(),
        ]);
        table
    }

    const PLAIN: Style = Style {
        legend: true,
        colour: false,
    };

    #[test]
    fn columns_line_up_and_nothing_is_cut_in_a_pipe() {
        assert_eq!(
            table().render(&PLAIN, None),
            concat!(
                "  ID        NAME         PID  COMMAND\n",
                "● 4kd02m1x  fix-parser  4711  claude -p \"fix the parser and run the tests\"\n",
                "○ 7m3q9tz0                 -  true\n",
            )
        );
    }

    #[test]
    fn lines_fit_the_terminal() {
        for columns in [40, 50, 60, 79, 80, 200] {
            let text = table().render(&PLAIN, Some(columns));
            for line in text.lines() {
                assert!(width(line) <= columns, "{columns}: {line:?}");
            }
        }
        assert!(table().render(&PLAIN, Some(50)).contains('…'));
    }

    #[test]
    fn without_a_legend_there_is_no_header() {
        let style = Style {
            legend: false,
            ..PLAIN
        };
        assert_eq!(table().render(&style, None).lines().count(), 2);
        assert_eq!(Table::new(&["A"]).render(&PLAIN, None), "");
    }

    #[test]
    fn colours_change_no_column() {
        let style = Style {
            colour: true,
            ..PLAIN
        };
        let text = table().render(&style, None);
        assert!(text.contains("\x1b[4m"), "{text:?}");
        let mut plain = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find('\x1b') {
            plain.push_str(&rest[..at]);
            rest = rest[at..].split_once('m').map_or("", |(_, tail)| tail);
        }
        plain.push_str(rest);
        assert_eq!(plain, table().render(&PLAIN, None));
    }
}
