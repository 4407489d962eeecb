//! `-l`: one line for each transaction or interval, as pgbench writes it, in one file for each worker.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use pgdyno_script::Rng;

use crate::clock::{Clock, Nanos};
use crate::log_entry::{Columns, Entry};
use crate::log_interval::LogInterval;
use crate::log_spec::{Detail, LogSpec};
use crate::recorder::Ending;
use crate::schedule::Arrivals;
use crate::spec::{OnError, OnLoss, Spec};

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
            path: file.path(),
            out: BufWriter::with_capacity(BUFFER_BYTES, file.file()),
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
