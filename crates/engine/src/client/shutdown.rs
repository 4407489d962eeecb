//! How a client that is stopped before its time ends its session.

use crate::client::Client;
use crate::client::state::{Awaited, Hold, State};
use crate::poller::Next;
use crate::session::Received;
use crate::shared::Shared;

impl Client {
    /// What is still to be ended; None without a session, or when the server knows of its end.
    #[must_use]
    pub fn hold(&self, shared: &Shared<'_>) -> Option<Hold> {
        match self.state {
            State::Running(Awaited::Preparation | Awaited::Answer | Awaited::Rollback(_)) => {
                Some(Hold::Statement)
            }
            State::Unconnected(_) | State::Stopping | State::Finished | State::Aborted => None,
            State::Paused(_)
            | State::Departing
            | State::Running(Awaited::Sleep | Awaited::SessionChange(_)) => {
                // between two transactions that each have a connection, it has ended its session
                let has_session = !shared.reconnects || self.transaction.begun;
                has_session.then_some(Hold::Idle)
            }
        }
    }

    /// Ends its session: the message is to be sent.
    pub fn terminate(&mut self) -> Next {
        self.session.terminate();
        Next::Send
    }

    /// From here on answers only end what is under way: they are not counted.
    pub fn stop_when_answered(&mut self) {
        self.enter(State::Stopping);
    }

    /// Whether the statement is still unanswered.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.state == State::Stopping
    }

    /// Bytes came while it is stopping.
    pub(super) fn received_while_stopping(
        &mut self,
        mut input: &[u8],
        shared: &Shared<'_>,
    ) -> Next {
        let mut copies = false;
        loop {
            match self
                .session
                .receive(&mut input, false, &shared.spec.symbols)
            {
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
