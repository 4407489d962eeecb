//! The errors of a session.

use std::fmt;
use std::io;

use pgdyno_wire::{EncodeError, ProtocolError, ServerError, SqlState};

use crate::param_error::system_message;
use crate::patience::Interrupt;

/// libpq's message for a server that closed the connection.
pub(crate) const CLOSED: &str = "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n\tbefore or while processing the request.";

/// An error of a session.
#[derive(Debug)]
pub enum SessionError {
    /// The server refused a statement; the session remains usable.
    Server(Box<ServerError>),
    /// The server closed the connection, possibly after an error that explains why.
    Closed(Option<Box<ServerError>>),
    /// A wait for the server was interrupted: it may still carry out what was sent.
    Interrupted,
    /// Sending or receiving failed.
    Io(io::Error),
    /// The answer exceeds this many bytes, and was not read to the end.
    TooLong(usize),
    /// The bytes are not PostgreSQL's protocol.
    Protocol(ProtocolError),
    /// The query cannot be sent.
    Encode(EncodeError),
    /// The answer is of another kind than the call expects; the text says how. The session remains
    /// usable.
    Unexpected(&'static str),
    /// An earlier failure, or a COPY that was not finished, left the session unusable.
    Unusable,
}

impl SessionError {
    /// The server's own error, if there is one.
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

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Server(error) => error.fmt(f),
            SessionError::Closed(None) => f.write_str(CLOSED),
            SessionError::Closed(Some(error)) => write!(f, "{error}\n{CLOSED}"),
            SessionError::Interrupted => f.write_str("could not wait for the server: interrupted"),
            SessionError::Io(error) => {
                write!(f, "could not exchange data with server: {}", system_message(error))
            }
            SessionError::TooLong(bytes) => {
                write!(f, "could not take the answer: it is longer than {} MB", bytes / 1024 / 1024)
            }
            SessionError::Protocol(error) => error.fmt(f),
            SessionError::Encode(error) => error.fmt(f),
            SessionError::Unexpected(what) => f.write_str(what),
            SessionError::Unusable => f.write_str("could not use the session: an earlier failure left it unusable"),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SessionError::Server(error) => Some(error),
            SessionError::Closed(Some(error)) => Some(error),
            SessionError::Io(error) => Some(error),
            SessionError::Protocol(error) => Some(error),
            SessionError::Encode(error) => Some(error),
            SessionError::TooLong(_)
            | SessionError::Closed(None)
            | SessionError::Interrupted
            | SessionError::Unexpected(_)
            | SessionError::Unusable => None,
        }
    }
}

impl From<ProtocolError> for SessionError {
    fn from(error: ProtocolError) -> Self {
        SessionError::Protocol(error)
    }
}

impl From<EncodeError> for SessionError {
    fn from(error: EncodeError) -> Self {
        SessionError::Encode(error)
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
