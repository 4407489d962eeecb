//! How a client that is stopped early ends its session.

use crate::client::Client;
use crate::client::state::{Awaited, Hold, State};
use crate::poller::Next;
use crate::session::Received;
use crate::shared::Shared;

impl Client {
    /// What the session still has to end; None without a session, or if the server knows of its end.
    pub fn hold(&self, shared: &Shared<'_>) -> Option<Hold> {
        match self.state {
            State::Running(Awaited::Preparation | Awaited::Answer | Awaited::Rollback(_)) => Some(Hold::Statement),
            State::Unconnected(_) | State::Stopping | State::Finished | State::Aborted => None,
            State::Paused(_) | State::Running(Awaited::Sleep | Awaited::SessionChange(_)) => {
                // between two transactions with a connection each, the client has ended its session
                let has_session = if shared.run.driven_sessions {
                    self.has_driven_session()
                } else {
                    !shared.run.reconnects || self.transaction.begun
                };
                has_session.then_some(Hold::Idle)
            }
        }
    }

    /// Ends the session; the caller sends the message.
    pub fn terminate(&mut self) -> Next {
        self.session.terminate();
        Next::Send
    }

    /// From now on, answers only end the current statement: they do not count.
    pub fn stop_when_answered(&mut self) {
        self.enter(State::Stopping);
    }

    /// Whether the client still waits for the answer to its statement.
    pub fn is_stopping(&self) -> bool {
        self.state == State::Stopping
    }

    pub(super) fn received_while_stopping(&mut self, mut input: &[u8], shared: &Shared<'_>) -> Next {
        let mut copies = false;
        loop {
            match self.session.receive(&mut input, false, &shared.run.spec.symbols) {
                Ok(None) if copies => return self.end_copy(shared),
                Ok(None) => return Next::Wait,
                Ok(Some(Received::CopyIn)) => copies = true,
                Ok(Some(Received::Ready)) => {
                    copies = false;
                    if self.session.count_answer() {
                        self.enter(State::Finished);
                        return self.terminate();
                    }
                }
                Ok(Some(_)) => {}
                Err(_) => {
                    self.enter(State::Finished);
                    return Next::Close;
                }
            }
        }
    }
}
