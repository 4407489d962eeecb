//! What a replay did, and where it disagreed with the capture.

use std::collections::BTreeMap;

use pgdyno_engine::clock::Nanos;
use pgdyno_engine::latencies::Latencies;
use pgdyno_wire::ServerError;

/// A start within this time counts as exact.
const EXACT: Nanos = 1_000_000;

/// How a statement can disagree with the capture: in events, and in words.
pub const KINDS: [(&str, &str); 6] = [
    ("new_errors", "new errors"),
    ("missing_errors", "missing errors"),
    ("other_errors", "errors with another SQLSTATE"),
    // refused only because its transaction had failed, or refused for this reason when it was captured, and not now
    ("in_failed_transaction", "statements in a failed transaction"),
    ("different_rows", "statements with another number of rows"),
    ("cancelled_waits", "statements cancelled after a long wait"),
];

/// An index of [`KINDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    NewError,
    MissingError,
    OtherError,
    InFailedTransaction,
    DifferentRows,
    CancelledWait,
}

/// How the statements of a class disagreed.
#[derive(Debug, Clone, Default)]
pub struct Divergence {
    pub counts: [u64; KINDS.len()],
    /// The first error that is no consequence of another one: SQLSTATE and message.
    pub error: Option<(String, String)>,
}

impl Divergence {
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Counts of a replay, or of a part of its sessions.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub sessions_begun: u64,
    /// Sessions whose connection was lost before their last statement.
    pub sessions_lost: u64,
    /// Statements that were sent.
    pub started: u64,
    pub done: u64,
    /// Statements that did something else than when they were captured, by kind.
    pub disagreements: [u64; KINDS.len()],
    /// The same of each class.
    pub by_class: BTreeMap<u32, Divergence>,
    /// Places where a value that the server made now was sent instead of the captured one.
    pub mapped: u64,
    /// Places where the captured value was sent, because the statement that gives the value did not give it.
    pub not_mapped: u64,
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

    /// Notes that a statement of class `class` disagreed.
    pub fn disagree(&mut self, class: u32, kind: Kind, error: Option<&ServerError>) {
        self.disagreements[kind as usize] += 1;
        let of = self.by_class.entry(class).or_default();
        of.counts[kind as usize] += 1;
        if kind != Kind::InFailedTransaction && of.error.is_none() {
            of.error = error.map(|error| (error.sqlstate().as_str().to_owned(), error.message.clone()));
        }
    }

    /// Statements that did something else than when they were captured.
    pub fn disagreed(&self) -> u64 {
        self.disagreements.iter().sum()
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
        add(&mut self.disagreements, &other.disagreements);
        for (class, one) in &other.by_class {
            let of = self.by_class.entry(*class).or_default();
            add(&mut of.counts, &one.counts);
            of.error = of.error.take().or_else(|| one.error.clone());
        }
        self.mapped += other.mapped;
        self.not_mapped += other.not_mapped;
        self.copies_without_data += other.copies_without_data;
        self.lateness.add(&other.lateness);
        self.exact += other.exact;
        self.delayed_by_answer += other.delayed_by_answer;
    }
}

fn add(to: &mut [u64; KINDS.len()], counts: &[u64; KINDS.len()]) {
    for (sum, count) in to.iter_mut().zip(counts) {
        *sum += count;
    }
}

#[derive(Debug, Clone)]
pub struct Outcome {
    pub sessions: u64,
    pub statements: u64,
    /// See [`crate::Header::ambiguous`].
    pub ambiguous: u64,
    /// What was done.
    pub tally: Tally,
}

impl Outcome {
    /// Statements that were not sent: the load ended before them, or their session was lost.
    pub fn not_started(&self) -> u64 {
        self.statements.saturating_sub(self.tally.started)
    }
}
