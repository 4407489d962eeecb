//! `-P`: prints a line on standard error at intervals, as pgbench does.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use pgdyno_engine::clock::{Nanos, SECOND};
use pgdyno_engine::interval::Merged;
use pgdyno_engine::latencies::Moments;
use pgdyno_engine::recorder::Counts;

#[derive(Debug, Clone, Copy)]
pub struct Columns {
    pub lag: bool,
    pub skipped: bool,
    pub retries: bool,
    /// Seconds since 1970 in place of seconds since the start (--progress-timestamp).
    pub timestamp: bool,
}

#[derive(Debug)]
pub struct Progress {
    every: Nanos,
    columns: Columns,
    origin: Nanos,
    /// The wall-clock time at the origin, in seconds since 1970.
    origin_s: f64,
    from: Nanos,
    counts: Counts,
    latency: Moments,
    lag: Moments,
}

impl Progress {
    pub fn new(every_s: u64, columns: Columns) -> Self {
        Self {
            every: every_s * SECOND,
            columns,
            origin: 0,
            origin_s: 0.0,
            from: 0,
            counts: Counts::default(),
            latency: Moments::default(),
            lag: Moments::default(),
        }
    }

    pub fn begin(&mut self, origin: Nanos) {
        self.origin = origin;
        self.origin_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        self.from = origin;
    }

    pub fn interval(&mut self, merged: &Merged) {
        for script in &merged.scripts {
            self.counts.add(&script.counts);
            self.latency.add(&script.latency.moments);
            self.lag.add(&script.lag);
        }
        if merged.to - self.from >= self.every {
            // standard error may be closed; the run continues
            let _ = writeln!(std::io::stderr(), "{}", self.line(merged.to));
            self.from = merged.to;
            self.counts = Counts::default();
            self.latency = Moments::default();
            self.lag = Moments::default();
        }
    }

    fn line(&self, to: Nanos) -> String {
        let seconds = |nanos: Nanos| nanos as f64 / SECOND as f64;
        let ms = |nanos: f64| nanos / 1e6;
        let failed = self.counts.given_up();
        let since = seconds(to - self.origin);
        let when = if self.columns.timestamp { format!("{:.3}", self.origin_s + since) } else { format!("{since:.1}") };
        let mut line = format!(
            "progress: {when} s, {:.1} tps, lat {:.3} ms stddev {:.3}, {failed} failed",
            self.counts.succeeded as f64 / seconds(to - self.from),
            ms(self.latency.mean()),
            ms(self.latency.stddev()),
        );
        if self.columns.lag {
            line.push_str(&format!(", lag {:.3} ms", ms(self.lag.mean())));
        }
        if self.columns.skipped {
            line.push_str(&format!(", {} skipped", self.counts.skipped));
        }
        if self.columns.retries {
            line.push_str(&format!(", {} retried, {} retries", self.counts.retried, self.counts.retries));
        }
        line
    }
}
