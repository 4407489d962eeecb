//! What a client is doing, and what it waits for.

use crate::driver::Change;
use crate::recorder::Ending;

/// What a client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Between two transactions, until its instant or its turn comes.
    Paused(Pause),
    /// Between two transactions, on its way to another worker.
    Departing,
    /// Without a connection that it needs.
    Unconnected(Connection),
    /// In a transaction, or in what a driver does before the first one and after the last.
    Running(Awaited),
    /// Was stopped, and waits for the end of its statement in the server.
    Stopping,
    /// Has done all it had to.
    Finished,
    /// Gave up.
    Aborted,
}

/// Why a client is between two transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Lets others run.
    Yield,
    /// Waits for its intended start.
    Schedule,
    /// Keys in its next transaction (--keying-time).
    Keying,
    /// Thinks about its last transaction (--think-time).
    Thinking,
    /// Waits until somebody else has begun the start that is next (phases).
    StandBy,
    /// Not in use for now (phases), or without a start before the deadline.
    Rest,
}

/// How far a client without a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// It has asked for one: of its own (-C), or in place of a lost one.
    Requested,
    /// It waits before it asks for one in place of a lost one.
    BackingOff,
}

/// What a transaction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The preparation of statements that are executed after that.
    Preparation,
    /// The answer to a statement, a pipeline or a batch.
    Answer,
    /// The end of `\sleep`.
    Sleep,
    /// The end of a ROLLBACK after a failed statement.
    Rollback(Ending),
    /// Another of its sessions (drivers).
    SessionChange(Change),
}

/// What keeps a session from ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Nothing: the server waits for a statement.
    Idle,
    /// A statement that the server has not answered.
    Statement,
}
