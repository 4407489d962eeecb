//! `-P`: a line on standard error every few seconds, as pgbench writes it.

use std::io::Write;

use pgdyno_engine::clock::{Nanos, SECOND};
use pgdyno_engine::interval::Merged;
use pgdyno_engine::recorder::{Counts, Moments};

/// What the line tells besides throughput and latency.
#[derive(Debug, Clone, Copy)]
pub struct Columns {
    /// Schedule lag (-R).
    pub lag: bool,
    /// Skipped transactions (-R and -L).
    pub skipped: bool,
    /// Retries (--max-tries).
    pub retries: bool,
}

/// Sums intervals up to the next line.
#[derive(Debug)]
pub struct Progress {
    every: Nanos,
    columns: Columns,
    origin: Nanos,
    from: Nanos,
    counts: Counts,
    latency: Moments,
    lag: Moments,
}

impl Progress {
    /// A line every `every_s` seconds.
    #[must_use]
    pub fn new(every_s: u64, columns: Columns) -> Self {
        Self {
            every: every_s * SECOND,
            columns,
            origin: 0,
            from: 0,
            counts: Counts::default(),
            latency: Moments::default(),
            lag: Moments::default(),
        }
    }

    /// The load begins.
    pub fn begin(&mut self, origin: Nanos) {
        self.origin = origin;
        self.from = origin;
    }

    /// An interval is whole: prints a line when one is due.
    pub fn interval(&mut self, merged: &Merged) {
        for script in &merged.scripts {
            self.counts.add(&script.counts);
            self.latency.add(&script.latency.moments);
            self.lag.add(&script.lag);
        }
        if merged.to - self.from >= self.every {
            // standard error may be closed; the run goes on
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
        let failed = self.counts.serialization_failures + self.counts.deadlocks;
        let mut line = format!(
            "progress: {:.1} s, {:.1} tps, lat {:.3} ms stddev {:.3}, {failed} failed",
            seconds(to - self.origin),
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
            line.push_str(&format!(
                ", {} retried, {} retries",
                self.counts.retried, self.counts.retries
            ));
        }
        line
    }
}
