//! Ends a worker whose clients were stopped early: none of their statements may continue in the server.
//!
//! Sessions between two statements are closed in order. A statement in progress gets a moment to end by itself; then it
//! is cancelled, repeatedly until the server has answered, because a request that arrives between two statements of a
//! pipeline has no effect on the second. The shutdown ends after [`LONGEST_SHUTDOWN`], whatever the server does.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use pgdyno_connect::{CancelToken, Dialer, Patience};

use crate::client::{Client, Hold};
use crate::clock::{Nanos, SECOND};
use crate::connections::Request;
use crate::poller::{Handler, Next, Poller};
use crate::worker::{Load, Worker};

/// How long a stopped load may take to end its statements in the server.
pub const LONGEST_SHUTDOWN: Duration = Duration::from_secs(5);
/// Most statements of a load end within this time by themselves: each cancel request costs the server a process.
const BY_ITSELF: Duration = Duration::from_millis(100);
/// Time between two requests for the same statement.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long to wait for the server at most before the next round of requests may begin.
const LOOK_EVERY: Nanos = SECOND / 20;

/// The connections during the shutdown, as the poller sees them.
struct Shutdown<'l, 'a> {
    load: &'l mut Load<'a>,
    /// The connections whose statement is unanswered, with what cancels it.
    unanswered: HashMap<usize, Option<CancelToken>>,
}

impl Shutdown<'_, '_> {
    fn end_sessions(&mut self, holds: &[(usize, Hold)], poller: &mut impl Poller) {
        for (token, hold) in holds {
            let next = match hold {
                Hold::Statement => self.step(*token, |client| {
                    client.stop_when_answered();
                    Next::Wait
                }),
                Hold::Idle => self.step(*token, Client::terminate),
            };
            if next == Next::Send {
                poller.send(*token, self);
            }
        }
    }

    fn step(&mut self, token: usize, step: impl FnOnce(&mut Client) -> Next) -> Next {
        let Some((client, tls_sessions, shared)) = self.load.client_parts(token) else {
            return Next::Wait;
        };
        let next = step(client);
        tls_sessions.seal(token, next, client, shared)
    }
}

impl Handler for Shutdown<'_, '_> {
    fn receive(&mut self, token: usize, bytes: &[u8]) -> Next {
        // a client that ended its session expects no answer
        if !self.unanswered.contains_key(&token) {
            return Next::Wait;
        }
        let Some((client, tls_sessions, shared)) = self.load.client_parts(token) else {
            return Next::Wait;
        };
        let next = tls_sessions.receive(token, bytes, client, shared);
        if !client.is_stopping() {
            self.unanswered.remove(&token);
        }
        next
    }

    fn handle_close(&mut self, token: usize, _why: Option<io::Error>) {
        self.unanswered.remove(&token);
    }

    fn outgoing(&self, token: usize) -> &[u8] {
        self.load.outgoing(token)
    }
}

impl<P: Poller> Worker<'_, P> {
    pub(super) fn holds(&self) -> Vec<(usize, Hold)> {
        let load = &self.load;
        let clients = load.clients.iter().enumerate();
        clients.filter_map(|(token, client)| Some((token, client.hold(&load.shared)?))).collect()
    }

    pub(super) fn shut_down(&mut self, holds: &[(usize, Hold)]) -> usize {
        if holds.is_empty() {
            return 0;
        }
        let statements = holds.iter().filter(|(_, hold)| *hold == Hold::Statement);
        let unanswered: HashMap<_, _> = statements.map(|(token, _)| (*token, self.load.cancels.take(*token))).collect();
        // a server that gave no keys cannot be asked to cancel
        let limit = if unanswered.values().any(Option::is_some) { LONGEST_SHUTDOWN } else { BY_ITSELF };
        let mut shutdown = Shutdown { load: &mut self.load, unanswered };
        shutdown.end_sessions(holds, &mut self.poller);
        self.dialer.clear();
        end_statements(&mut self.poller, &mut self.dialer, &mut shutdown, limit);
        shutdown.unanswered.len()
    }
}

/// Serves the connections until every statement and every request is answered, at most for `limit`. Meanwhile cancels
/// the statements, again and again.
fn end_statements<P: Poller>(
    poller: &mut P, dialer: &mut Dialer<Request>, shutdown: &mut Shutdown<'_, '_>, limit: Duration,
) {
    let deadline = Instant::now() + limit;
    let patience = Patience::from(Some(deadline));
    let mut next_round = Instant::now() + BY_ITSELF;
    // the connections of this round whose request is still to come
    let mut round = Vec::new();
    // sends the ends of the idle sessions
    let mut served = poller.flush(shutdown);
    // requests go to their end, too: PgBouncer 1.18 ends if one is closed while it passes it on
    while served.is_ok() && !(shutdown.unanswered.is_empty() && dialer.is_idle()) {
        let now = Instant::now();
        if now >= deadline {
            return;
        }
        if round.is_empty() && dialer.is_idle() && now >= next_round {
            round.extend(shutdown.unanswered.keys());
            next_round = now + AGAIN_AFTER;
        }
        while dialer.has_room()
            && let Some(token) = round.pop()
        {
            if let Some(Some(cancel)) = shutdown.unanswered.get(&token) {
                dialer.cancel(cancel.clone(), patience.clone());
            }
        }
        // a statement whose request fails is among those that are reported
        let _ = dialer.advance(Duration::ZERO);
        let until = dialer.next_instant().unwrap_or(deadline).min(deadline);
        let timeout = until.saturating_duration_since(now).as_nanos() as Nanos;
        let until = shutdown.load.shared.clock.now() + timeout.min(LOOK_EVERY);
        served = poller.wait(Some(until), shutdown);
    }
    if shutdown.unanswered.is_empty() {
        // and the ends of those whose statements have ended
        let _ = poller.flush(shutdown);
    }
}
