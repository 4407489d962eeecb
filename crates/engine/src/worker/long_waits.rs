//! Ends statements whose answers take longer than their driver allows.

use std::time::{Duration, Instant};

use pgdyno_connect::Patience;

use crate::client::Overdue;
use crate::client_abort::Abort;
use crate::clock::{Nanos, SECOND};
use crate::poller::Poller;
use crate::worker::Worker;

/// Time between two checks.
const CHECK_EVERY: Nanos = SECOND;
const NOT_ENDED: &str = "the server did not end a statement that was cancelled";
/// How long a cancel request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

impl<P: Poller> Worker<'_, P> {
    /// Cancels the statements that wait too long. Where that has no effect, for example because the
    /// server gave no key, ends the connection.
    pub(super) fn end_long_waits(&mut self, now: Nanos) {
        if now < self.next_check || !self.load.shared.run.driven_sessions {
            return;
        }
        self.next_check = now + CHECK_EVERY;
        let patience = Patience::from(Some(Instant::now() + REQUEST_LIMIT));
        for token in 0..self.load.clients.len() {
            match self.load.clients[token].next_overdue_step(now) {
                None => {}
                Some(Overdue::Cancel) => {
                    // a statement whose request fails is ended with its connection
                    if let Some(cancel) = self.load.cancels.get(token) {
                        self.dialer.cancel(cancel.clone(), patience.clone());
                    }
                }
                Some(Overdue::Close) => self.step(token, |client, shared| {
                    client.lose_connection(NOT_ENDED, || Abort::command("SQL", NOT_ENDED), shared)
                }),
            }
        }
    }
}
