//! Counts what happens where it happens: each worker has one recorder, without locks, and without
//! allocations between two transactions.

use hdrhistogram::Histogram;
use pgdyno_wire::SqlState;

use crate::clock::{Nanos, SECOND};

/// Higher latencies are recorded as this value.
pub const HIGHEST_LATENCY: Nanos = 3600 * SECOND;
/// Significant decimal digits that histograms keep.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The whole script ran.
    Succeeded,
    /// Given up after a serialization failure (40001).
    SerializationFailure,
    /// Given up after a deadlock (40P01).
    Deadlock,
    /// Given up after any other error that does not abort the client.
    OtherFailure,
    /// The connection was lost during the transaction: whether it was committed is unknown.
    ConnectionLost,
    /// The client gave up during the transaction, after any other error or a lost connection.
    Aborted,
    /// Never started, because its intended start was too long ago.
    Skipped,
}

impl Ending {
    /// How a transaction with this error ends if it is not retried: both have a count of their own
    /// because a retry may succeed.
    #[must_use]
    pub fn after_retryable(state: SqlState) -> Option<Self> {
        match state {
            SqlState::DEADLOCK_DETECTED => Some(Ending::Deadlock),
            _ if state.is_retryable() => Some(Ending::SerializationFailure),
            _ => None,
        }
    }
}

/// Numbers of transactions by ending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions whose whole script ran.
    pub succeeded: u64,
    /// Given up after SQLSTATE 40001.
    pub serialization_failures: u64,
    /// Given up after SQLSTATE 40P01.
    pub deadlocks: u64,
    /// Given up after another error (--continue-on-error).
    pub other_failures: u64,
    /// Transactions whose connection was lost while their clients reconnect (--reconnect). Some may
    /// have been committed.
    pub lost: u64,
    /// Transactions during which a client gave up; pgbench does not count them at all.
    pub aborted: u64,
    /// Transactions that were never started.
    pub skipped: u64,
    /// Transactions that succeeded or failed after at least one retry.
    pub retried: u64,
    /// Retries of all transactions.
    pub retries: u64,
    /// Transactions that succeeded, but above the latency limit.
    pub late: u64,
}

impl Counts {
    /// Transactions that began and failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.given_up() + self.aborted
    }

    /// Transactions that pgbench counts as failed, which excludes those during which a client gave
    /// up.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.serialization_failures + self.deadlocks + self.other_failures + self.lost
    }

    /// Transactions that ended in any way.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.succeeded + self.failed() + self.skipped
    }

    /// Counts the retries of a transaction that began and had `tries` tries.
    pub fn tried(&mut self, tries: u32) {
        if tries > 1 {
            self.retried += 1;
            self.retries += u64::from(tries - 1);
        }
    }

    /// Adds `other` to these counts.
    pub fn add(&mut self, other: &Self) {
        self.succeeded += other.succeeded;
        self.serialization_failures += other.serialization_failures;
        self.deadlocks += other.deadlocks;
        self.other_failures += other.other_failures;
        self.lost += other.lost;
        self.aborted += other.aborted;
        self.skipped += other.skipped;
        self.retried += other.retried;
        self.retries += other.retries;
        self.late += other.late;
    }
}

/// Exact moments in addition to a histogram: a mean from buckets would be off by their width.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// Number of recorded values.
    pub count: u64,
    /// Sum, nanoseconds.
    pub sum: f64,
    /// Sum of the squares, nanoseconds squared.
    pub sum_of_squares: f64,
    /// Largest value, nanoseconds.
    pub max: Nanos,
    /// Smallest value, nanoseconds; 0 without values.
    pub min: Nanos,
}

impl Moments {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        let v = value as f64;
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += v;
        self.sum_of_squares += v * v;
    }

    /// Adds `other` to these.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
    }

    /// Arithmetic mean, nanoseconds; 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum / self.count as f64
        }
    }

    /// Standard deviation of the population, nanoseconds.
    #[must_use]
    pub fn stddev(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let mean = self.mean();
        (self.sum_of_squares / self.count as f64 - mean * mean)
            .max(0.0)
            .sqrt()
    }
}

/// Latencies: a histogram, and the exact moments of its values.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// HDR histogram, nanoseconds.
    pub histogram: Histogram<u64>,
    /// Count, sums, minimum and maximum, exact.
    pub moments: Moments,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_LATENCY, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the histogram takes");
        Self {
            histogram,
            moments: Moments::default(),
        }
    }
}

impl Latencies {
    /// Counts one latency; one out of range is clamped.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.histogram.saturating_record(latency.max(1));
        self.moments.record(latency);
    }

    /// The latency that the fraction `quantile` (0 to 1) of the values does not exceed. The end of
    /// the histogram's bucket may lie beyond every value in it, and values above
    /// [`HIGHEST_LATENCY`] lie beyond its last bucket: the result stays within the exact smallest
    /// and largest value.
    #[must_use]
    pub fn at_quantile(&self, quantile: f64) -> Nanos {
        let Moments { min, max, .. } = self.moments;
        if quantile >= 1.0 {
            return max;
        }
        self.histogram.value_at_quantile(quantile).clamp(min, max)
    }

    /// Adds `other` to these.
    pub fn add(&mut self, other: &Self) {
        if other.moments.count > 0 {
            self.histogram
                .add(&other.histogram)
                .expect("all histograms have the same bounds");
            self.moments.add(&other.moments);
        }
    }

    /// Empties the record without releasing memory.
    pub fn clear(&mut self) {
        if self.moments.count > 0 {
            self.histogram.reset();
            self.moments = Moments::default();
        }
    }
}

/// One script's transactions in a period.
#[derive(Debug, Clone, Default)]
pub struct ScriptRecord {
    /// Transactions by ending.
    pub counts: Counts,
    /// Latency of succeeded transactions, from the intended start.
    pub latency: Latencies,
    /// Schedule lag of succeeded transactions: actual start minus intended start (open loop only).
    pub lag: Moments,
    /// Time to connect, with a connection for each transaction (-C); otherwise empty.
    pub connecting: Moments,
    /// Full keying times before transactions (--keying-time).
    pub keying: Moments,
    /// Full think times after transactions (--think-time).
    pub think: Moments,
    /// Statements by what they did; only for clients with a driver.
    pub statements: Statements,
}

/// Statements of clients with a driver, by what they did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statements {
    /// Statements that returned rows.
    pub reads: u64,
    /// Statements that changed rows.
    pub writes: u64,
    /// All other statements that succeeded.
    pub others: u64,
    /// Errors that the script ignores: the transaction was retried or given up.
    pub ignored_errors: u64,
    /// Sessions that scripts replaced themselves.
    pub reconnects: u64,
}

impl Statements {
    /// Adds `other` to these.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.ignored_errors += other.ignored_errors;
        self.reconnects += other.reconnects;
    }

    /// Sum of reads, writes and others.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.reads + self.writes + self.others
    }
}

impl ScriptRecord {
    /// Adds `other` to this.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.latency.add(&other.latency);
        self.lag.add(&other.lag);
        self.connecting.add(&other.connecting);
        self.keying.add(&other.keying);
        self.think.add(&other.think);
        self.statements.add(&other.statements);
    }

    /// Empties the record without releasing memory.
    pub fn clear(&mut self) {
        self.counts = Counts::default();
        self.latency.clear();
        self.lag = Moments::default();
        self.connecting = Moments::default();
        self.keying = Moments::default();
        self.think = Moments::default();
        self.statements = Statements::default();
    }
}

/// One command's executions since measuring began.
#[derive(Debug, Clone, Default)]
pub struct CommandRecord {
    /// Latency of one execution.
    pub latency: Latencies,
    /// Executions that failed and were not retried.
    pub failures: u64,
    /// Executions that failed and were retried.
    pub retries: u64,
}

impl CommandRecord {
    /// Adds `other` to this.
    pub fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.failures += other.failures;
        self.retries += other.retries;
    }

    /// Empties the record without touching memory that was never written to: a script may have many
    /// commands.
    pub fn clear(&mut self) {
        self.latency.clear();
        self.failures = 0;
        self.retries = 0;
    }
}

/// What a worker has recorded and not yet reported.
#[derive(Debug)]
pub struct Recorder {
    /// One record for each script, of the current interval; in a run with phases one for each
    /// script and phase, ordered by phase.
    pub scripts: Vec<ScriptRecord>,
    /// One record for each command of each script, since measuring began; None for commands without
    /// timing.
    pub commands: Vec<Vec<Option<CommandRecord>>>,
}

impl Recorder {
    /// For scripts with the given commands and `phases` phases; `timed` says which of the commands
    /// are timed.
    #[must_use]
    pub fn new(timed: &[Vec<bool>], phases: usize) -> Self {
        Self {
            scripts: vec![ScriptRecord::default(); timed.len() * phases],
            commands: timed.iter().map(|script| blank(script)).collect(),
        }
    }

    /// Counts a transaction's end. `latency` is used only if the transaction succeeded.
    #[inline]
    pub fn transaction(&mut self, script: usize, ending: Ending, latency: Nanos) {
        let record = &mut self.scripts[script];
        match ending {
            Ending::Succeeded => {
                record.counts.succeeded += 1;
                record.latency.record(latency);
            }
            Ending::SerializationFailure => record.counts.serialization_failures += 1,
            Ending::Deadlock => record.counts.deadlocks += 1,
            Ending::OtherFailure => record.counts.other_failures += 1,
            Ending::ConnectionLost => record.counts.lost += 1,
            Ending::Aborted => record.counts.aborted += 1,
            Ending::Skipped => record.counts.skipped += 1,
        }
    }

    /// Counts one execution of a command, if it is timed.
    #[inline]
    pub fn command(&mut self, script: usize, command: usize, latency: Nanos) {
        if let Some(record) = &mut self.commands[script][command] {
            record.latency.record(latency);
        }
    }

    /// Discards the records of commands: measuring begins now.
    pub fn begin_measuring(&mut self) {
        for record in self.commands.iter_mut().flatten().flatten() {
            record.clear();
        }
    }

    /// Whether nothing was recorded in the current interval.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scripts
            .iter()
            .all(|script| script.counts == Counts::default())
    }

    /// Takes the interval's records, and continues with `fresh` ones.
    pub fn take(&mut self, fresh: Option<Vec<ScriptRecord>>) -> Vec<ScriptRecord> {
        let fresh = fresh.unwrap_or_else(|| vec![ScriptRecord::default(); self.scripts.len()]);
        std::mem::replace(&mut self.scripts, fresh)
    }
}

fn blank(timed: &[bool]) -> Vec<Option<CommandRecord>> {
    timed
        .iter()
        .map(|&is| is.then(CommandRecord::default))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact() {
        let mut moments = Moments::default();
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            moments.record(value);
        }
        assert_eq!((moments.mean(), moments.stddev()), (5.0, 2.0));
        assert_eq!((moments.min, moments.max), (2, 9));
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut a, mut b, mut both) = (
            Latencies::default(),
            Latencies::default(),
            Latencies::default(),
        );
        for value in 1..1000u64 {
            let target = if value % 3 == 0 { &mut a } else { &mut b };
            target.record(value * 1000);
            both.record(value * 1000);
        }
        a.add(&b);
        assert_eq!(a.histogram, both.histogram);
        assert_eq!(a.moments, both.moments);
    }

    #[test]
    fn latencies_out_of_range_are_kept() {
        let mut latencies = Latencies::default();
        latencies.record(0);
        latencies.record(2 * HIGHEST_LATENCY);
        assert_eq!(latencies.histogram.len(), 2);
        assert_eq!(latencies.moments.max, 2 * HIGHEST_LATENCY);
    }

    #[test]
    fn quantiles_lie_between_the_least_and_the_greatest() {
        let quantiles = [0.0, 1e-9, 0.5, 0.95, 0.9999, 1.0];
        let long = HIGHEST_LATENCY * 5;
        for values in [
            &[1_234_567, 7_654_321][..],
            &[987_654_321],
            &[0],
            &[long, long + 7],
        ] {
            let mut latencies = Latencies::default();
            values.iter().for_each(|value| latencies.record(*value));
            let (least, most) = (values[0], values[values.len() - 1]);
            for quantile in quantiles {
                let at = latencies.at_quantile(quantile);
                assert!((least..=most).contains(&at), "{values:?} {quantile}: {at}");
            }
            assert_eq!(latencies.at_quantile(1.0), most, "{values:?}");
        }
        assert_eq!(Latencies::default().at_quantile(0.5), 0);
    }

    #[test]
    fn a_warm_up_leaves_no_command_behind() {
        let mut recorder = Recorder::new(&[vec![true, false]], 1);
        recorder.command(0, 0, 5);
        recorder.command(0, 1, 5);
        recorder.begin_measuring();
        recorder.command(0, 0, 7);
        let record = recorder.commands[0][0].as_ref().expect("it is timed");
        assert_eq!(record.latency.moments.sum, 7.0);
        assert!(recorder.commands[0][1].is_none());
    }
}
