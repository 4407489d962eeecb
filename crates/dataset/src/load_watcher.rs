//! The interface for reports about the progress of a load.

use std::time::Duration;

use crate::load_step::Step;

/// The progress of a table, or of all tables of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows<'a> {
    /// The table; None for all of them together, which is reported only if several may be filled in parallel.
    pub table: Option<&'a str>,
    pub rows: u64,
    /// Rows that will have been sent at the end.
    pub rows_total: u64,
    pub bytes: u64,
    /// How many of the rows an earlier load had committed: they take no time now.
    pub rows_before: u64,
    /// Time since the table, or the first of them, was begun.
    pub elapsed: Duration,
}

impl Rows<'_> {
    /// Rows that were sent in [`Rows::elapsed`].
    pub fn rows_now(&self) -> u64 {
        self.rows.saturating_sub(self.rows_before)
    }

    /// Estimated time for the remaining rows at the rate so far; zero before the first.
    pub fn remaining(&self) -> Duration {
        if self.rows_now() == 0 {
            return Duration::ZERO;
        }
        let left = self.rows_total.saturating_sub(self.rows) as f64;
        self.elapsed.mul_f64(left / self.rows_now() as f64)
    }
}

/// Receives reports about the progress of a load.
pub trait Watcher {
    fn step(&mut self, step: Step);
    /// Called when a step has ended, with the rows and bytes that it sent.
    fn step_done(&mut self, step: Step, elapsed: Duration, rows: u64, bytes: u64);
    /// Called before this many partitions are created.
    fn partitions(&mut self, count: usize);
    /// Called after rows were sent: over one connection at least at each multiple of 100,000,
    /// otherwise about ten times a second; and at the end of each table.
    fn rows(&mut self, rows: &Rows<'_>);
    /// Called when a ledger begins to record what is committed: from then on, a load that ends early can be resumed.
    fn resumable(&mut self);
    /// Called when an earlier load is resumed, with the numbers of its completed chunks and of all chunks.
    fn resumed(&mut self, chunks_done: u64, chunks: u64);
    fn notice(&mut self, text: &str);
    /// Called for a problem that does not end the load.
    fn warning(&mut self, text: &str);
}
