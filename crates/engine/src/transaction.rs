//! The transaction that a client runs: which script, how far, and how its statements reach the
//! server.

mod batch;
mod driver_run;
mod kept_sessions;

use pgdyno_script::Rng;
use pgdyno_wire::ServerError;

pub use self::batch::{Batch, Batched};
pub use self::driver_run::{DriverRun, Stage};
use crate::clock::Nanos;

/// The transaction that a client is in, or is about to begin.
#[derive(Debug)]
pub struct Transaction {
    /// Number of the script.
    pub script: usize,
    /// Number of its record: the script's, in a run with phases the script's of its phase.
    pub record: usize,
    /// Next operation of the script.
    pub next_op: usize,
    /// Operation whose answer is awaited.
    pub command: usize,
    /// When that began.
    pub command_started: Nanos,
    /// When the schedule wants it to begin; while its client keys or thinks, the end of that.
    pub intended: Nanos,
    /// When it began; or the pause before it.
    pub started: Nanos,
    /// Whether it has begun and not ended.
    pub begun: bool,
    /// Tries, with the one under way.
    pub tries: u32,
    /// Whether it has waited for the server.
    pub waited: bool,
    /// The random state at its begin, to which a retry returns.
    pub rng: Option<Rng>,
    /// The failed try that is being rolled back.
    pub failed: Option<Box<FailedTry>>,
    /// How its statements are chosen and sent.
    pub mode: Mode,
}

/// A failed try.
#[derive(Debug)]
pub struct FailedTry {
    /// The error of the server.
    pub error: Box<ServerError>,
    /// The error with its place in the statement as it was sent.
    pub message: String,
}

/// How the statements of a transaction are chosen and sent. A script changes it from statement
/// to statement, a driver never.
#[derive(Debug)]
pub enum Mode {
    /// The script's, a round trip each.
    Script {
        /// The one whose answer is awaited or came last.
        statement: Option<usize>,
    },
    /// The script's, between `\startpipeline` and `\endpipeline`.
    Pipeline {
        /// Statements of the pipeline, in order.
        statements: Vec<usize>,
        /// Whether its end has not come yet.
        is_open: bool,
    },
    /// The script's, as many as possible in a round trip (--auto-pipeline).
    Batch(Box<Batch>),
    /// A driver's, in place of a script.
    Driver(Box<DriverRun>),
}

impl Transaction {
    /// None yet, of a client whose statements are chosen and sent in `mode`.
    #[must_use]
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
            tries: 0,
            waited: false,
            rng: None,
            failed: None,
            mode,
        }
    }

    /// The next one is to be chosen. Script, record and command stay until it is: what happens
    /// before is reported under them.
    pub fn renew(&mut self) {
        debug_assert!(!self.begun, "the last one has ended");
        self.intended = 0;
        self.started = 0;
        self.tries = 0;
        self.waited = false;
        self.rng = None;
    }

    /// Begins the first try.
    pub fn begin(&mut self, now: Nanos) {
        debug_assert!(!self.begun, "the last one has ended");
        self.begun = true;
        self.started = now;
        self.tries = 1;
        self.next_op = 0;
    }

    /// Whether it is decided by a driver.
    #[inline]
    #[must_use]
    pub fn is_driven(&self) -> bool {
        matches!(self.mode, Mode::Driver(_))
    }

    /// What decides it in place of a script.
    #[inline]
    #[must_use]
    pub fn driver(&self) -> Option<&DriverRun> {
        match &self.mode {
            Mode::Driver(driver) => Some(driver),
            Mode::Script { .. } | Mode::Pipeline { .. } | Mode::Batch(_) => None,
        }
    }

    /// The same, to go on with it.
    #[inline]
    pub fn driver_mut(&mut self) -> Option<&mut DriverRun> {
        match &mut self.mode {
            Mode::Driver(driver) => Some(driver),
            Mode::Script { .. } | Mode::Pipeline { .. } | Mode::Batch(_) => None,
        }
    }
}

impl Mode {
    /// The statement whose answer is awaited or came last, where answers are one statement's each.
    #[must_use]
    pub fn statement(&self) -> Option<usize> {
        match self {
            Self::Script { statement } => *statement,
            Self::Batch(batch) => batch.statement,
            Self::Pipeline { .. } | Self::Driver(_) => None,
        }
    }

    /// The statement whose result number `query` is. Of those in a pipeline each has one: the one
    /// under way comes after all that were completed.
    #[must_use]
    pub fn statement_of_result(&self, query: usize) -> Option<usize> {
        match self {
            Self::Pipeline { statements, .. } => statements.get(query).copied(),
            Self::Script { .. } | Self::Batch(_) | Self::Driver(_) => self.statement(),
        }
    }

    /// A statement goes by itself.
    #[inline]
    pub fn send_alone(&mut self, number: usize) {
        match self {
            Self::Script { statement } => *statement = Some(number),
            _ => {
                *self = Self::Script {
                    statement: Some(number),
                }
            }
        }
    }

    /// Whether a pipeline has begun and not ended.
    #[inline]
    #[must_use]
    pub fn is_in_pipeline(&self) -> bool {
        matches!(self, Self::Pipeline { is_open: true, .. })
    }

    /// A pipeline begins.
    pub fn open_pipeline(&mut self) {
        debug_assert!(!self.is_in_pipeline(), "pipelines do not nest");
        // a script that is one pipeline allocates for its first transaction only
        let mut all = match self {
            Self::Pipeline { statements, .. } => std::mem::take(statements),
            Self::Script { .. } | Self::Batch(_) | Self::Driver(_) => Vec::new(),
        };
        all.clear();
        *self = Self::Pipeline {
            statements: all,
            is_open: true,
        };
    }

    /// A statement is part of the pipeline.
    pub fn add_to_pipeline(&mut self, statement: usize) {
        debug_assert!(self.is_in_pipeline(), "a pipeline is open");
        if let Self::Pipeline { statements, .. } = self {
            statements.push(statement);
        }
    }

    /// The pipeline that is open, if one is, has all its statements.
    pub fn close_pipeline(&mut self) {
        if let Self::Pipeline { is_open, .. } = self {
            *is_open = false;
        }
    }

    /// Statements share round trips: the batch that is open, or a new one.
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

    /// Whether the answers of a batch are awaited.
    #[inline]
    #[must_use]
    pub fn awaits_batch(&self) -> bool {
        matches!(self, Self::Batch(batch) if batch.sent)
    }

    /// Whether statements wait to be sent together.
    #[inline]
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        matches!(self, Self::Batch(batch) if !batch.sent && !batch.statements.is_empty())
    }

    /// Another connection takes the place of the one on which statements were sent.
    pub fn forget_session(&mut self) {
        match self {
            Self::Script { statement } => *statement = None,
            Self::Pipeline {
                statements,
                is_open,
            } => {
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
