//! The transaction that a client runs: its script, its position, and how its statements reach the server.

mod batch;
mod driver_run;
mod kept_sessions;

use pgdyno_script::Rng;
use pgdyno_wire::ServerError;

pub use self::batch::{Batch, Batched};
pub use self::driver_run::{DriverRun, LimitedWait, Stage};
use crate::clock::Nanos;

/// The transaction that a client is in, or is about to begin.
#[derive(Debug)]
pub struct Transaction {
    pub script: usize,
    /// Number of the record: that of the script, or in a run with phases that of the script in its phase.
    pub record: usize,
    /// Next operation of the script.
    pub next_op: usize,
    /// The operation whose answer is awaited.
    pub command: usize,
    pub command_started: Nanos,
    /// When the schedule requires it to begin; during a keying or think time, the end of that.
    pub intended: Nanos,
    /// When it began; or when the pause before it began.
    pub started: Nanos,
    pub begun: bool,
    /// When its connection was begun (-C).
    pub dialed: Nanos,
    /// Number of tries, including the current one.
    pub tries: u32,
    pub waited: bool,
    /// The random state at its begin, which a retry restores.
    pub rng: Option<Rng>,
    /// The failed try that is being rolled back.
    pub failed: Option<FailedTry>,
    /// How its statements are chosen and sent.
    pub mode: Mode,
}

#[derive(Debug)]
pub struct FailedTry {
    pub error: Box<ServerError>,
    /// The error with its position in the statement that was sent; None for an error without a note.
    pub message: Option<String>,
}

/// How a transaction's statements are chosen and sent. A script may change it at each statement, a driver never.
#[derive(Debug)]
pub enum Mode {
    /// By the script, with a round trip for each statement.
    Script {
        /// The statement whose answer is awaited or came last.
        statement: Option<usize>,
    },
    /// By the script, between `\startpipeline` and `\endpipeline`.
    Pipeline {
        /// Statements of the pipeline, in order.
        statements: Vec<usize>,
        /// Whether the pipeline has not ended yet.
        is_open: bool,
    },
    /// By the script, with as many statements as possible in a round trip (--auto-pipeline).
    Batch(Box<Batch>),
    /// By a driver, in place of a script.
    Driver(Box<DriverRun>),
}

impl Transaction {
    /// A client's initial state, with no transaction chosen.
    pub fn new(mode: Mode) -> Self {
        Self {
            script: 0,
            record: 0,
            next_op: 0,
            command: 0,
            command_started: 0,
            intended: 0,
            started: 0,
            begun: false,
            dialed: 0,
            tries: 0,
            waited: false,
            rng: None,
            failed: None,
            mode,
        }
    }

    /// Prepares for the choice of the next transaction. Script, record and command stay until then,
    /// because what happens before is reported under them.
    pub fn renew(&mut self) {
        debug_assert!(!self.begun, "the last one has ended");
        self.intended = 0;
        self.started = 0;
        self.tries = 0;
        self.waited = false;
        self.rng = None;
    }

    pub fn begin(&mut self, now: Nanos) {
        debug_assert!(!self.begun, "the last one has ended");
        self.begun = true;
        self.started = now;
        self.tries = 1;
        self.next_op = 0;
    }

    #[inline]
    pub fn is_driven(&self) -> bool {
        matches!(self.mode, Mode::Driver(_))
    }

    /// The driver, if there is one in place of a script.
    #[inline]
    pub fn driver(&self) -> Option<&DriverRun> {
        match &self.mode {
            Mode::Driver(driver) => Some(driver),
            Mode::Script { .. } | Mode::Pipeline { .. } | Mode::Batch(_) => None,
        }
    }

    /// The driver, to change its state.
    #[inline]
    pub fn driver_mut(&mut self) -> Option<&mut DriverRun> {
        match &mut self.mode {
            Mode::Driver(driver) => Some(driver),
            Mode::Script { .. } | Mode::Pipeline { .. } | Mode::Batch(_) => None,
        }
    }
}

impl Mode {
    /// The statement whose answer is awaited or came last, if each answer belongs to one statement.
    pub fn statement(&self) -> Option<usize> {
        match self {
            Self::Script { statement } => *statement,
            Self::Batch(batch) => batch.statement,
            Self::Pipeline { .. } | Self::Driver(_) => None,
        }
    }

    /// The statement to which result number `query` belongs. In a pipeline each statement has one
    /// result, so the current one comes after all completed ones.
    pub fn statement_of_result(&self, query: usize) -> Option<usize> {
        match self {
            Self::Pipeline { statements, .. } => statements.get(query).copied(),
            Self::Script { .. } | Self::Batch(_) | Self::Driver(_) => self.statement(),
        }
    }

    #[inline]
    pub fn send_alone(&mut self, number: usize) {
        match self {
            Self::Script { statement } => *statement = Some(number),
            _ => *self = Self::Script { statement: Some(number) },
        }
    }

    #[inline]
    pub fn is_in_pipeline(&self) -> bool {
        matches!(self, Self::Pipeline { is_open: true, .. })
    }

    pub fn open_pipeline(&mut self) {
        debug_assert!(!self.is_in_pipeline(), "pipelines do not nest");
        // a script that is one pipeline allocates only for its first transaction
        let mut all = match self {
            Self::Pipeline { statements, .. } => std::mem::take(statements),
            Self::Script { .. } | Self::Batch(_) | Self::Driver(_) => Vec::new(),
        };
        all.clear();
        *self = Self::Pipeline { statements: all, is_open: true };
    }

    pub fn add_to_pipeline(&mut self, statement: usize) {
        debug_assert!(self.is_in_pipeline(), "a pipeline is open");
        if let Self::Pipeline { statements, .. } = self {
            statements.push(statement);
        }
    }

    pub fn close_pipeline(&mut self) {
        if let Self::Pipeline { is_open, .. } = self {
            *is_open = false;
        }
    }

    /// The open batch, or a new one.
    #[inline]
    pub fn batch(&mut self) -> &mut Batch {
        debug_assert!(!matches!(self, Self::Driver(_)), "a driver has no batches");
        if !matches!(self, Self::Batch(_)) {
            *self = Self::Batch(Box::default());
        }
        match self {
            Self::Batch(batch) => batch,
            Self::Script { .. } | Self::Pipeline { .. } | Self::Driver(_) => {
                unreachable!("it was just made")
            }
        }
    }

    #[inline]
    pub fn awaits_batch(&self) -> bool {
        matches!(self, Self::Batch(batch) if batch.sent)
    }

    #[inline]
    pub fn has_unsent(&self) -> bool {
        matches!(self, Self::Batch(batch) if !batch.sent && !batch.statements.is_empty())
    }

    /// Forgets the statements that were sent on a connection that has been replaced.
    pub fn forget_session(&mut self) {
        match self {
            Self::Script { statement } => *statement = None,
            Self::Pipeline { statements, is_open } => {
                statements.clear();
                *is_open = false;
            }
            Self::Batch(batch) => {
                batch.clear();
                batch.statement = None;
            }
            Self::Driver(driver) => driver.knows_session = false,
        }
    }
}
