//! What a load has to do, and how.

use pgdyno_connect::{ConnectError, Session};

use crate::load_step::Step;

/// Makes a further connection to the same database.
pub type Connect<'a> = dyn Fn() -> Result<Session, ConnectError> + Sync + 'a;

/// The steps of a load, and how it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub steps: Vec<Step>,
    pub mode: LoadMode,
    /// Version of the program, for the dataset stamp.
    pub program_version: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadMode {
    /// As pgbench does it: one connection, all rows in one transaction, and no trace in the server but the tables.
    OneTransaction,
    /// Over several connections, chunk by chunk, with a ledger; at the end the database gets its dataset stamp.
    Chunks(Chunks),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    /// The most connections, at least 1; there are never more than chunks.
    pub workers: usize,
    pub pieces: Pieces,
    /// Whether the load resumes an earlier one.
    pub beginning: Beginning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// By table or partition: the rows of each are written frozen, which is the least work for the server.
    Relations,
    /// By about this many rows: a table can be filled over several connections, and its rows have to be frozen later.
    Rows(u64),
}

/// Whether the load resumes an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// It begins with the first step.
    Anew,
    /// It resumes an earlier load after what that has committed.
    Resume,
}
