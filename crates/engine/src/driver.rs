//! Clients whose transactions are decided by code while they run, in place of a compiled script.
//!
//! A [`Driver`] belongs to one client and is a state machine without I/O: the engine passes it events, and it decides
//! what comes next. The engine keeps schedule, intervals, latencies, retries and outages.
//!
//! ```text
//! Connected → … → Done, once a session
//! Begin     → Await → Answered → Await → … → Done, once a transaction
//! Ending    → … → Done, before the session is closed
//! ```
//!
//! In a load with [`crate::spec::Sessions::Driven`], the driver also decides when sessions begin and
//! end, and when transactions do: the engine asks for its [`Step`] between two transactions.

use std::fmt::Debug;
use std::time::Duration;

use pgdyno_wire::{BindTemplate, EncodeError, frontend};

pub use crate::answer::{Answer, Rows, StatementKind, StatementResult};
use crate::clock::Nanos;
use crate::recorder::Statements;

pub trait Drivers: Debug + Send + Sync {
    /// Creates the driver of a client, in the thread of its worker, before the load begins.
    fn driver(&self, worker: usize, client: usize) -> Box<dyn Driver>;

    /// Whether the server's notices go to standard error, as those of scripts do.
    fn prints_notices(&self) -> bool {
        true
    }

    /// Whether a client is connected before the load begins; only asked with [`crate::spec::Sessions::Driven`].
    fn begins_connected(&self, _client: usize) -> bool {
        true
    }
}

pub trait Driver: Send {
    /// Continues after `event`, which happened at `now`. Messages for the server are appended to
    /// `out`; the engine sends them if the request is [`Request::Await`], and drops them otherwise.
    fn resume(&mut self, event: Event<'_>, now: Nanos, out: &mut Outgoing<'_>) -> Request;

    /// The next step; only asked with [`crate::spec::Sessions::Driven`], between two transactions. A client that
    /// `is_connected` no longer, in the middle of its session, has lost its connection.
    fn next_step(&mut self, _load: LoadTimes, _now: Nanos, _is_connected: bool) -> Step {
        Step::Finish
    }

    /// Appends CopyData messages for a `COPY FROM STDIN` that the server has begun; without this, it gets no rows.
    fn copy_data(&mut self, _out: &mut Vec<u8>) {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadTimes {
    /// The instant from which the schedule counts.
    pub origin: Nanos,
    /// When nothing more begins; None if the load ends with its work.
    pub deadline: Option<Nanos>,
}

/// What a client does next, between two transactions, and when. An instant that has passed means immediately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Connect(Nanos),
    Transaction(Nanos),
    Disconnect(Nanos),
    /// Nothing more: the client has finished.
    Finish,
    /// Aborts the client. The message says why, and where.
    Abort(String),
}

/// What happened to a client.
#[derive(Debug)]
pub enum Event<'a> {
    /// The client has a new session, in which nothing is prepared. This comes before its first
    /// transaction, and again, as a part of the next transaction, after its connection was
    /// replaced; the transaction in which the connection was lost is over.
    Connected,
    Begin {
        /// Number of the script that was drawn by weight.
        script: usize,
        /// The number of this try: 1, or more for a retry.
        tries: u32,
    },
    /// The server has answered what was sent; the answer includes an error if there was one.
    Answered(&'a Answer),
    Woken,
    /// The change of [`Request::Change`] or [`Request::Close`] is done; or, with a message, cannot be done.
    Changed(Option<String>),
    /// The session ends when this is done. This event does not come when the connection is lost.
    Ending,
}

/// What a client does next.
#[derive(Debug)]
pub enum Request {
    /// Send the messages that were appended, and resume with the answer.
    Await,
    /// Resume after this time.
    Sleep(Duration),
    /// Make another session the current one, and resume when it is.
    Change(Change),
    /// Close the session with this number, which is not the current one.
    Close(usize),
    /// The transaction has succeeded, or another piece of work is complete.
    Done,
    /// The server refused a statement, and the transaction cannot continue. The engine rolls back
    /// an open block. It retries serialization failures and deadlocks as the load's tries allow;
    /// other errors abort the client unless the load continues after errors.
    Refused(Refused),
    /// Stop the client, as at the end of its load. With [`crate::spec::Sessions::Driven`], a
    /// transaction that has begun counts as in flight.
    Stop,
    /// Abort the client. The message says why, and where.
    Abort(String),
}

/// Which session of the client becomes the current one. The first is number 0, and exists from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A new session, under an unused number.
    Open(usize),
    /// A session that was opened before, in the state in which it was left.
    Use(usize),
    /// A new session in place of the current one, under its number. The worker retries until the load is over.
    Replace { counts: bool },
}

/// What is known of a refused transaction, in addition to the error of the last answer.
#[derive(Debug, Default)]
pub struct Refused {
    /// Whether the script counts the error as ignorable: then the transaction is retried whatever the error is.
    pub ignorable: bool,
    /// The message for a client that is aborted because of it; None for the server's own message.
    pub words: Option<String>,
}

/// Collects messages for the server.
///
/// Messages of the extended protocol form one pipeline, which the engine ends with a Sync unless
/// [`Outgoing::sync`] does.
#[derive(Debug)]
pub struct Outgoing<'a> {
    out: &'a mut Vec<u8>,
    asked: Asked,
}

/// What the engine has to know of the messages that were appended.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Asked {
    /// How many ReadyForQuery messages answer them.
    pub readies: usize,
    /// Whether a Sync has to follow them.
    pub unsynced: bool,
    /// Whether the last message was of the extended protocol.
    pub is_extended: bool,
    pub rows: bool,
    /// The command under which the answer is timed.
    pub command: usize,
    /// What the driver counts in addition to answers.
    pub counted: Statements,
    /// From when its latency counts; None for the instant at which it is sent.
    pub intended: Option<Nanos>,
    /// How long the answer may take before the statement is cancelled; 0 for any time.
    pub patience: Nanos,
    /// Whether the error of the last answer makes the transaction fail.
    pub fails: bool,
}

impl<'a> Outgoing<'a> {
    /// Appends to `out`; used by the engine and by tests of drivers.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, asked: Asked::default() }
    }

    pub(crate) fn close(mut self) -> Asked {
        if self.asked.unsynced {
            self.sync();
        }
        self.asked
    }

    /// Keeps the rows of the answer for the driver. Without this call they are skipped unread.
    pub fn keep_rows(&mut self) {
        self.asked.rows = true;
    }

    /// Adds counts of statements that no answer shows.
    pub fn count(&mut self, counts: &Statements) {
        self.asked.counted.add(counts);
    }

    /// Records the answer's latency under command number `number` of the script.
    pub fn command(&mut self, number: usize) {
        self.asked.command = number;
    }

    /// Counts the answer's latency from `instant` instead of the time of sending.
    pub fn intended(&mut self, instant: Nanos) {
        self.asked.intended = Some(instant);
    }

    /// Cancels the statement when its answer takes longer than `patience`. Only with [`crate::spec::Sessions::Driven`].
    pub fn cancel_after(&mut self, patience: Nanos) {
        self.asked.patience = patience;
    }

    /// Reports the error of the last answer, and counts the transaction as failed when it ends.
    /// Nothing is rolled back or retried.
    pub fn fail(&mut self) {
        self.asked.fails = true;
    }

    /// Appends one or more statements in the simple protocol.
    pub fn query(&mut self, sql: impl AsRef<[u8]>) -> Result<(), EncodeError> {
        if self.asked.unsynced {
            self.sync();
        }
        frontend::query(self.out, sql)?;
        self.asked.readies += 1;
        self.asked.is_extended = false;
        Ok(())
    }

    /// Prepares a statement under `name`; empty is the unnamed one.
    ///
    /// # Errors
    /// A text holds a zero byte or is too long.
    pub fn parse(&mut self, name: &str, sql: impl AsRef<[u8]>) -> Result<(), EncodeError> {
        self.parse_typed(name, sql, &[])
    }

    /// Prepares a statement as [`Outgoing::parse`] does, with the OIDs of the parameters' types;
    /// the server infers those that are left out.
    ///
    /// # Errors
    /// A text holds a zero byte or is too long, or there are more than 65,535 types.
    pub fn parse_typed(&mut self, name: &str, sql: impl AsRef<[u8]>, types: &[u32]) -> Result<(), EncodeError> {
        frontend::parse(self.out, name, sql, types)?;
        self.extended();
        Ok(())
    }

    /// Executes a prepared statement whose messages were formatted before: `write(i, out)` appends
    /// the text of parameter `i` (from 0) and returns true, or returns false for NULL.
    ///
    /// # Errors
    /// A value is too long.
    pub fn execute(
        &mut self, template: &BindTemplate, write: impl FnMut(u16, &mut Vec<u8>) -> bool,
    ) -> Result<(), EncodeError> {
        template.append(self.out, write)?;
        self.extended();
        Ok(())
    }

    /// Executes a prepared statement with these parameters; None is NULL. Its rows are described, as libpq requests it.
    ///
    /// # Errors
    /// The name contains a zero byte, a value is too long, or there are more than 65,535 values.
    pub fn bind_and_execute<'v>(
        &mut self, name: &str, values: impl IntoIterator<Item = Option<&'v [u8]>>,
    ) -> Result<(), EncodeError> {
        frontend::bind(self.out, "", name, values)?;
        frontend::describe_portal(self.out, "")?;
        frontend::execute(self.out, "", 0)?;
        self.extended();
        Ok(())
    }

    /// Closes a prepared statement, if there is one of this name.
    pub fn close_statement(&mut self, name: &str) -> Result<(), EncodeError> {
        frontend::close_statement(self.out, name)?;
        self.extended();
        Ok(())
    }

    fn extended(&mut self) {
        self.asked.unsynced = true;
        self.asked.is_extended = true;
    }

    /// Ends a pipeline: an error before this point does not skip what follows.
    pub fn sync(&mut self) {
        frontend::sync(self.out);
        self.asked.readies += 1;
        self.asked.unsynced = false;
    }
}
