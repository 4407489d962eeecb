//! Connects a worker's clients before the load begins, several at a time.
//!
//! The server forks and authenticates while the client waits, so these waits overlap. Each
//! connection is still made by one blocking session, as with libpq.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use pgdyno_connect::{Params, Session, Transport};

use crate::error::RunError;

/// How many connections one worker makes at the same time: enough to keep a server's cores busy
/// with new backends, few enough for its queue of connections.
const AT_ONCE: usize = 4;

/// A connected client's position in its worker's share, and its socket.
type Connected = (usize, Transport);

/// Connects the clients numbered in `share`; `take` receives each of them when it is connected,
/// with its position.
///
/// # Errors
/// The failure of the lowest client that failed, or `take`'s own; [`RunError::Interrupted`] when
/// `stop` was set meanwhile.
pub fn connect_clients(
    params: &Params,
    share: &[usize],
    stop: &AtomicBool,
    mut take: impl FnMut(usize, Transport) -> io::Result<()>,
) -> Result<(), RunError> {
    let next = AtomicUsize::new(0);
    let given_up = AtomicBool::new(false);
    let queue = Queue { params, next: &next, share, stop, given_up: &given_up };
    thread::scope(|scope| {
        let (sender, connected) = channel();
        for _ in 0..AT_ONCE.min(share.len()) {
            let sender = sender.clone();
            thread::Builder::new()
                .name("connecting".into())
                .spawn_scoped(scope, move || queue.connect(&sender))
                .map_err(RunError::System)?;
        }
        drop(sender);
        let mut failures = Vec::new();
        for result in connected {
            let taken =
                result.and_then(|(at, transport)| take(at, transport).map_err(|error| (at, RunError::System(error))));
            if let Err(failure) = taken {
                given_up.store(true, Ordering::Relaxed);
                failures.push(failure);
            }
        }
        // the others may have failed because of the first one, for example at a limit of
        // connections
        failures.sort_by_key(|(at, _)| *at);
        match failures.into_iter().next() {
            Some((_, failure)) => Err(failure),
            None if stop.load(Ordering::Relaxed) => Err(RunError::Interrupted),
            None => Ok(()),
        }
    })
}

/// The clients that are still to be connected, shared by several threads.
#[derive(Clone, Copy)]
struct Queue<'a> {
    params: &'a Params,
    next: &'a AtomicUsize,
    /// Numbers of the clients.
    share: &'a [usize],
    stop: &'a AtomicBool,
    given_up: &'a AtomicBool,
}

impl Queue<'_> {
    /// Connects clients until none is left or one fails.
    fn connect(self, sender: &Sender<Result<Connected, (usize, RunError)>>) {
        while !self.stop.load(Ordering::Relaxed) && !self.given_up.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(client) = self.share.get(at) else {
                return;
            };
            let connected = connect(self.params, *client).map(|stream| (at, stream));
            let failed = connected.is_err();
            let sent = sender.send(connected.map_err(|error| (at, error)));
            if failed || sent.is_err() {
                return;
            }
        }
    }
}

fn connect(params: &Params, client: usize) -> Result<Transport, RunError> {
    let mut session = Session::connect(params).map_err(|error| {
        if error.is_interrupted() {
            return RunError::Interrupted;
        }
        RunError::Connect { client, error: Box::new(error) }
    })?;
    session.print_notices();
    session.into_transport().map_err(|error| RunError::System(io::Error::other(error)))
}
