//! The state of a driver that decides a client's transactions in place of a script.

use std::fmt;

use pgdyno_wire::ServerError;

use super::kept_sessions::KeptSessions;
use crate::clock::Nanos;
use crate::driver::{Asked, Driver, Step};
use crate::recorder::Ending;

/// How many transactions without a request may follow each other before other clients run.
const MOST_SILENT: u32 = 32;

pub struct DriverRun {
    pub driver: Box<dyn Driver>,
    /// What the driver's next [`crate::driver::Request::Done`] ends.
    pub stage: Stage,
    /// Whether the driver knows of the present connection.
    pub knows_session: bool,
    /// What the last request sent.
    pub asked: Asked,
    pub error: Option<Box<ServerError>>,
    /// Whether the transaction is retried whatever the error was.
    pub ignores_error: bool,
    /// How the transaction ends when the driver says that it is done; None for a success.
    pub failed: Option<Ending>,
    /// With sessions that the driver begins and ends: whether there is one, the step that is due
    /// next, and the wait for the current answer.
    pub is_connected: bool,
    /// See [`DriverRun::is_connected`].
    pub step: Step,
    /// See [`DriverRun::is_connected`].
    pub wait: LimitedWait,
    /// The client's other sessions; None while it has only one.
    pub sessions: Option<Box<KeptSessions>>,
    /// How many transactions in a row had no request.
    silent: u32,
}

/// How long the server may take for its answer.
#[derive(Debug, Default, Clone, Copy)]
pub struct LimitedWait {
    /// When patience ends; 0 for never.
    pub until: Nanos,
    /// Whether the server was asked to cancel the statement.
    pub is_cancelled: bool,
}

/// What [`crate::driver::Request::Done`] ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The work before the first transaction.
    Opening,
    /// The set-up of a new session during the load, before the transaction that waits for it.
    Reopening,
    Transaction,
    /// The work before the end of the session.
    Closing,
}

impl fmt::Debug for DriverRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverRun").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl DriverRun {
    pub fn new(driver: Box<dyn Driver>) -> Self {
        Self {
            driver,
            stage: Stage::Opening,
            knows_session: false,
            asked: Asked::default(),
            error: None,
            ignores_error: false,
            failed: None,
            is_connected: false,
            step: Step::Finish,
            wait: LimitedWait::default(),
            sessions: None,
            silent: 0,
        }
    }

    pub fn begin(&mut self) {
        self.stage = Stage::Transaction;
        self.error = None;
        self.ignores_error = false;
        self.failed = None;
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
