//! The states of a client.

use crate::driver::Change;
use crate::recorder::Ending;

/// What a client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is between two transactions, until an instant or its turn comes.
    Paused(PauseReason),
    /// It needs a connection and has none.
    Unconnected(Connection),
    /// It is in a transaction, or in what a driver does before the first one and after the last.
    Running(Awaited),
    /// It was stopped, and waits for the server to end its statement.
    Stopping,
    Finished,
    /// It gave up.
    Aborted,
}

/// Why a client is between two transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseReason {
    /// It lets other clients run.
    Yield,
    /// It waits for its intended start.
    Schedule,
    /// It is in the keying time before its next transaction (--keying-time).
    Keying,
    /// It is in the think time after its last transaction (--think-time).
    Thinking,
    /// It stands by until another client has begun the next start (phases).
    StandBy,
    /// Its phase does not use it (phases), or it has no start before the deadline.
    Rest,
}

/// What a client without a connection is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// It has requested a connection: one for its transaction (-C), or a replacement for a lost one.
    Requested,
    /// It waits before it requests a replacement for a lost connection.
    BackingOff,
}

/// What a transaction is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The server prepares statements before they are executed.
    Preparation,
    /// The server answers a statement, a pipeline or a batch.
    Answer,
    Sleep,
    /// The server answers the ROLLBACK after a failed statement.
    Rollback(Ending),
    /// The worker changes the client's session (drivers).
    SessionChange(Change),
}

/// What a session has to end before it can be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Nothing: the server waits for a statement.
    Idle,
    /// A statement that the server has not answered.
    Statement,
}
