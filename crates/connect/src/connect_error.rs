//! Why there is no session: every attempt with its reason.

use std::fmt;
use std::io;
use std::path::PathBuf;

use pgdyno_wire::{ServerError, StartupError};

use crate::param_error::system_message;
use crate::session_error::CLOSED;
use crate::tls::TlsError;

/// No session: every attempt with its reason. Displayed as libpq does, an attempt a line or more.
#[derive(Debug)]
pub struct ConnectError {
    /// What was tried, in order; at least one.
    pub attempts: Vec<Attempt>,
}

/// One attempt at one address.
#[derive(Debug)]
pub struct Attempt {
    /// What was tried, as `connection to server at "host" (address), port 5432 failed: `; empty
    /// when no address was found.
    pub what: String,
    /// Why it failed.
    pub cause: Cause,
}

/// Why an attempt failed.
#[derive(Debug)]
pub enum Cause {
    /// The name of the host has no address, or none can be found now.
    Resolve {
        /// The name.
        name: String,
        /// What the resolver said.
        why: String,
    },
    /// No connection to a unix socket or by TCP.
    Connect {
        /// What the system said.
        error: io::Error,
        /// Whether it was a unix socket.
        unix: bool,
    },
    /// Connected, and then sending or receiving failed.
    Io(io::Error),
    /// `connect_timeout` has passed.
    Timeout,
    /// Connecting was interrupted.
    Interrupted,
    /// The server closed the connection before the session was ready.
    Closed,
    /// The server or the protocol refused.
    Startup {
        /// The refusal.
        error: StartupError,
        /// The file that the refused password came from.
        password_file: Option<PathBuf>,
    },
    /// The connection could not be encrypted.
    Tls(TlsError),
    /// The session is not of the kind wanted by `target_session_attrs`.
    WrongKind(&'static str),
    /// What its kind is could not be asked.
    Kind(String),
    /// The server runs as another user than `requirepeer`; the whole message.
    WrongPeer(String),
}

impl ConnectError {
    /// The server's own error, if the last attempt ended by one.
    pub fn server_error(&self) -> Option<&ServerError> {
        match &self.attempts.last()?.cause {
            Cause::Startup {
                error: StartupError::Server(error),
                ..
            } => Some(error),
            _ => None,
        }
    }

    /// Whether it was interrupted.
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
                write!(
                    f,
                    "could not translate host name \"{name}\" to address: {why}"
                )
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
                write!(
                    f,
                    "could not receive data from server: {}",
                    system_message(error)
                )
            }
            Cause::Timeout => f.write_str("timeout expired"),
            Cause::Interrupted => f.write_str("interrupted"),
            Cause::Closed => f.write_str(CLOSED),
            Cause::Startup {
                error,
                password_file,
            } => {
                write!(f, "{error}")?;
                match password_file {
                    Some(file) => {
                        write!(f, "\npassword retrieved from file \"{}\"", file.display())
                    }
                    None => Ok(()),
                }
            }
            Cause::Tls(error) => error.fmt(f),
            Cause::WrongKind(text) => f.write_str(text),
            Cause::Kind(text) | Cause::WrongPeer(text) => f.write_str(text),
        }
    }
}
