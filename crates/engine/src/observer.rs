//! What the engine reports while a load runs.

use std::io;

use crate::clock::{Clock, Nanos};
use crate::error::RunError;
use crate::interval::{ErrorNote, Merged};
use crate::outage::OutageNote;
use crate::tuning::Choice;

/// Receives what happens, as it happens.
pub trait Observer {
    /// All clients are connected, which took so long: when is the load to begin? At once, unless
    /// others have to be waited for.
    ///
    /// # Errors
    /// When it is not to begin.
    fn ready(&mut self, clock: Clock, _connecting: Nanos) -> Result<Nanos, RunError> {
        Ok(clock.now())
    }

    /// All clients are connected; the load begins at `origin`.
    fn connected(&mut self, connected: &Connected);

    /// An interval is whole.
    fn interval(&mut self, merged: &Merged);

    /// Something went wrong in a script or a session.
    fn error(&mut self, note: &ErrorNote);

    /// An outage began or ended, or connections were lost in it.
    fn outage(&mut self, note: &OutageNote);

    /// Numbers of workers were tried in the warm-up, and one is kept.
    fn workers_chosen(&mut self, _choice: &Choice) {}

    /// A worker was added.
    fn worker_added(&mut self, added: &Added);

    /// A worker was to be added, but the system refused: the load goes on without.
    fn worker_refused(&mut self, why: &io::Error);
}

/// The instant after connecting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// Time from the first connection's begin to the last one's end.
    pub connecting: Nanos,
    /// First transaction's instant.
    pub origin: Nanos,
    /// Start of measuring, after the warm-up.
    pub measure: Nanos,
    /// `epoll` or `io_uring`
    pub io: &'static str,
}

/// A worker was added while the load ran, because others were too busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Added {
    /// Its number.
    pub worker: usize,
    /// When, since the engine's start.
    pub at: Nanos,
    /// The worker whose clients it shares.
    pub donor: usize,
    /// Clients that it takes over.
    pub clients: usize,
    /// Share of a core that the busiest worker used.
    pub share: f64,
}
