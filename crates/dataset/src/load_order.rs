//! What a load is asked to do, and how.

use pgdyno_connect::{ConnectError, Session};

use crate::step::Step;

/// Makes a further connection to the same database.
pub type Connect<'a> = dyn Fn() -> Result<Session, ConnectError> + Sync + 'a;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// How.
    pub way: Way,
    /// Version of the program, for the mark.
    pub program_version: &'static str,
}

/// How a load is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As pgbench does it: over one connection, all rows in one transaction, and nothing is left
    /// in the server but the tables.
    OneTransaction,
    /// Over several connections, chunk by chunk, with a ledger; the database is marked at the end.
    Chunks(Chunks),
}

/// How rows are made in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    /// Connections at most, at least 1; there are no more than chunks.
    pub workers: usize,
    /// What a chunk is.
    pub pieces: Pieces,
    /// Whether an earlier load goes on.
    pub beginning: Beginning,
}

/// What a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// A table or a partition: its rows are written frozen, which is the least work for the
    /// server.
    Relations,
    /// So many rows, about: a table can be filled over several connections, and its rows have to
    /// be frozen later.
    Rows(u64),
}

/// Whether an earlier load goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// It begins with the first step.
    Anew,
    /// It goes on behind what an earlier one has committed.
    Resume,
}
