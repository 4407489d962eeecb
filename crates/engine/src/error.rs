//! Why a run has no report.

use std::io;

use pgdyno_connect::ConnectError;
use pgdyno_wire::EncodeError;

/// Why there is no report.
#[derive(Debug)]
pub enum RunError {
    /// A client could not connect; the load was not started.
    Connect {
        /// Number of the client.
        client: usize,
        /// The error, in libpq's words.
        error: Box<ConnectError>,
    },
    /// A statement is too long for the protocol.
    Statement(EncodeError),
    /// The system refused a thread, a descriptor or the poller.
    System(io::Error),
    /// The requested start could not be kept.
    Start(String),
    /// The run was stopped before the load began.
    Interrupted,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect { client, error } => write!(f, "{error}\ncould not create connection for client {client}"),
            Self::Statement(error) => write!(f, "could not send a statement: {error}"),
            Self::System(error) => write!(f, "could not run the load: {error}"),
            Self::Start(why) => f.write_str(why),
            Self::Interrupted => f.write_str("interrupted while connecting"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect { error, .. } => Some(error),
            Self::Statement(error) => Some(error),
            Self::System(error) => Some(error),
            Self::Start(_) | Self::Interrupted => None,
        }
    }
}
