//! Why a run has no report.

use std::io;

use pgdyno_connect::ConnectError;
use pgdyno_wire::EncodeError;

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
