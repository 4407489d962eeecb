//! Ends a worker whose clients were stopped early: none of their statements may continue in the
//! server.
//!
//! Sessions between two statements are closed in order. A statement in progress gets a moment to
//! end by itself; then it is cancelled, repeatedly until the server has answered, because a request
//! that arrives between two statements of a pipeline has no effect on the second. The shutdown ends
//! after [`LONGEST_SHUTDOWN`], whatever the server does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use pgdyno_connect::{CancelToken, Interrupt, Params, Patience, cancel_all};

use crate::cancel_tokens::CancelTokens;
use crate::client::{Client, Hold};
use crate::clock::{Nanos, SECOND};
use crate::poller::{Handler, Next, Poller};
use crate::worker::{Load, Worker};

/// How long a stopped load may take to end its statements in the server.
pub const LONGEST_SHUTDOWN: Duration = Duration::from_secs(5);
/// Most statements of a load end within this time by themselves: each cancel request costs the
/// server a process.
const BY_ITSELF: Duration = Duration::from_millis(100);
/// Time between two requests for the same statement.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long to wait for the server at most before checking whether the clients have ended.
const LOOK_EVERY: Nanos = SECOND / 20;

/// The connections during the shutdown, as the poller sees them.
struct Shutdown<'l, 'a> {
    load: &'l mut Load<'a>,
    /// Indexed by connection: whether its statement is unanswered.
    held: &'l [AtomicBool],
    /// How many statements are unanswered.
    left: usize,
}

/// A statement that may be cancelled.
struct Held {
    connection: usize,
    cancel: CancelToken,
}

impl Shutdown<'_, '_> {
    fn is_held(&self, token: usize) -> bool {
        let held = self.held.get(token);
        held.is_some_and(|held| held.load(Ordering::Relaxed))
    }

    fn release_statement(&mut self, token: usize) {
        if let Some(held) = self.held.get(token)
            && held.swap(false, Ordering::Relaxed)
        {
            self.left -= 1;
        }
    }

    /// Closes the idle sessions; the others are closed when their statement is answered.
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

    /// Runs one step of the client of `token`, and encrypts the bytes that it sends.
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
        if !self.is_held(token) {
            return Next::Wait;
        }
        let Some((client, tls_sessions, shared)) = self.load.client_parts(token) else {
            return Next::Wait;
        };
        let next = tls_sessions.receive(token, bytes, client, shared);
        if !client.is_stopping() {
            self.release_statement(token);
        }
        next
    }

    fn handle_close(&mut self, token: usize, _why: Option<io::Error>) {
        self.release_statement(token);
    }

    fn outgoing(&self, token: usize) -> &[u8] {
        self.load.outgoing(token)
    }
}

impl<P: Poller> Worker<'_, P> {
    /// What each client still has to end.
    pub(super) fn holds(&self) -> Vec<(usize, Hold)> {
        let load = &self.load;
        let clients = load.clients.iter().enumerate();
        clients.filter_map(|(token, client)| Some((token, client.hold(&load.shared)?))).collect()
    }

    /// Ends `holds`; returns how many statements the server may still run.
    ///
    /// This does not change what was measured, but leaves the clients in another state.
    pub(super) fn shut_down(&mut self, holds: &[(usize, Hold)]) -> usize {
        if holds.is_empty() {
            return 0;
        }
        let held: Vec<AtomicBool> = (0..self.load.clients.len()).map(|_| AtomicBool::new(false)).collect();
        let params = &self.load.shared.run.spec.params;
        let (cancels, left) = hold_statements(holds, &held, &mut self.load.cancels);
        let mut shutdown = Shutdown { load: &mut self.load, held: &held, left };
        shutdown.end_sessions(holds, &mut self.poller);
        // a server that gave no keys cannot be asked to cancel
        let limit = if cancels.is_empty() { BY_ITSELF } else { LONGEST_SHUTDOWN };
        let deadline = Instant::now() + limit;
        let is_over = Arc::new(AtomicBool::new(false));
        let requests = Requests {
            params,
            cancels: &cancels,
            held: &held,
            patience: Patience::new(Some(deadline), Interrupt::by(Arc::clone(&is_over))),
        };
        thread::scope(|scope| {
            let (over, finished) = channel();
            if !cancels.is_empty() {
                let asking = thread::Builder::new().name("cancelling".into());
                // without the thread, statements are only waited for, and those that do not end are
                // reported
                let _ = asking.spawn_scoped(scope, move || requests.send(&finished));
            }
            wait_for(&mut self.poller, &mut shutdown, deadline);
            is_over.store(true, Ordering::Relaxed);
            drop(over);
        });
        shutdown.left
    }
}

/// Marks the connections with an unanswered statement in `held`. Returns the requests that can
/// cancel these statements, and how many statements there are.
fn hold_statements(holds: &[(usize, Hold)], held: &[AtomicBool], tokens: &mut CancelTokens) -> (Vec<Held>, usize) {
    let mut cancels = Vec::new();
    let mut left = 0;
    for (connection, _) in holds.iter().filter(|(_, hold)| *hold == Hold::Statement) {
        held[*connection].store(true, Ordering::Relaxed);
        left += 1;
        cancels.extend(tokens.take(*connection).map(|cancel| Held { connection: *connection, cancel }));
    }
    (cancels, left)
}

/// Serves the connections until no statement is left, at most until `deadline`.
fn wait_for<P: Poller>(poller: &mut P, shutdown: &mut Shutdown<'_, '_>, deadline: Instant) {
    // sends the ends of the idle sessions
    let mut served = poller.flush(shutdown);
    while served.is_ok() && shutdown.left > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let timeout = (left.as_nanos() as Nanos).min(LOOK_EVERY);
        let until = shutdown.load.shared.clock.now() + timeout;
        served = poller.wait(Some(until), shutdown);
    }
    if shutdown.left == 0 {
        // and the ends of those whose statements have ended
        let _ = poller.flush(shutdown);
    }
}

/// Cancel requests, repeated while the statements are unanswered.
struct Requests<'a> {
    params: &'a Params,
    cancels: &'a [Held],
    held: &'a [AtomicBool],
    patience: Patience,
}

impl Requests<'_> {
    /// Sends the requests until `finished` is closed.
    fn send(&self, finished: &Receiver<()>) {
        let mut wait = BY_ITSELF;
        while finished.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            let unanswered = self.cancels.iter().filter(|held| self.is_held(held));
            let unanswered: Vec<&Held> = unanswered.collect();
            let tokens: Vec<&CancelToken> = unanswered.iter().map(|held| &held.cancel).collect();
            let is_wanted = |number: usize| {
                let held = unanswered.get(number);
                held.is_some_and(|held| self.is_held(held))
            };
            // a request that could not be sent leaves its statement among those that are reported
            let _ = cancel_all(self.params, &tokens, is_wanted, &self.patience);
            wait = AGAIN_AFTER;
        }
    }

    fn is_held(&self, held: &Held) -> bool {
        self.held[held.connection].load(Ordering::Relaxed)
    }
}
