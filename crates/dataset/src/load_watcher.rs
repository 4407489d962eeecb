//! Who is told how a load goes.

use std::time::Duration;

use crate::step::Step;

/// How far a table, or all tables of a step, are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows<'a> {
    /// The table; None for all of them together, which is told only when several may be filled at
    /// once.
    pub table: Option<&'a str>,
    /// Rows sent.
    pub rows: u64,
    /// Rows that there will be.
    pub rows_total: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Rows of these that an earlier load had committed: they cost no time now.
    pub rows_before: u64,
    /// Since the table, or the first of them, was begun.
    pub elapsed: Duration,
}

impl Rows<'_> {
    /// Rows sent in [`Rows::elapsed`].
    #[must_use]
    pub fn rows_now(&self) -> u64 {
        self.rows.saturating_sub(self.rows_before)
    }

    /// Time that the rest may need, from how fast the rows came until now; zero before the first.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.rows_now() == 0 {
            return Duration::ZERO;
        }
        let left = self.rows_total.saturating_sub(self.rows) as f64;
        self.elapsed.mul_f64(left / self.rows_now() as f64)
    }
}

/// Is told how the load goes.
pub trait Watcher {
    /// A step begins.
    fn step(&mut self, step: Step);
    /// A step ended, with the rows and bytes that it sent.
    fn step_done(&mut self, step: Step, elapsed: Duration, rows: u64, bytes: u64);
    /// So many partitions will be created.
    fn partitions(&mut self, count: usize);
    /// Rows were sent. Over one connection it comes at least whenever a multiple of 100,000 is
    /// reached, else some ten times a second; and at the end of each table.
    fn rows(&mut self, rows: &Rows<'_>);
    /// From now on what is committed is kept in a ledger: a load that ends early can go on.
    fn resumable(&mut self);
    /// An earlier load goes on: so many chunks of all are there already.
    fn resumed(&mut self, chunks_done: u64, chunks: u64);
    /// The server sent a notice, of this text.
    fn notice(&mut self, text: &str);
    /// Something is not as it should be, but the load goes on.
    fn warning(&mut self, text: &str);
}
