//! Several sessions of one client: one is current, the others are kept until its driver wants them
//! again. A client that has stopped takes leave of those that are kept when it is dropped.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;

use pgdyno_connect::Transport;
use pgdyno_wire::{self as wire, Exchange, TxStatus, frontend};

use crate::client::{Client, State};
use crate::clock::{Nanos, SECOND};
use crate::driver::{Change, Event};
use crate::poller::Next;
use crate::shared::Shared;

/// Between two attempts to replace a session.
const RETRY_EVERY: Nanos = SECOND / 10;
/// Until a connection that still sends is looked at again.
const BUSY_WAIT: Nanos = SECOND / 10_000;

/// The sessions of a client beside the current one.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    current: usize,
    kept: HashMap<usize, Kept>,
    wanted: Option<Change>,
}

/// A session that is not current, between two statements.
#[derive(Debug)]
struct Kept {
    /// None only when it is taken, or was lost while another was made.
    transport: Option<Transport>,
    exchange: Exchange,
    tx_status: TxStatus,
    captures: bool,
    completions: bool,
}

impl Drop for Kept {
    /// Says goodbye: the server logs a connection that just ends.
    fn drop(&mut self) {
        let Some(Transport { socket, tls, .. }) = self.transport.take() else {
            return;
        };
        let mut goodbye = Vec::new();
        frontend::terminate(&mut goodbye);
        if let Some(mut channel) = tls {
            let plain = std::mem::take(&mut goodbye);
            if channel.seal(&plain, &mut goodbye).is_err() {
                return;
            }
        }
        // the server may be gone: then there is nobody to take leave of
        let _ = File::from(socket).write_all(&goodbye);
    }
}

impl Client {
    /// The driver wants another session to be current: the worker has to see to it.
    pub(super) fn want(&mut self, change: Change, shared: &mut Shared<'_>) -> Next {
        self.state = State::Changing;
        self.sessions.get_or_insert_default().wanted = Some(change);
        shared.change_session(self.id);
        if matches!(change, Change::Replace { .. }) {
            self.out.clear();
            frontend::terminate(&mut self.out);
            return Next::Send;
        }
        Next::Wait
    }

    /// What it waits for, if it is a change of its session.
    #[must_use]
    pub fn wanted_change(&self) -> Option<Change> {
        let sessions = self.sessions.as_ref()?;
        (self.state == State::Changing)
            .then_some(sessions.wanted)
            .flatten()
    }

    /// Whether the end of the current connection is its own wish.
    pub(super) fn replaces_session(&self) -> bool {
        matches!(self.wanted_change(), Some(Change::Replace { .. }))
    }

    /// The current connection cannot be given up yet: bytes are still to be sent.
    pub fn change_later(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.wake_at(now + BUSY_WAIT, shared);
        Next::Wait
    }

    /// The connection of session number `number`, which is to be current.
    pub fn take_kept(&mut self, number: usize) -> Option<Transport> {
        let kept = self.sessions.as_mut()?.kept.get_mut(&number)?;
        kept.transport.take()
    }

    /// The change is made, or cannot be: then the current session is what it was. `left` is the
    /// connection that was current.
    pub fn session_changed(
        &mut self,
        left: Option<Transport>,
        result: Result<(), String>,
        shared: &mut Shared<'_>,
    ) -> Next {
        let now = shared.clock.now();
        let Some(change) = self.wanted_change() else {
            return Next::Wait;
        };
        if result.is_err() && self.replaces_session() && !shared.stops(now) {
            self.wake_at(now + RETRY_EVERY, shared);
            return Next::Wait;
        }
        if result.is_ok() {
            match change {
                Change::Replace { counts } => {
                    self.forget_session();
                    self.keep_knowing_session();
                    let statements = &mut shared.recorder.scripts[self.record].statements;
                    statements.reconnects += u64::from(counts);
                }
                Change::Open(number) | Change::Use(number) => self.swap_session(number, left),
            }
        }
        if let Some(sessions) = &mut self.sessions {
            sessions.wanted = None;
        }
        self.drive(Event::Changed(result.err()), now, shared)
    }

    /// Ends a session that is not current.
    pub(super) fn close_kept(&mut self, number: usize) {
        if let Some(sessions) = &mut self.sessions {
            sessions.kept.remove(&number);
        }
    }

    fn swap_session(&mut self, number: usize, left: Option<Transport>) {
        let sessions = self.sessions.get_or_insert_default();
        // what it holds changes places with what the client holds
        let mut kept = sessions.kept.remove(&number).unwrap_or_else(Kept::new);
        kept.transport = left;
        std::mem::swap(&mut kept.exchange, &mut self.exchange);
        std::mem::swap(&mut kept.tx_status, &mut self.tx_status);
        std::mem::swap(&mut kept.captures, &mut self.captures);
        std::mem::swap(&mut kept.completions, &mut self.completions);
        let before = std::mem::replace(&mut sessions.current, number);
        sessions.kept.insert(before, kept);
    }
}

impl Kept {
    /// One in which nothing was said.
    fn new() -> Self {
        Self {
            transport: None,
            exchange: Exchange::new(wire::Capture::None, false),
            tx_status: TxStatus::Idle,
            captures: false,
            completions: false,
        }
    }
}
