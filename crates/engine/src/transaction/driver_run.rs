//! The state of a driver that decides a client's transactions in place of a script.

use std::fmt;

use pgdyno_wire::ServerError;

use super::kept_sessions::KeptSessions;
use crate::driver::{Asked, Driver};

/// Transactions that ask nothing of the server may follow each other so often before others run.
const MOST_SILENT: u32 = 32;

/// A client's driver and its state.
pub struct DriverRun {
    /// What decides.
    pub driver: Box<dyn Driver>,
    /// What the driver's next [`crate::driver::Request::Done`] ends.
    pub stage: Stage,
    /// Whether the driver knows of the present connection.
    pub knows_session: bool,
    /// What was asked last.
    pub asked: Asked,
    /// The last error of the server in this transaction.
    pub error: Option<Box<ServerError>>,
    /// Whether the transaction is tried again whatever the error was.
    pub ignores_error: bool,
    /// Its other sessions; None while it has one.
    pub sessions: Option<Box<KeptSessions>>,
    /// Transactions in a row that asked nothing of the server.
    silent: u32,
}

/// What [`crate::driver::Request::Done`] ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// What comes before the first transaction.
    Opening,
    /// What a new session in the midst of the load needs, before the transaction that waits.
    Reopening,
    /// A transaction.
    Transaction,
    /// What comes before the end of the session.
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
    /// Before the first session.
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

    /// A try begins.
    pub fn begin(&mut self) {
        self.stage = Stage::Transaction;
        self.error = None;
        self.ignores_error = false;
    }

    /// Whether the next transaction may follow one that asked nothing of the server, at once.
    pub fn goes_on_silently(&mut self) -> bool {
        self.silent += 1;
        if self.silent >= MOST_SILENT {
            self.silent = 0;
        }
        self.silent > 0
    }
}
