//! The log entry of one transaction.

use crate::clock::Nanos;
use crate::recorder::Ending;

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
