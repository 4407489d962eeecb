//! The state of a driver that decides a client's transactions in place of a script.

use std::fmt;

use pgdyno_wire::ServerError;

use super::kept_sessions::KeptSessions;
use crate::driver::{Asked, Driver};

/// How many transactions without a request may follow each other before other clients run.
const MOST_SILENT: u32 = 32;

/// A client's driver and its state.
pub struct DriverRun {
    /// The driver.
    pub driver: Box<dyn Driver>,
    /// What the driver's next [`crate::driver::Request::Done`] ends.
    pub stage: Stage,
    /// Whether the driver knows of the present connection.
    pub knows_session: bool,
    /// What the last request sent.
    pub asked: Asked,
    /// The server's last error in this transaction.
    pub error: Option<Box<ServerError>>,
    /// Whether the transaction is retried whatever the error was.
    pub ignores_error: bool,
    /// The client's other sessions; None while it has only one.
    pub sessions: Option<Box<KeptSessions>>,
    /// How many transactions in a row had no request.
    silent: u32,
}

/// What [`crate::driver::Request::Done`] ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The work before the first transaction.
    Opening,
    /// The set-up of a new session during the load, before the transaction that waits for it.
    Reopening,
    /// A transaction.
    Transaction,
    /// The work before the end of the session.
    Closing,
}

impl fmt::Debug for DriverRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverRun")
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl DriverRun {
    /// A driver before its first session.
    #[must_use]
    pub fn new(driver: Box<dyn Driver>) -> Self {
        Self {
            driver,
            stage: Stage::Opening,
            knows_session: false,
            asked: Asked::default(),
            error: None,
            ignores_error: false,
            sessions: None,
            silent: 0,
        }
    }

    /// Begins a try.
    pub fn begin(&mut self) {
        self.stage = Stage::Transaction;
        self.error = None;
        self.ignores_error = false;
    }

    /// Whether the next transaction may follow immediately after one without a request.
    pub fn goes_on_silently(&mut self) -> bool {
        self.silent += 1;
        if self.silent >= MOST_SILENT {
            self.silent = 0;
        }
        self.silent > 0
    }
}
