//! Clients whose transactions are decided while they run, by code in place of a compiled script.
//!
//! A [`Driver`] is one client's: a state machine without I/O. The engine passes it what happened, and
//! it decides what comes next. Schedule, intervals, latencies, retries and outages stay the engine's.
//!
//! ```text
//! Connected → … → Done, once a session
//! Begin     → Await → Answered → Await → … → Done, once a transaction
//! Ending    → … → Done, before the session is closed
//! ```

use std::fmt::Debug;
use std::time::Duration;

use pgdyno_wire::{BindTemplate, EncodeError, frontend};

pub use crate::answer::{Answer, Kind, Rows, StatementResult};
use crate::clock::Nanos;
use crate::recorder::Statements;

/// Makes the drivers of a run.
pub trait Drivers: Debug + Send + Sync {
    /// The driver of a client; called in its first worker's thread, before the load begins. Clients of
    /// one `group` are always with the same worker, but while they move to another.
    fn driver(&self, group: usize, client: usize) -> Box<dyn Driver>;

    /// Whether the server's notices go to standard error, as those of scripts do.
    fn prints_notices(&self) -> bool {
        true
    }
}

/// Decides what one client does.
pub trait Driver: Send {
    /// Goes on: `event` is what happened at `now`. Messages for the server are appended to `out`;
    /// they are sent when the request is [`Request::Await`], and dropped else.
    fn resume(&mut self, event: Event<'_>, now: Nanos, out: &mut Outgoing<'_>) -> Request;
}

/// What happened to a client.
#[derive(Debug)]
pub enum Event<'a> {
    /// It has a new session, in which nothing is prepared. Comes before its first transaction, and
    /// again, as a part of the next transaction, after its connection was replaced; what was under way
    /// when that was lost is over.
    Connected,
    /// A transaction begins.
    Begin {
        /// Number of the script that was drawn by weight.
        script: usize,
        /// 1, or more when the transaction is tried again.
        tries: u32,
    },
    /// What was sent is answered; an error is in the answer.
    Answered(&'a Answer),
    /// The sleep is over.
    Woken,
    /// What [`Request::Change`] or [`Request::Close`] asked for is done; or why it cannot be.
    Changed(Option<String>),
    /// The session ends when this is done. Does not come when the connection is lost.
    Ending,
}

/// What a client is to do.
#[derive(Debug)]
pub enum Request {
    /// Send what was appended, and resume with the answer.
    Await,
    /// Resume after this long.
    Sleep(Duration),
    /// Another session is to be current: statements go there. Resume when it is.
    Change(Change),
    /// The session of this number, which is not current, is to be closed.
    Close(usize),
    /// The transaction has succeeded, or what else was begun is complete.
    Done,
    /// The server refused a statement, and the transaction is not to go on. What is open is rolled
    /// back by the engine. Serialization failures and deadlocks are tried again as the load's tries
    /// allow; other errors end the client unless the load goes on after errors.
    Refused(Refused),
    /// The client is to stop, as at the end of its load.
    Stop,
    /// The client gives up. The message says why, and where.
    Abort(String),
}

/// Which session of the client is to be current. The first is number 0, and there from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A new one, with a number that none has.
    Open(usize),
    /// One that was opened before, as it was left.
    Use(usize),
    /// A new one in place of the current one, under its number. It is tried until the load is over.
    Replace {
        /// Whether it counts as a reconnect.
        counts: bool,
    },
}

/// What is known of a refused transaction, besides the error of the last answer.
#[derive(Debug, Default)]
pub struct Refused {
    /// Whether the script counts the error as one to ignore: then the transaction is tried again
    /// whatever the error is.
    pub ignorable: bool,
    /// The message of a client that ends because of it; None is the server's own message.
    pub words: Option<String>,
}

/// Messages on their way to the server.
///
/// Those of the extended protocol are one pipeline, which the engine ends with a Sync unless
/// [`Outgoing::sync`] does.
#[derive(Debug)]
pub struct Outgoing<'a> {
    out: &'a mut Vec<u8>,
    asked: Asked,
}

/// What the engine has to know of messages that were appended.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Asked {
    /// How many ReadyForQuery will come.
    pub readies: usize,
    /// Whether a Sync is due after them.
    pub unsynced: bool,
    /// Whether the last message was of the extended protocol.
    pub is_extended: bool,
    /// Whether rows are wanted.
    pub rows: bool,
    /// The command under which the answer is timed.
    pub command: usize,
    /// What the driver counts besides answers.
    pub counted: Statements,
}

impl<'a> Outgoing<'a> {
    /// Appends to `out`; the engine makes it, and tests of drivers.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            asked: Asked::default(),
        }
    }

    /// Ends the pipeline, if one is open.
    pub(crate) fn close(mut self) -> Asked {
        if self.asked.unsynced {
            self.sync();
        }
        self.asked
    }

    /// Rows of the answer are kept for the driver. Else they are skipped unread.
    pub fn keep_rows(&mut self) {
        self.asked.rows = true;
    }

    /// Adds what the script's statements did and no answer shows.
    pub fn count(&mut self, counts: &Statements) {
        self.asked.counted.add(counts);
    }

    /// The answer's latency is that of command number `number` of the script.
    pub fn command(&mut self, number: usize) {
        self.asked.command = number;
    }

    /// One or more statements in the simple protocol.
    ///
    /// # Errors
    /// The text holds a zero byte or is too long.
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

    /// Likewise, with the OIDs of the parameters' types; those that are left out the server infers.
    ///
    /// # Errors
    /// A text holds a zero byte or is too long, or there are more than 65,535 types.
    pub fn parse_typed(
        &mut self,
        name: &str,
        sql: impl AsRef<[u8]>,
        types: &[u32],
    ) -> Result<(), EncodeError> {
        frontend::parse(self.out, name, sql, types)?;
        self.extended();
        Ok(())
    }

    /// Executes a prepared statement whose messages were formatted before: `write(i, out)` appends the
    /// text of parameter `i` (from 0) and gives true, or gives false for NULL.
    ///
    /// # Errors
    /// A value is too long.
    pub fn execute(
        &mut self,
        template: &BindTemplate,
        write: impl FnMut(u16, &mut Vec<u8>) -> bool,
    ) -> Result<(), EncodeError> {
        template.append(self.out, write)?;
        self.extended();
        Ok(())
    }

    /// Forgets a prepared statement, if there is one of this name.
    ///
    /// # Errors
    /// The name holds a zero byte.
    pub fn close_statement(&mut self, name: &str) -> Result<(), EncodeError> {
        frontend::close_statement(self.out, name)?;
        self.extended();
        Ok(())
    }

    fn extended(&mut self) {
        self.asked.unsynced = true;
        self.asked.is_extended = true;
    }

    /// Ends a pipeline: what follows is not skipped after an error before it.
    pub fn sync(&mut self) {
        frontend::sync(self.out);
        self.asked.readies += 1;
        self.asked.unsynced = false;
    }
}
