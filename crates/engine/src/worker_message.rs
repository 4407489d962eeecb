//! What a worker reports to the engine.

use std::io;

use crate::clock::Nanos;
use crate::command_record::CommandRecord;
use crate::commit_ledger::ClientLedger;
use crate::connect_record::ConnectRecord;
use crate::error_counts::ErrorCounts;
use crate::interval::{ErrorNote, Interval};

/// What a worker reports to the engine.
#[derive(Debug)]
pub enum WorkerMessage {
    Interval(Interval),
    /// An error occurred.
    Error(ErrorNote),
    /// The outage tracker has something to report.
    Outage,
    Ended(WorkerEnd),
}

/// The final state of a worker.
#[derive(Debug, Default)]
pub struct WorkerEnd {
    pub worker: usize,
    pub commands: Vec<Vec<Option<CommandRecord>>>,
    /// Errors that count in the results.
    pub errors: ErrorCounts,
    pub connects: Option<Box<ConnectRecord>>,
    pub unreported_errors: u64,
    /// Numbers of the records of the transactions that were still running.
    pub in_flight: Vec<usize>,
    /// Intended starts of an open loop that were due and that no client was free for; by phase in a run with phases.
    pub unstarted: Vec<u64>,
    /// How many clients gave up.
    pub aborted: usize,
    /// How many statements the server may still run, because they did not end when they were cancelled.
    pub left_running: usize,
    /// Where its measured part ends.
    pub measured_until: Nanos,
    /// See [`the results of `crate::shared::Shared``].
    pub overruns: Vec<Nanos>,
    /// What its clients know of their transactions (--ledger).
    pub ledgers: Vec<ClientLedger>,
    /// For each client that it had at the end, how many of its transactions ended.
    pub ended: Vec<u64>,
    /// The worker's own failure, for example of its poller.
    pub failure: Option<io::Error>,
}

impl WorkerEnd {
    /// The end of worker number `worker`, of which nothing is known but its failure.
    pub fn panicked(worker: usize, failure: io::Error) -> Self {
        Self { worker, failure: Some(failure), ..Self::default() }
    }
}
