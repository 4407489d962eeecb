//! What a replay did, and where it disagreed with the capture.

use pgdyno_engine::clock::Nanos;
use pgdyno_engine::latencies::Latencies;

/// A start within this time counts as exact.
const EXACT: Nanos = 1_000_000;

/// Counts of a replay, or of a part of its sessions.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub sessions_begun: u64,
    /// Sessions whose connection was lost before their last statement.
    pub sessions_lost: u64,
    /// Statements that were sent.
    pub started: u64,
    pub done: u64,
    /// Statements that failed, and had not when they were captured.
    pub new_errors: u64,
    /// Statements that had failed when they were captured, and succeeded.
    pub missing_errors: u64,
    /// Statements that failed with another SQLSTATE.
    pub other_errors: u64,
    /// Statements that the server refused only because their transaction had failed, or that it
    /// refused for this reason when they were captured, and not now.
    pub in_failed_transaction: u64,
    /// Statements with another number of rows than when they were captured.
    pub different_rows: u64,
    /// Statements that were cancelled because they waited too long.
    pub cancelled_waits: u64,
    /// COPY FROM STDIN for which the capture had no rows.
    pub copies_without_data: u64,
    /// How late statements started; empty without intended starts.
    pub lateness: Latencies,
    /// How many of them started within a millisecond.
    pub exact: u64,
    /// How many were due before the answer to the statement before them.
    pub delayed_by_answer: u64,
}

impl Tally {
    /// Records a start that was this late.
    pub fn late_by(&mut self, lateness: Nanos) {
        self.lateness.record(lateness);
        self.exact += u64::from(lateness <= EXACT);
    }

    /// Statements that did something else than when they were captured.
    pub fn disagreements(&self) -> u64 {
        self.new_errors
            + self.missing_errors
            + self.other_errors
            + self.in_failed_transaction
            + self.different_rows
            + self.cancelled_waits
    }

    /// The share of starts within a millisecond, from 0 to 1; None without intended starts.
    pub fn exact_share(&self) -> Option<f64> {
        let count = self.lateness.moments.count;
        (count > 0).then(|| self.exact as f64 / count as f64)
    }

    pub fn add(&mut self, other: &Self) {
        self.sessions_begun += other.sessions_begun;
        self.sessions_lost += other.sessions_lost;
        self.started += other.started;
        self.done += other.done;
        self.new_errors += other.new_errors;
        self.missing_errors += other.missing_errors;
        self.other_errors += other.other_errors;
        self.in_failed_transaction += other.in_failed_transaction;
        self.different_rows += other.different_rows;
        self.cancelled_waits += other.cancelled_waits;
        self.copies_without_data += other.copies_without_data;
        self.lateness.add(&other.lateness);
        self.exact += other.exact;
        self.delayed_by_answer += other.delayed_by_answer;
    }
}

#[derive(Debug, Clone)]
pub struct Outcome {
    pub sessions: u64,
    pub statements: u64,
    /// What was done.
    pub tally: Tally,
}

impl Outcome {
    /// Statements that were not sent: the load ended before them, or their session was lost.
    pub fn not_started(&self) -> u64 {
        self.statements.saturating_sub(self.tally.started)
    }
}
