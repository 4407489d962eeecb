//! What the engine reports while a load runs.

use std::io;

use crate::clock::{Clock, Nanos};
use crate::error::RunError;
use crate::interval::{ErrorNote, Merged};
use crate::outage::OutageNote;
use crate::worker_count_search::Choice;

/// Receives events of the load as they happen.
pub trait Observer {
    /// Called when all clients exist and are connected, with the time that connecting took; returns
    /// when the load begins: immediately, unless the observer waits for other generators.
    ///
    /// # Errors
    /// The load must not begin.
    fn ready(&mut self, clock: Clock, _connecting: Nanos) -> Result<Nanos, RunError> {
        Ok(clock.now())
    }

    /// Called when the load is about to begin, at `origin`.
    fn connected(&mut self, connected: &Connected);

    /// Called when an interval is complete.
    fn interval(&mut self, merged: &Merged);

    /// Called for an error in a script or a session.
    fn error(&mut self, note: &ErrorNote);

    /// Called when an outage begins or ends, or when connections are lost in it.
    fn outage(&mut self, note: &OutageNote);

    /// Called when several numbers of workers were tried in the warm-up, and one was chosen.
    fn workers_chosen(&mut self, _choice: &Choice) {}

    /// Called when a worker was added.
    fn worker_added(&mut self, added: &Added);

    /// Called when the system refused to start another worker: the load continues without it.
    fn worker_refused(&mut self, why: &io::Error);
}

/// What is known once all clients are connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// Time from the start of the first connection to the end of the last one.
    pub connecting: Nanos,
    /// The instant of the first transaction.
    pub origin: Nanos,
    /// Start of measuring, after the warm-up.
    pub measure: Nanos,
    /// The poller's name, `epoll` or `io_uring`.
    pub io: &'static str,
}

/// A worker that was added while the load ran, because others were too busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Added {
    /// Number of the new worker.
    pub worker: usize,
    /// When it was added, since the engine's start.
    pub at: Nanos,
    /// The worker that gave half of its clients to it.
    pub donor: usize,
    /// How many clients it took over.
    pub clients: usize,
    /// The share of a core that the busiest worker used.
    pub share: f64,
}
