//! The error of a failed connection: every attempt with its reason.

use std::fmt;
use std::io;
use std::path::PathBuf;

use pgdyno_wire::{ServerError, StartupError};

use crate::param_error::system_message;
use crate::pooler::Pooler;
use crate::session_error::CLOSED;
use crate::tls::TlsError;

/// A failed connection, with the reason of every attempt. Displayed as libpq does, with at least
/// one line for each attempt.
#[derive(Debug)]
pub struct ConnectError {
    /// The attempts in order; at least one.
    pub attempts: Vec<Attempt>,
}

/// One attempt at one address.
#[derive(Debug)]
pub struct Attempt {
    /// The beginning of the message, `connection to server at "host" (address), port 5432 failed:
    /// `; empty when no address was found.
    pub what: String,
    /// The reason of the failure.
    pub cause: Cause,
}

/// Why an attempt failed.
#[derive(Debug)]
pub enum Cause {
    /// The name of the host has no address, or the lookup failed.
    Resolve {
        /// The name of the host.
        name: String,
        /// The resolver's message.
        why: String,
    },
    /// The unix socket or the TCP address refused the connection.
    Connect {
        /// The system's error.
        error: io::Error,
        /// Whether the attempt used a unix socket.
        unix: bool,
    },
    /// Sending or receiving failed after the connection was made.
    Io(io::Error),
    /// The attempt took longer than `connect_timeout`.
    Timeout,
    /// The attempt was interrupted.
    Interrupted,
    /// The server closed the connection before the session was ready.
    Closed,
    /// The server or the protocol refused the session.
    Startup {
        /// The refusal.
        error: StartupError,
        /// The file that contains the refused password.
        password_file: Option<PathBuf>,
    },
    /// The connection could not be encrypted.
    Tls(TlsError),
    /// The session is not of the kind that `target_session_attrs` requires.
    WrongKind(&'static str),
    /// The query for the session's kind failed.
    Kind(String),
    /// The session is one of a connection pooler.
    Pooler(Box<Pooler>),
    /// The server does not run as the user of `requirepeer`; the whole message.
    WrongPeer(String),
}

impl ConnectError {
    /// The server's own error, if the last attempt ended with one.
    pub fn server_error(&self) -> Option<&ServerError> {
        match &self.attempts.last()?.cause {
            Cause::Startup { error: StartupError::Server(error), .. } => Some(error),
            _ => None,
        }
    }

    /// Whether the last attempt reached a connection pooler.
    pub fn is_pooler(&self) -> bool {
        let last = self.attempts.last();
        last.is_some_and(|attempt| matches!(attempt.cause, Cause::Pooler(_)))
    }

    /// Whether the attempt was interrupted.
    pub fn is_interrupted(&self) -> bool {
        let last = self.attempts.last();
        last.is_some_and(|attempt| matches!(attempt.cause, Cause::Interrupted))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.attempts.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}{}", attempt.what, attempt.cause)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConnectError {}

impl From<TlsError> for Cause {
    fn from(error: TlsError) -> Self {
        Cause::Tls(error)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Resolve { name, why } => {
                write!(f, "could not translate host name \"{name}\" to address: {why}")
            }
            Cause::Connect { error, unix } => {
                let hint = if *unix {
                    "Is the server running locally and accepting connections on that socket?"
                } else {
                    "Is the server running on that host and accepting TCP/IP connections?"
                };
                write!(f, "{}\n\t{hint}", system_message(error))
            }
            Cause::Io(error) => {
                write!(f, "could not receive data from server: {}", system_message(error))
            }
            Cause::Timeout => f.write_str("timeout expired"),
            Cause::Interrupted => f.write_str("interrupted"),
            Cause::Closed => f.write_str(CLOSED),
            Cause::Startup { error, password_file } => {
                write!(f, "{error}")?;
                match password_file {
                    Some(file) => {
                        write!(f, "\npassword retrieved from file \"{}\"", file.display())
                    }
                    None => Ok(()),
                }
            }
            Cause::Tls(error) => error.fmt(f),
            Cause::Pooler(pooler) => write!(f, "{pooler}\n\t({})", pooler.remedy()),
            Cause::WrongKind(text) => f.write_str(text),
            Cause::Kind(text) | Cause::WrongPeer(text) => f.write_str(text),
        }
    }
}
