//! How a client that is stopped before its time takes leave of the server.

use pgdyno_wire::{Reply, frontend};

use crate::client::{Client, State};
use crate::poller::Next;
use crate::shared::Shared;

/// What keeps a session from ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Nothing: the server waits for a statement.
    Idle,
    /// A statement that the server has not answered.
    Statement,
}

impl Client {
    /// What is still to be ended; None without a session, or when the server knows of its end.
    #[must_use]
    pub fn hold(&self, shared: &Shared<'_>) -> Option<Hold> {
        match self.state {
            State::Preparing | State::Waiting | State::RollingBack(_) => Some(Hold::Statement),
            State::Connecting
            | State::Disconnected
            | State::Leaving
            | State::Finished
            | State::Aborted => None,
            State::Yielded
            | State::Scheduled
            | State::Keying
            | State::Thinking
            | State::Departing
            | State::Changing
            | State::Sleeping
            | State::StandingBy
            | State::Resting => {
                // between two transactions that each have a connection, it has taken leave
                let has_session = !shared.reconnects || self.transaction.begun;
                has_session.then_some(Hold::Idle)
            }
        }
    }

    /// Tells the server that the session ends.
    pub fn take_leave(&mut self) -> Next {
        self.out.clear();
        frontend::terminate(&mut self.out);
        Next::Send
    }

    /// From here on answers only end what is under way: they count nowhere.
    pub fn leave_when_answered(&mut self) {
        self.state = State::Leaving;
    }

    /// Whether the statement is still unanswered.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.state == State::Leaving
    }

    /// Bytes came while it is leaving.
    pub(super) fn received_while_leaving(&mut self, mut input: &[u8], shared: &Shared<'_>) -> Next {
        let mut copies = false;
        loop {
            match self.exchange.next(&mut input) {
                Ok(None) if copies => return self.end_copy(shared),
                Ok(None) => return Next::Wait,
                Ok(Some(Reply::CopyIn)) => copies = true,
                Ok(Some(Reply::Ready(_))) => {
                    copies = false;
                    self.awaited = self.awaited.saturating_sub(1);
                    if self.awaited == 0 {
                        self.state = State::Finished;
                        return self.take_leave();
                    }
                }
                Ok(Some(_)) => {}
                Err(_) => {
                    self.state = State::Finished;
                    return Next::Close;
                }
            }
        }
    }
}
