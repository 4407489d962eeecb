//! `-l`: one line for each transaction or interval, as pgbench writes it, in one file for each worker.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pgdyno_script::Rng;

use crate::clock::{Clock, Nanos};
use crate::latencies::Moments;
use crate::log_spec::{Detail, LogSpec};
use crate::recorder::Ending;
use crate::schedule::Arrivals;
use crate::spec::{OnError, OnLoss, Spec};

/// Which optional columns a line has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// Schedule lag (-R).
    pub lag: bool,
    /// Skipped transactions (-L).
    pub skipped: bool,
    /// Retries (--max-tries).
    pub retries: bool,
    /// Failures by kind (--failures-detailed).
    pub failures: bool,
    /// Failures that are neither serialization nor deadlock (--continue-on-error).
    pub others: bool,
    /// Transactions whose connection was lost (--reconnect).
    pub lost: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub client: usize,
    /// Number of the transaction within the client, from 1.
    pub number: u64,
    pub script: usize,
    pub ending: Ending,
    /// Time from its intended start, if it succeeded.
    pub latency: Nanos,
    /// Time from its intended to its actual start, if it succeeded.
    pub lag: Nanos,
    /// How often it was retried.
    pub retries: u32,
}

/// How many bytes are buffered before they are written.
const BUFFER_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct Log<'a> {
    spec: &'a LogSpec,
    path: &'a Path,
    out: BufWriter<&'a File>,
    columns: Columns,
    sampling: Rng,
    clock: Clock,
    /// The wall-clock time at which the engine's clock read zero, in microseconds since 1970.
    epoch_us: u64,
    /// Whether measuring has begun; nothing is written before that.
    begun: bool,
    interval: LogInterval,
}

impl<'a> Log<'a> {
    /// Opens the log of worker number `worker`; None without -l.
    pub fn open(worker: usize, spec: &'a Spec, clock: Clock) -> Option<Self> {
        let log = spec.log.as_ref()?;
        let file = log.files.get(worker)?;
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Some(Self {
            spec: log,
            path: &file.path,
            out: BufWriter::with_capacity(BUFFER_BYTES, &file.file),
            columns: Columns {
                lag: spec.arrivals != Arrivals::Closed,
                skipped: spec.latency_limit.is_some(),
                retries: spec.tries.may_retry(),
                failures: log.failures_detailed,
                others: spec.on_error == OnError::Continue,
                lost: spec.on_loss != OnLoss::Abort,
            },
            sampling: Rng::seed(spec.seeds.sampling[worker]),
            clock,
            epoch_us: (since_1970.as_micros() as u64).saturating_sub(clock.now() / 1000),
            begun: false,
            interval: LogInterval::default(),
        })
    }

    /// Begins to log; only the first call has an effect.
    pub fn begin(&mut self, now: Nanos) {
        if !self.begun {
            self.begun = true;
            self.interval.begin((self.epoch_us + now / 1000) / 1_000_000);
        }
    }

    pub fn transaction(&mut self, entry: &Entry, now: Nanos) {
        if !self.begun || self.spec.failure.get().is_some() {
            return;
        }
        let now_us = self.epoch_us + now / 1000;
        let written = match self.spec.detail {
            Detail::Transaction { sampling_rate }
                if sampling_rate < 1.0 && self.sampling.next_f64() > sampling_rate =>
            {
                Ok(())
            }
            Detail::Transaction { .. } => self.write_entry(entry, now_us),
            Detail::Interval { length_s } => {
                let written = self.pass_intervals(length_s, now_us);
                self.interval.add(entry);
                written
            }
        };
        self.keep(written);
    }

    fn write_entry(&mut self, entry: &Entry, now_us: u64) -> io::Result<()> {
        let Entry { client, number, script, .. } = entry;
        let out = &mut self.out;
        write!(out, "{client} {number} ")?;
        match (entry.ending, self.columns.failures) {
            (Ending::Succeeded, _) => write!(out, "{}", entry.latency / 1000)?,
            (Ending::Skipped, _) => out.write_all(b"skipped")?,
            (Ending::SerializationFailure, true) => out.write_all(b"serialization")?,
            (Ending::Deadlock, true) => out.write_all(b"deadlock")?,
            (Ending::OtherFailure, true) => out.write_all(b"other")?,
            (Ending::ConnectionLost, true) => out.write_all(b"lost")?,
            _ => out.write_all(b"failed")?,
        }
        let (second, microsecond) = (now_us / 1_000_000, now_us % 1_000_000);
        write!(out, " {script} {second} {microsecond}")?;
        if self.columns.lag {
            write!(out, " {}", entry.lag / 1000)?;
        }
        if self.columns.retries {
            write!(out, " {}", entry.retries)?;
        }
        out.write_all(b"\n")
    }

    fn pass_intervals(&mut self, length_s: u64, now_us: u64) -> io::Result<()> {
        while self.interval.end_s(length_s) * 1_000_000 <= now_us {
            self.interval.write(&mut self.out, self.columns)?;
            self.interval.begin(self.interval.end_s(length_s));
        }
        Ok(())
    }

    fn keep(&self, written: io::Result<()>) {
        if let Err(error) = written {
            // another worker may have failed first
            let _ = self.spec.failure.set((self.path.to_owned(), error));
        }
    }
}

impl Drop for Log<'_> {
    /// Omits an interval that has not ended, as pgbench does.
    fn drop(&mut self) {
        if self.spec.failure.get().is_some() {
            return;
        }
        let mut written = Ok(());
        if let (Detail::Interval { length_s }, true) = (self.spec.detail, self.begun) {
            written = self.pass_intervals(length_s, self.epoch_us + self.clock.now() / 1000);
        }
        let flushed = written.and_then(|()| self.out.flush());
        self.keep(flushed);
    }
}

#[derive(Debug, Default)]
pub struct LogInterval {
    /// Start of the interval, in seconds since 1970.
    start_s: u64,
    /// In microseconds, as `lag`.
    latency: Moments,
    lag: Moments,
    skipped: u64,
    retried: u64,
    retries: u64,
    serialization_failures: u64,
    deadlocks: u64,
    other_failures: u64,
    lost: u64,
}

impl LogInterval {
    pub fn begin(&mut self, start_s: u64) {
        *self = Self { start_s, ..Self::default() };
    }

    /// End of the interval, in seconds since 1970.
    pub fn end_s(&self, length_s: u64) -> u64 {
        self.start_s + length_s
    }

    pub fn add(&mut self, entry: &Entry) {
        if entry.retries > 0 {
            self.retried += 1;
            self.retries += u64::from(entry.retries);
        }
        match entry.ending {
            Ending::Succeeded => {
                self.latency.record(entry.latency / 1000);
                self.lag.record(entry.lag / 1000);
            }
            Ending::Skipped => self.skipped += 1,
            Ending::SerializationFailure => self.serialization_failures += 1,
            Ending::Deadlock => self.deadlocks += 1,
            Ending::OtherFailure => self.other_failures += 1,
            Ending::ConnectionLost => self.lost += 1,
            // pgbench does not count these at all
            Ending::Aborted => {}
        }
    }

    /// Writes the line: 15 columns, one more where other failures are possible, and one more where
    /// transactions can be lost. Columns that were not requested are 0.
    pub fn write(&self, out: &mut impl Write, columns: Columns) -> io::Result<()> {
        let shown = |wanted: bool, value: u64| if wanted { value } else { 0 };
        write!(out, "{} {}", self.start_s, self.latency.count)?;
        let lag = if columns.lag { self.lag } else { Moments::default() };
        for Moments { sum, sum_of_squares, min, max, .. } in [self.latency, lag] {
            write!(out, " {sum:.0} {sum_of_squares:.0} {min} {max}")?;
        }
        write!(
            out,
            " {} {} {} {} {}",
            shown(columns.skipped, self.skipped),
            shown(columns.retries, self.retried),
            shown(columns.retries, self.retries),
            shown(columns.failures, self.serialization_failures),
            shown(columns.failures, self.deadlocks),
        )?;
        if columns.others {
            write!(out, " {}", shown(columns.failures, self.other_failures))?;
        }
        if columns.lost {
            write!(out, " {}", shown(columns.failures, self.lost))?;
        }
        out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ending: Ending, latency_us: u64, retries: u32) -> Entry {
        Entry { client: 0, number: 1, script: 0, ending, latency: latency_us * 1000, lag: 7_000, retries }
    }

    fn line(columns: Columns) -> String {
        let mut interval = LogInterval::default();
        interval.begin(100);
        interval.add(&entry(Ending::Succeeded, 300, 0));
        interval.add(&entry(Ending::Succeeded, 100, 2));
        interval.add(&entry(Ending::Skipped, 0, 0));
        interval.add(&entry(Ending::Deadlock, 0, 1));
        interval.add(&entry(Ending::OtherFailure, 0, 0));
        interval.add(&entry(Ending::ConnectionLost, 0, 0));
        let mut out = Vec::new();
        interval.write(&mut out, columns).expect("a Vec takes everything");
        String::from_utf8(out).expect("digits are UTF-8")
    }

    #[test]
    fn columns_that_were_not_asked_for_are_zero() {
        let all = Columns { lag: true, skipped: true, retries: true, failures: true, others: true, lost: true };
        assert_eq!(line(all), "100 2 400 100000 100 300 14 98 7 7 1 2 3 0 1 1 1\n");
        let none = Columns { lag: false, skipped: false, retries: false, failures: false, others: false, lost: false };
        assert_eq!(line(none), "100 2 400 100000 100 300 0 0 0 0 0 0 0 0 0\n");
    }
}
