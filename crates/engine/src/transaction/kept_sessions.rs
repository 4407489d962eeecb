//! The sessions of a driver's client other than the current one. They are closed in order when the client is dropped.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;

use pgdyno_connect::Transport;
use pgdyno_wire::frontend;

use crate::session::Session;

/// The sessions that are not current, by number.
#[derive(Debug, Default)]
pub struct KeptSessions {
    current: usize,
    kept: HashMap<usize, KeptSession>,
}

/// A session that is not current, between two statements.
#[derive(Debug)]
struct KeptSession {
    /// None only after it was taken, or if it was lost while another session was made.
    transport: Option<Transport>,
    session: Session,
}

impl KeptSessions {
    /// Takes the connection of session number `number`, which is to become the current one.
    pub fn take_transport(&mut self, number: usize) -> Option<Transport> {
        self.kept.get_mut(&number)?.transport.take()
    }

    pub fn close(&mut self, number: usize) {
        self.kept.remove(&number);
    }

    /// Makes session `number` the current one, and creates it if it does not exist. `session` was
    /// current before, over the connection `left`.
    pub fn swap(&mut self, number: usize, session: &mut Session, left: Option<Transport>) {
        debug_assert!(!session.awaits_answer(), "it is between two statements");
        let next = self.kept.remove(&number);
        let mut kept = next.unwrap_or_else(|| KeptSession {
            transport: None,
            // drivers name and prepare their statements themselves
            session: Session::new(0),
        });
        kept.transport = left;
        std::mem::swap(&mut kept.session, session);
        let before = std::mem::replace(&mut self.current, number);
        self.kept.insert(before, kept);
    }
}

impl Drop for KeptSession {
    /// Sends Terminate before closing, because the server logs a connection that just ends.
    fn drop(&mut self) {
        let Some(Transport { socket, tls, .. }) = self.transport.take() else {
            return;
        };
        let mut message = Vec::new();
        frontend::terminate(&mut message);
        if let Some(mut channel) = tls {
            let plain = std::mem::take(&mut message);
            if channel.seal(&plain, &mut message).is_err() {
                return;
            }
        }
        // if the server has gone, the message is not needed
        let _ = File::from(socket).write_all(&message);
    }
}
