//! Counts what happens where it happens: a recorder per worker, without locks or allocations in between.

use pgdyno_wire::SqlState;

use crate::clock::Nanos;
use crate::command_record::{CommandRecord, RowCounts};
use crate::connect_record::ConnectRecord;
use crate::error_counts::ErrorCounts;
use crate::latencies::{Latencies, Moments};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
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
    /// How a transaction with this error ends without a retry: both have a count, because a retry may succeed.
    pub fn after_retryable(state: SqlState) -> Option<Self> {
        match state {
            SqlState::DEADLOCK_DETECTED => Some(Ending::Deadlock),
            _ if state.is_retryable() => Some(Ending::SerializationFailure),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub succeeded: u64,
    /// Given up after SQLSTATE 40001.
    pub serialization_failures: u64,
    /// Given up after SQLSTATE 40P01.
    pub deadlocks: u64,
    /// Given up after another error (--continue-on-error).
    pub other_failures: u64,
    /// Transactions whose connection was lost while clients reconnect (--reconnect). Some may have been committed.
    pub lost: u64,
    /// Transactions during which a client gave up; pgbench does not count them at all.
    pub aborted: u64,
    /// Transactions that were never started.
    pub skipped: u64,
    /// Transactions that succeeded or failed after at least one retry.
    pub retried: u64,
    pub retries: u64,
    /// Transactions that succeeded, but above the latency limit.
    pub late: u64,
}

impl Counts {
    /// Transactions that began and failed.
    pub fn failed(&self) -> u64 {
        self.given_up() + self.aborted
    }

    /// Transactions that pgbench counts as failed, which excludes those during which a client gave up.
    pub fn given_up(&self) -> u64 {
        self.serialization_failures + self.deadlocks + self.other_failures + self.lost
    }

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

/// One script's transactions in a period.
#[derive(Debug, Clone, Default)]
pub struct ScriptRecord {
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
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.ignored_errors += other.ignored_errors;
        self.reconnects += other.reconnects;
    }

    pub fn total(&self) -> u64 {
        self.reads + self.writes + self.others
    }
}

impl ScriptRecord {
    pub fn sum(records: &[Self]) -> Self {
        let mut sum = Self::default();
        records.iter().for_each(|record| sum.add(record));
        sum
    }

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

/// What a worker has recorded and not yet reported.
#[derive(Debug)]
pub struct Recorder {
    /// One record for each script, of the current interval; in a run with phases one for each, ordered by phase.
    pub scripts: Vec<ScriptRecord>,
    /// One record for each command of each script, since measuring began; None for commands without timing.
    pub commands: Vec<Vec<Option<CommandRecord>>>,
    pub errors: ErrorCounts,
    /// Connections since measuring began; only with a connection for each transaction (-C).
    pub connects: Option<Box<ConnectRecord>>,
}

impl Recorder {
    /// For scripts with the given commands and `phases` phases; `timed` says which of the commands are timed.
    pub fn new(timed: &[Vec<bool>], phases: usize) -> Self {
        Self {
            scripts: vec![ScriptRecord::default(); timed.len() * phases],
            commands: timed
                .iter()
                .map(|script| script.iter().map(|&is| is.then(CommandRecord::default)).collect())
                .collect(),
            errors: ErrorCounts::default(),
            connects: None,
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
    pub fn command(&mut self, script: usize, command: usize, latency: Nanos, row_counts: RowCounts) {
        if let Some(record) = &mut self.commands[script][command] {
            record.record(latency);
            record.row_counts.add(row_counts);
        }
    }

    /// Discards the records of commands and errors: measuring begins now.
    pub fn begin_measuring(&mut self) {
        self.errors.clear();
        if let Some(connects) = &mut self.connects {
            **connects = ConnectRecord::default();
        }
        for record in self.commands.iter_mut().flatten().flatten() {
            record.clear();
        }
    }

    /// Whether nothing was recorded in the current interval.
    pub fn is_empty(&self) -> bool {
        self.scripts.iter().all(|script| script.counts == Counts::default())
    }

    /// Takes the interval's records, and continues with `fresh` ones.
    pub fn take(&mut self, fresh: Option<Vec<ScriptRecord>>) -> Vec<ScriptRecord> {
        let fresh = fresh.unwrap_or_else(|| vec![ScriptRecord::default(); self.scripts.len()]);
        std::mem::replace(&mut self.scripts, fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_leaves_no_command_behind() {
        let mut recorder = Recorder::new(&[vec![true, false]], 1);
        recorder.command(0, 0, 5, RowCounts::default());
        recorder.command(0, 1, 5, RowCounts::default());
        recorder.begin_measuring();
        recorder.command(0, 0, 7, RowCounts::default());
        assert_eq!(recorder.commands[0][0].as_ref().expect("it is timed").moments.sum, 7.0);
        assert!(recorder.commands[0][1].is_none());
    }
}
