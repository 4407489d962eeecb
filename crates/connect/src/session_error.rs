//! The errors of a session.

use std::io;

use pgdyno_wire::{EncodeError, ProtocolError, ServerError, SqlState};

use crate::param_error::system_message;
use crate::patience::Interrupt;

pub(crate) const CLOSED: &str = "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n\tbefore or while processing the request.";

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The server refused a statement; the session remains usable.
    #[error("{0}")]
    Server(Box<ServerError>),
    /// The server closed the connection, possibly after an error that explains why.
    #[error("{}{CLOSED}", .0.as_ref().map(|error| format!("{error}\n")).unwrap_or_default())]
    Closed(Option<Box<ServerError>>),
    /// The server may still carry out what was sent.
    #[error("could not wait for the server: interrupted")]
    Interrupted,
    #[error("could not exchange data with server: {}", system_message(.0))]
    Io(io::Error),
    /// The answer exceeds this many bytes, and was not read to the end.
    #[error("could not take the answer: it is longer than {} MB", .0 / 1024 / 1024)]
    TooLong(usize),
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    #[error("{0}")]
    Encode(#[from] EncodeError),
    /// The answer is of another kind than the call expects; the text says how. The session remains usable.
    #[error("{0}")]
    Unexpected(&'static str),
    /// After an earlier failure, or a COPY that was not finished.
    #[error("could not use the session: an earlier failure left it unusable")]
    Unusable,
}

impl SessionError {
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            SessionError::Server(error) => Some(error),
            SessionError::Closed(error) => error.as_deref(),
            _ => None,
        }
    }

    /// The code of the server's own error, if there is one.
    pub fn sqlstate(&self) -> Option<SqlState> {
        self.server_error().map(ServerError::sqlstate)
    }
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                SessionError::Closed(None)
            }
            _ if Interrupt::caused(&error) => SessionError::Interrupted,
            _ => SessionError::Io(error),
        }
    }
}
