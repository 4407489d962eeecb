//! How a driver's client changes its current session; the worker makes the connections.

use pgdyno_connect::Transport;

use crate::client::Client;
use crate::client::state::{Awaited, State};
use crate::clock::{Nanos, SECOND};
use crate::driver::{Change, Event};
use crate::poller::Next;
use crate::shared::Shared;

/// Time between two attempts to replace a session.
const RETRY_EVERY: Nanos = SECOND / 10;
/// Time until a connection that is still sending is tried again.
const BUSY_WAIT: Nanos = SECOND / 10_000;

impl Client {
    pub(super) fn request_change(&mut self, change: Change, shared: &mut Shared<'_>) -> Next {
        self.enter(State::Running(Awaited::SessionChange(change)));
        shared.requests.change_session(self.id);
        if matches!(change, Change::Replace { .. }) {
            self.session.terminate();
            return Next::Send;
        }
        Next::Wait
    }

    /// The change of session that the client is waiting for, if there is one.
    pub fn requested_change(&self) -> Option<Change> {
        match self.state {
            State::Running(Awaited::SessionChange(change)) => Some(change),
            _ => None,
        }
    }

    pub(super) fn replaces_session(&self) -> bool {
        matches!(self.requested_change(), Some(Change::Replace { .. }))
    }

    /// Postpones the change: the current connection still has bytes to send.
    pub fn postpone_change(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.wake_at(now + BUSY_WAIT, shared);
        Next::Wait
    }

    /// Takes the connection of session number `number`, which is to become the current one.
    pub fn take_kept(&mut self, number: usize) -> Option<Transport> {
        let driver = self.transaction.driver_mut()?;
        driver.sessions.as_mut()?.take_transport(number)
    }

    /// Continues after the change, or after its failure: then the current session is still the
    /// previous one. `left` is the connection that was current.
    pub fn finish_session_change(
        &mut self, left: Option<Transport>, result: Result<(), String>, shared: &mut Shared<'_>,
    ) -> Next {
        let now = shared.clock.now();
        let Some(change) = self.requested_change() else {
            return Next::Wait;
        };
        if result.is_err() && self.replaces_session() && !shared.run.stops(now) {
            self.wake_at(now + RETRY_EVERY, shared);
            return Next::Wait;
        }
        if result.is_ok() {
            match change {
                Change::Replace { counts } => {
                    self.forget_session();
                    // the driver requested the new session itself
                    if let Some(driver) = self.transaction.driver_mut() {
                        driver.knows_session = true;
                    }
                    let statements = &mut shared.results.recorder.scripts[self.transaction.record].statements;
                    statements.reconnects += u64::from(counts);
                }
                Change::Open(number) | Change::Use(number) => {
                    if let Some(driver) = self.transaction.driver_mut() {
                        let sessions = driver.sessions.get_or_insert_default();
                        sessions.swap(number, &mut self.session, left);
                    }
                }
            }
        }
        self.drive(Event::Changed(result.err()), now, shared)
    }
}
