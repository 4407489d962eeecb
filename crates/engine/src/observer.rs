//! What the engine reports while a load runs.

use std::io;

use pgdyno_connect::ConnectError;
use pgdyno_wire::EncodeError;

use crate::clock::{Clock, Nanos};
use crate::interval::{ErrorNote, Merged};
use crate::outage::OutageNote;

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

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{error}\ncould not create connection for client {client}")]
    Connect { client: usize, error: Box<ConnectError> },
    #[error("could not send a statement: {0}")]
    Statement(EncodeError),
    /// The system refused a thread, a descriptor or the poller.
    #[error("could not run the load: {0}")]
    System(io::Error),
    /// The requested start could not be kept.
    #[error("{0}")]
    Start(String),
    /// The run was stopped before the load began.
    #[error("interrupted while connecting")]
    Interrupted,
}
