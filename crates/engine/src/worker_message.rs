//! What a worker reports to the engine.

use std::io;

use crate::clock::Nanos;
use crate::commit_ledger::ClientLedger;
use crate::interval::{ErrorNote, Interval};
use crate::recorder::CommandRecord;

/// What a worker reports to the engine.
#[derive(Debug)]
pub enum WorkerMessage {
    /// A stretch of time is over.
    Interval(Interval),
    /// Something went wrong.
    Error(ErrorNote),
    /// The tracker of outages has something to report.
    Outage,
    /// A worker is there that has no clients yet, or cannot be.
    Ready(io::Result<()>),
    /// The worker is done.
    Ended(WorkerEnd),
}

/// What is left of a worker.
#[derive(Debug)]
pub struct WorkerEnd {
    /// Its number.
    pub worker: usize,
    /// A record a command of each script.
    pub commands: Vec<Vec<Option<CommandRecord>>>,
    /// Transactions that were not waited for: numbers of their records.
    pub in_flight: Vec<usize>,
    /// Intended starts of an open loop that had come, and that no client was free to take; by phase
    /// in a run with phases.
    pub unstarted: Vec<u64>,
    /// Clients that gave up.
    pub aborted: usize,
    /// Statements that the server may still run, as they did not end when they were cancelled.
    pub left_running: usize,
    /// Where its measured part ends.
    pub measured_until: Nanos,
    /// End of the last transaction of each phase, or when it was stopped with one under way.
    pub phase_ends: Vec<Nanos>,
    /// What its clients know of their transactions (--ledger).
    pub ledgers: Vec<ClientLedger>,
    /// By client that it had at the end: transactions that ended in it.
    pub ended: Vec<u64>,
    /// A failure of the worker itself, such as a poller that does not work.
    pub failure: Option<io::Error>,
}

impl WorkerEnd {
    /// The end of worker number `worker`, which had no clients.
    #[must_use]
    pub fn idle(worker: usize, failure: Option<io::Error>) -> Self {
        Self {
            worker,
            commands: Vec::new(),
            in_flight: Vec::new(),
            aborted: 0,
            left_running: 0,
            measured_until: 0,
            phase_ends: Vec::new(),
            unstarted: Vec::new(),
            ledgers: Vec::new(),
            ended: Vec::new(),
            failure,
        }
    }
}
