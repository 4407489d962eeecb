//! `--aggregate-interval`: the transactions of several seconds in one line of a log.

use std::io::{self, Write};

use crate::latencies::Moments;
use crate::log_entry::{Columns, Entry};
use crate::recorder::Ending;

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
    fn all_columns() {
        let all = Columns { lag: true, skipped: true, retries: true, failures: true, others: true, lost: true };
        assert_eq!(line(all), "100 2 400 100000 100 300 14 98 7 7 1 2 3 0 1 1 1\n");
    }

    #[test]
    fn what_was_not_asked_for_is_zero() {
        let none = Columns { lag: false, skipped: false, retries: false, failures: false, others: false, lost: false };
        assert_eq!(line(none), "100 2 400 100000 100 300 0 0 0 0 0 0 0 0 0\n");
    }
}
