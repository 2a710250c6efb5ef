//! Figures, goals, and what could not be measured: one line each, and a table at the end.

use std::fmt::Write;

/// Figures of several rounds.
#[derive(Debug, Clone, Default)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    fn sorted(&self) -> Vec<f64> {
        let mut all = self.0.clone();
        all.sort_by(f64::total_cmp);
        all
    }

    /// The value that this part of the figures does not exceed.
    pub fn quantile(&self, part: f64) -> f64 {
        let all = self.sorted();
        let last = all.len().saturating_sub(1);
        let at = (last as f64 * part).round() as usize;
        all.get(at).copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Round by round.
    pub fn over(&self, floor: &Samples) -> Samples {
        Samples(self.0.iter().zip(&floor.0).map(|(a, b)| a / b).collect())
    }

    pub fn map(&self, change: impl Fn(f64) -> f64) -> Samples {
        Samples(self.0.iter().map(|value| change(*value)).collect())
    }

    fn shown(&self) -> String {
        let digits = if self.median().abs() >= 100.0 { 0 } else { 2 };
        format!(
            "{:.digits$} ({:.digits$} to {:.digits$})",
            self.median(),
            self.quantile(0.0),
            self.quantile(1.0)
        )
    }
}

/// What is asked of a figure.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    /// Empty if it is kept, else by how much it is missed.
    fn missed(self, value: f64) -> String {
        let by = match self {
            Limit::AtMost(limit) if value > limit => value / limit,
            Limit::AtLeast(limit) if value < limit => limit / value,
            // Not a number is no success.
            _ if value.is_nan() => return "not measured".to_owned(),
            _ => return String::new(),
        };
        if by.is_finite() {
            format!("short of by {by:.2} x")
        } else {
            format!("short of by {value:.2}")
        }
    }
}

/// Everything one run has to say.
#[derive(Debug, Default)]
pub struct Report {
    goals: String,
    figures: String,
    section: &'static str,
}

impl Report {
    pub fn section(&mut self, title: &'static str) {
        self.section = title;
        println!("\n== {title}");
    }

    /// A figure to show sizes. Absolute ones are printed and not kept: they are this machine's.
    pub fn figure(&mut self, what: &str, unit: &str, samples: &Samples) {
        println!("   {what}: {} {unit}", samples.shown());
    }

    /// A ratio that no goal is set for.
    pub fn ratio(&mut self, what: &str, samples: &Samples) {
        println!("   {what}: {}", samples.shown());
        let _ = writeln!(
            self.figures,
            "| {} | {what} | {} |",
            self.section,
            samples.shown()
        );
    }

    /// `goal · measured · met / short of by`.
    pub fn goal(&mut self, what: &str, limit: Limit, samples: &Samples) {
        let asked = match limit {
            Limit::AtMost(limit) => format!("at most {limit}"),
            Limit::AtLeast(limit) => format!("at least {limit}"),
        };
        let verdict = match limit.missed(samples.median()) {
            missed if missed.is_empty() => "met".to_owned(),
            missed => missed,
        };
        println!("{what}, {asked} · {} · {verdict}", samples.shown());
        let _ = writeln!(
            self.goals,
            "| {} | {what} | {asked} | {} | {verdict} |",
            self.section,
            samples.shown()
        );
    }

    pub fn not_run(&mut self, what: &str, why: &str) {
        println!("{what} · not run, because {why}");
        let _ = writeln!(
            self.goals,
            "| {} | {what} | | not run | {why} |",
            self.section
        );
    }

    /// The tables for the documentation.
    pub fn markdown(&self) -> String {
        format!(
            "| | goal | asked | measured: median (min to max) | |\n|---|---|---|---|---|\n{}\n\
             | | beside it | ratio: median (min to max) |\n|---|---|---|\n{}",
            self.goals, self.figures
        )
    }
}
