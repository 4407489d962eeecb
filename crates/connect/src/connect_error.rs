//! The error of a failed connection: every attempt with its reason.

use std::io;
use std::path::PathBuf;

use pgdyno_wire::{ServerError, StartupError};

use crate::param_error::system_message;
use crate::pooler::Pooler;
use crate::session_error::CLOSED;
use crate::tls::TlsError;

/// A failed connection, with the reason of every attempt. Displayed as libpq does, with a line or more for each.
#[derive(Debug, thiserror::Error)]
#[error("{}", attempts.iter().map(|Attempt { what, cause }| format!("{what}{cause}")).collect::<Vec<_>>().join("\n"))]
pub struct ConnectError {
    /// In order; at least one.
    pub attempts: Vec<Attempt>,
}

#[derive(Debug)]
pub struct Attempt {
    /// The beginning of the message, `connection to server at "host" (address), port 5432 failed: `; may be empty.
    pub what: String,
    pub cause: Cause,
}

#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The name of the host has no address, or the lookup failed for the reason that the resolver gave.
    #[error("could not translate host name \"{name}\" to address: {why}")]
    Resolve { name: String, why: String },
    #[error("{}\n\t{}", system_message(error), connect_hint(*unix))]
    Connect { error: io::Error, unix: bool },
    /// Sending or receiving failed after the connection was made.
    #[error("could not receive data from server: {}", system_message(.0))]
    Io(io::Error),
    /// The attempt took longer than `connect_timeout`.
    #[error("timeout expired")]
    Timeout,
    #[error("interrupted")]
    Interrupted,
    /// The server closed the connection before the session was ready.
    #[error("{CLOSED}")]
    Closed,
    /// The server or the protocol refused the session. The file contains the refused password.
    #[error("{error}{}", source_of_password(password_file.as_ref()))]
    Startup { error: StartupError, password_file: Option<PathBuf> },
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The session is not of the kind that `target_session_attrs` requires.
    #[error("{0}")]
    WrongKind(&'static str),
    /// The query for the session's kind failed.
    #[error("{0}")]
    Kind(String),
    #[error("{}\n\t({})", .0, .0.remedy())]
    Pooler(Box<Pooler>),
    /// The server does not run as the user of `requirepeer`; the whole message.
    #[error("{0}")]
    WrongPeer(String),
}

fn connect_hint(unix: bool) -> &'static str {
    match unix {
        true => "Is the server running locally and accepting connections on that socket?",
        false => "Is the server running on that host and accepting TCP/IP connections?",
    }
}

fn source_of_password(file: Option<&PathBuf>) -> String {
    file.map(|file| format!("\npassword retrieved from file \"{}\"", file.display())).unwrap_or_default()
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

    pub fn is_interrupted(&self) -> bool {
        let last = self.attempts.last();
        last.is_some_and(|attempt| matches!(attempt.cause, Cause::Interrupted))
    }
}
