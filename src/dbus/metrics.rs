//! The service's counters as OpenMetrics text (`GetMetrics`, `musterctl metrics`), version 1.0.0
//! of the format. Our own writer: the counters have one owner and no registry, and what is used
//! of the format are four kinds of lines.

use std::fmt::{Display, Write};

use crate::supervisor::counters::{BOUNDS_USEC, Histogram, Spent};
use crate::supervisor::handle::ServiceView;

/// One family after the other.
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            self.0.push(if n == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"{}\"", escape(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", "", help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", "", help);
        self.sample(&format!("{name}_total"), &[], value);
    }

    fn counters<K: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (K, u64)>,
    ) {
        self.family(name, "counter", "", help);
        for (key, value) in values {
            self.sample(
                &format!("{name}_total"),
                &[(label, &key.to_string())],
                value,
            );
        }
    }

    fn spent(&mut self, name: &str, help: &str, spent: Spent) {
        self.family(name, "summary", "seconds", help);
        self.sample(&format!("{name}_count"), &[], spent.count);
        self.sample(&format!("{name}_sum"), &[], seconds(spent.usec));
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", "seconds", help);
        let bucket = format!("{name}_bucket");
        let bounds = BOUNDS_USEC.iter().map(|bound| seconds(*bound));
        let bounds = bounds.chain(["+Inf".to_owned()]);
        let mut so_far = 0;
        for (bound, count) in bounds.zip(histogram.buckets) {
            so_far += count;
            self.sample(&bucket, &[("le", &bound)], so_far);
        }
        self.sample(&format!("{name}_count"), &[], histogram.count());
        self.sample(&format!("{name}_sum"), &[], seconds(histogram.usec));
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// With a decimal point always, as the format writes bounds of buckets.
fn seconds(usec: u64) -> String {
    let text = format!("{}.{:06}", usec / 1_000_000, usec % 1_000_000);
    let short = text.trim_end_matches('0');
    match short.strip_suffix('.') {
        Some(whole) => format!("{whole}.0"),
        None => short.to_owned(),
    }
}

/// The whole text, up to `# EOF`.
pub fn text(service: &ServiceView) -> String {
    let mut out = Text(String::with_capacity(8 * 1024));
    gauges(&mut out, service);
    workers(&mut out, service);
    sweeps(&mut out, service);
    out.0.push_str("# EOF\n");
    out.0
}

fn gauges(out: &mut Text, service: &ServiceView) {
    out.family("musterd", "info", "", "The running release.");
    out.sample("musterd_info", &[("version", &service.version)], 1);
    let help = "When the first image of the service started.";
    out.family("musterd_start_time_seconds", "gauge", "seconds", help);
    let started = seconds(u64::try_from(service.started.0).unwrap_or(0));
    out.sample("musterd_start_time_seconds", &[], started);
    let help = "Counts re-executions.";
    out.gauge("musterd_generation", help, service.generation);
    let help = "Things that do not work as they should; `musterctl status` names them.";
    out.gauge("musterd_degraded", help, service.degraded.len());
    let help = "1 while no worker is admitted.";
    let draining = u8::from(service.state == "draining");
    out.gauge("musterd_draining", help, draining);
    let help = "State files put aside because they cannot be read.";
    out.gauge("musterd_quarantined_files", help, service.n_quarantined);
    out.family("musterd_rows", "gauge", "", "Rows of the roll by status.");
    for (status, n) in &service.by_status {
        out.sample("musterd_rows", &[("status", status)], n);
    }
    let help = "Live workers by kind.";
    out.family("musterd_workers", "gauge", "", help);
    for (kind, n) in &service.by_kind {
        out.sample("musterd_workers", &[("kind", kind)], n);
    }
}

fn workers(out: &mut Text, service: &ServiceView) {
    let counted = &service.counted;
    let help = "Processes started.";
    out.counter("musterd_spawned", help, counted.spawned);
    let help = "Workers that ended, by outcome.";
    let exits = service.exits.iter().map(|(outcome, n)| (outcome, *n));
    out.counters("musterd_exits", help, "outcome", exits);
    let help = "Ladders that ended a worker, by the rung that worked.";
    let rungs = counted.rungs.iter().map(|(rung, n)| (rung, *n));
    out.counters("musterd_ladders", help, "rung", rungs);
    let help = "Processes that a leader left behind and that were killed.";
    out.counter("musterd_leftovers_killed", help, counted.leftovers_killed);
    let help = "Spawns refused, by reason.";
    let refused = counted.refused.iter().map(|(reason, n)| (reason, *n));
    out.counters("musterd_refused", help, "reason", refused);
    let help = "Tokens that workers told of.";
    let tokens = [
        ("input", counted.input_tokens),
        ("output", counted.output_tokens),
    ];
    out.counters("musterd_tokens", help, "direction", tokens);
    let help = "From a call's arrival or a timer's due time until the event loop took it up.";
    out.histogram("musterd_loop_lag_seconds", help, &counted.lag);
}

fn sweeps(out: &mut Text, service: &ServiceView) {
    let counted = &service.counted;
    let help = "Sweeps of the collector, dry runs among them.";
    out.spent("musterd_sweep_seconds", help, counted.sweeps);
    let name = "musterd_swept_rows";
    let help = "Rows by what a sweep did with them and why, without dry runs.";
    out.family(name, "counter", "", help);
    for (key, n) in &counted.swept {
        let (action, reason) = key.split_once(':').unwrap_or((key, ""));
        let labels = [("action", action), ("reason", reason)];
        out.sample(&format!("{name}_total"), &labels, n);
    }
    let help = "Looks into worktrees.";
    out.spent("musterd_probe_seconds", help, counted.probes);
    if let Some(last) = service.last_reap {
        let name = "musterd_last_sweep_time_seconds";
        let help = "When the last sweep that was no dry run ended.";
        out.family(name, "gauge", "seconds", help);
        let at = seconds(u64::try_from(last.0).unwrap_or(0));
        out.sample(name, &[], at);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn seconds_have_a_point_and_no_needless_zero() {
        for (usec, wanted) in [
            (0, "0.0"),
            (50, "0.00005"),
            (1_000_000, "1.0"),
            (2_500_000, "2.5"),
        ] {
            assert_eq!(seconds(usec), wanted);
        }
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_infinity() {
        let mut lag = Histogram::default();
        lag.add(Duration::from_micros(70));
        lag.add(Duration::from_secs(9));
        let mut out = Text(String::new());
        out.histogram("x_seconds", "H.", &lag);
        let wanted = "# TYPE x_seconds histogram\n# UNIT x_seconds seconds\n# HELP x_seconds H.\n\
                      x_seconds_bucket{le=\"0.00005\"} 0\nx_seconds_bucket{le=\"0.0001\"} 1\n";
        assert!(out.0.starts_with(wanted), "{}", out.0);
        let end = "x_seconds_bucket{le=\"2.0\"} 1\nx_seconds_bucket{le=\"+Inf\"} 2\n\
                   x_seconds_count 2\nx_seconds_sum 9.00007\n";
        assert!(out.0.ends_with(end), "{}", out.0);
    }

    #[test]
    fn a_label_cannot_break_out_of_its_line() {
        let mut out = Text(String::new());
        out.sample("a", &[("b", "x\"\\\n")], 1);
        assert_eq!(out.0, "a{b=\"x\\\"\\\\\\n\"} 1\n");
    }
}
