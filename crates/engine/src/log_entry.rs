//! One transaction in a log.

use crate::clock::Nanos;
use crate::recorder::Ending;

/// What is optional in a line.
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

/// One transaction that ended.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Client's number.
    pub client: usize,
    /// Number of the transaction of that client, from 1.
    pub number: u64,
    /// Script's number.
    pub script: usize,
    /// How it ended.
    pub ending: Ending,
    /// From its intended start, if it succeeded.
    pub latency: Nanos,
    /// From its intended to its actual start, if it succeeded.
    pub lag: Nanos,
    /// Times it was tried again.
    pub retries: u32,
}
