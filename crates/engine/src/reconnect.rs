//! Reconnecting after a lost connection: how long to wait, and which failures pass.

use std::io;
use std::time::Duration;

use pgdyno_connect::param_error::system_message;
use pgdyno_connect::{Cause, ConnectError, FullQueue, Params};
use pgdyno_script::Rng;
use pgdyno_wire::{ServerError, SqlState, StartupError};
use rustix::io::Errno;

use crate::clock::{Nanos, SECOND};
use crate::spec::{OnLoss, Spec};

/// The longest wait before the first attempt.
const FIRST_WAIT: Nanos = SECOND / 100;
/// The longest wait between attempts.
const LONGEST_WAIT: Nanos = SECOND;
/// Limit of one attempt at one address where `connect_timeout` sets none: otherwise a client would
/// wait minutes for a silent host before it tries the next.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The waits between the attempts of one client. Each is at most twice the one before, and drawn from the upper half of
/// that range, so that clients that were lost together do not reconnect in step.
#[derive(Debug, Clone)]
pub struct Backoff {
    rng: Rng,
    longest: Nanos,
}

impl Backoff {
    /// For a client whose random numbers have the seed `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::seed(seed), longest: FIRST_WAIT }
    }

    pub fn next_wait(&mut self) -> Nanos {
        let wait = self.rng.range_u64(self.longest / 2, self.longest);
        self.longest = (self.longest * 2).min(LONGEST_WAIT);
        wait
    }
}

pub fn load_params(spec: &Spec) -> Params {
    let mut params = spec.params.clone();
    if spec.on_loss == OnLoss::Count {
        params.full_queue = FullQueue::Refuses;
    }
    if spec.connects_later() || spec.on_loss == OnLoss::Count {
        params.connect_timeout.get_or_insert(ATTEMPT_TIMEOUT);
    }
    params
}

/// A client's absence, from its lost connection to its first success after that.
#[derive(Debug)]
pub struct Absence {
    /// Whether the client has a connection again.
    pub is_back: bool,
    /// The waits between attempts to reconnect.
    pub backoff: Backoff,
    /// When it lost its connection.
    pub since: Nanos,
    /// When it gives up: at the end of its patience or of the run.
    pub gives_up_at: Nanos,
    /// Whether the next transaction was drawn before the loss; it keeps its intended start.
    pub has_chosen: bool,
    /// Why the last attempt failed.
    pub refusal: Option<String>,
}

pub fn ends_session(error: &ServerError) -> bool {
    let severity = error.severity_code.as_deref().unwrap_or(&error.severity);
    matches!(severity, "FATAL" | "PANIC")
}

/// Describes the end of a connection in the system's words, without the number that Rust adds;
/// `error` is None when the server closed it.
pub fn describe_disconnect(error: Option<&io::Error>) -> String {
    error.map_or_else(|| "server closed the connection unexpectedly".to_owned(), system_message)
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The message in libpq's words.
    pub message: String,
    /// The same without the address and further lines, by which refusals are counted.
    pub cause: String,
    pub sqlstate: Option<SqlState>,
    /// Whether another attempt may succeed.
    pub is_transient: bool,
}

impl Refusal {
    pub fn passing(error: impl std::fmt::Display) -> Self {
        let message = error.to_string();
        Self { cause: message.clone(), message, sqlstate: None, is_transient: true }
    }
}

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Self {
        let message = error.to_string();
        let is_transient = error.attempts.last().is_none_or(|last| is_transient(&last.cause));
        if let Some(server) = error.server_error() {
            return Self { message, cause: server.message.clone(), sqlstate: Some(server.sqlstate()), is_transient };
        }
        let cause = match error.attempts.last().map(|last| &last.cause) {
            Some(Cause::Connect { error, .. }) if error.raw_os_error() == Some(Errno::ADDRNOTAVAIL.raw_os_error()) => {
                format!("{}: the ports of this host are used up", system_message(error))
            }
            Some(cause) => cause.to_string().lines().next().unwrap_or_default().to_owned(),
            None => message.clone(),
        };
        Self { message, cause, sqlstate: None, is_transient }
    }
}

fn is_transient(cause: &Cause) -> bool {
    let error = match cause {
        Cause::Startup { error, .. } => error,
        Cause::WrongPeer(_) => return false,
        _ => return true,
    };
    match error {
        StartupError::Server(error) => !matches!(
            error.sqlstate(),
            SqlState::INVALID_PASSWORD
                | SqlState::INVALID_AUTHORIZATION_SPECIFICATION
                | SqlState::INVALID_CATALOG_NAME
                | SqlState::INSUFFICIENT_PRIVILEGE
        ),
        // a server that cannot fork, or one that closed in the middle of a message
        StartupError::Refused(_) | StartupError::Protocol(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
