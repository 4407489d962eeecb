//! Coming back after a lost connection: how long to wait, and who connects.
//!
//! Connecting may take long, and a worker has other clients to serve: a few threads of the engine's
//! own connect for all workers, hand the sockets back, and ring the bell that the poller watches.
//! Without the bell a client would have its connection up to 100 ms late, when its idle worker next
//! wakes up: a backend that was terminated was replaced after 9 to 35 ms with it, 107 to 120 ms without.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pgdyno_connect::{Cause, ConnectError, Params, Session, Transport};
use pgdyno_script::Rng;
use pgdyno_wire::{ServerError, SqlState, StartupError};

use crate::clock::{Nanos, SECOND};
use crate::outage::OutageTracker;

/// Wait before the first attempt, at most.
const FIRST_WAIT: Nanos = SECOND / 100;
/// Wait between attempts, at most.
const LONGEST_WAIT: Nanos = SECOND;
/// Threads that connect.
const THREADS: usize = 8;
/// Limit of one attempt at one address where `connect_timeout` sets none: without it, a host that
/// has gone silent would keep a thread for minutes.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The waits between the attempts of one client: each up to twice the one before, and between half
/// of that and all of it, so that clients that were lost together do not come back in step.
#[derive(Debug, Clone)]
pub struct Backoff {
    rng: Rng,
    longest: Nanos,
}

impl Backoff {
    /// For a client with random numbers from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::seed(seed),
            longest: FIRST_WAIT,
        }
    }

    /// The next wait.
    pub fn next_wait(&mut self) -> Nanos {
        let wait = self.rng.range_u64(self.longest / 2, self.longest);
        self.longest = (self.longest * 2).min(LONGEST_WAIT);
        wait
    }
}

/// From a client's lost connection to its first success after that.
#[derive(Debug)]
pub struct Absence {
    /// Whether it has a connection again.
    pub is_back: bool,
    /// Its waits between attempts.
    pub backoff: Backoff,
    /// When it lost its connection.
    pub since: Nanos,
    /// The end of its patience, or of the run.
    pub gives_up_at: Nanos,
    /// Whether the next transaction was drawn before: it keeps its intended start.
    pub has_chosen: bool,
    /// Why the last attempt failed.
    pub refusal: Option<String>,
}

/// Whether the server's error ends its session.
#[must_use]
pub fn ends_session(error: &ServerError) -> bool {
    let severity = error.severity_code.as_deref().unwrap_or(&error.severity);
    matches!(severity, "FATAL" | "PANIC")
}

/// How a connection ended, in the system's words without the number that Rust adds; `error` is None
/// when the server closed it.
#[must_use]
pub fn describe_disconnect(error: Option<&io::Error>) -> String {
    let Some(error) = error else {
        return "server closed the connection unexpectedly".to_owned();
    };
    let text = error.to_string();
    match (error.raw_os_error(), text.rfind(" (os error ")) {
        (Some(_), Some(at)) => text[..at].to_owned(),
        _ => text,
    }
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The message of libpq.
    pub message: String,
    /// Whether another attempt may succeed.
    pub is_transient: bool,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// One after which another attempt may succeed.
    pub fn passing(error: impl std::fmt::Display) -> Self {
        Self {
            message: error.to_string(),
            is_transient: true,
        }
    }
}

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Self {
        let is_transient = error
            .attempts
            .last()
            .is_none_or(|last| is_transient(&last.cause));
        Self {
            message: error.to_string(),
            is_transient,
        }
    }
}

/// Whether what failed for this reason may work a little later, with nothing changed by hand.
fn is_transient(cause: &Cause) -> bool {
    let error = match cause {
        Cause::Startup { error, .. } => error,
        Cause::WrongPeer(_) => return false,
        _ => return true,
    };
    match error {
        StartupError::Server(error) => !matches!(
            error.sqlstate(),
            SqlState::INVALID_PASSWORD
                | SqlState::INVALID_AUTHORIZATION_SPECIFICATION
                | SqlState::INVALID_CATALOG_NAME
                | SqlState::INSUFFICIENT_PRIVILEGE
        ),
        // a server that cannot fork, or one that broke off in the midst
        StartupError::Refused(_) | StartupError::Protocol(_) => true,
        _ => false,
    }
}

/// A connection that a worker asked for.
#[derive(Debug)]
pub struct Made {
    /// Its client, as the worker counts.
    pub token: usize,
    /// When it was asked for.
    pub since: Nanos,
    /// The socket, or why there is none.
    pub result: Result<Transport, Refusal>,
}

#[derive(Debug)]
struct Request {
    token: usize,
    since: Nanos,
    reply: Sender<Made>,
    bell: Arc<UnixStream>,
}

impl Request {
    /// Hands the result over and wakes the worker.
    fn answer(self, result: Result<Transport, Refusal>) {
        let Self {
            token,
            since,
            reply,
            bell,
        } = self;
        // a worker that is gone needs no connection, and one whose bell is full is awake
        if reply
            .send(Made {
                token,
                since,
                result,
            })
            .is_ok()
        {
            let _ = (&*bell).write(&[0]);
        }
    }
}

/// Threads that connect, started when they are first needed.
#[derive(Debug)]
pub struct Connector {
    common: Arc<Common>,
}

#[derive(Debug)]
struct Common {
    params: Params,
    queue: Mutex<Queue>,
    wanted: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<Request>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Connector {
    /// Connects as `params` say.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        let mut params = params.clone();
        params.connect_timeout.get_or_insert(ATTEMPT_TIMEOUT);
        Self {
            common: Arc::new(Common {
                params,
                queue: Mutex::default(),
                wanted: Condvar::new(),
            }),
        }
    }

    fn ask(&self, request: Request) {
        let mut queue = self.common.lock();
        queue.requests.push_back(request);
        if queue.requests.len() <= queue.idle || queue.threads == THREADS {
            self.common.wanted.notify_one();
            return;
        }
        let common = Arc::clone(&self.common);
        // not waited for at the end: it may sit in a connect that takes long
        let started = thread::Builder::new()
            .name(format!("connector-{}", queue.threads))
            .spawn(move || common.serve());
        match started {
            Ok(_) => queue.threads += 1,
            Err(error) if queue.threads == 0 => {
                let why = format!("could not start a thread that connects: {error}");
                if let Some(request) = queue.requests.pop_back() {
                    request.answer(Err(Refusal::passing(why)));
                }
            }
            // there are others
            Err(_) => {}
        }
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        let mut queue = self.common.lock();
        queue.is_closed = true;
        queue.requests.clear();
        self.common.wanted.notify_all();
    }
}

impl Common {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // nothing panics with the lock held, and a queue is whole between any two steps
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects until the connector is gone.
    fn serve(&self) {
        while let Some(request) = self.next_request() {
            let result = self.connect();
            request.answer(result);
        }
    }

    fn next_request(&self) -> Option<Request> {
        let mut queue = self.lock();
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(request) = queue.requests.pop_front() {
                return Some(request);
            }
            queue.idle += 1;
            queue = self
                .wanted
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    fn connect(&self) -> Result<Transport, Refusal> {
        let session = Session::connect(&self.params)?;
        session.into_transport().map_err(Refusal::passing)
    }
}

/// What all workers share of coming back.
#[derive(Debug, Clone)]
pub struct Reconnecting {
    /// Outages over all workers.
    pub outages: Arc<OutageTracker>,
    /// Connects for all workers.
    pub connector: Arc<Connector>,
}

/// A worker's end of the connector.
#[derive(Debug)]
pub struct Dispatch {
    connector: Arc<Connector>,
    replies: Sender<Made>,
    made: Receiver<Made>,
    bell: Arc<UnixStream>,
}

impl Dispatch {
    /// With the socket on which bytes come whenever a connection is there to be taken.
    ///
    /// # Errors
    /// When the system has no descriptors.
    pub fn new(connector: Arc<Connector>) -> io::Result<(Self, UnixStream)> {
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (replies, made) = channel();
        let dispatch = Self {
            connector,
            replies,
            made,
            bell: Arc::new(bell),
        };
        Ok((dispatch, heard))
    }

    /// Asks for a connection.
    pub fn ask(&self, token: usize, since: Nanos) {
        self.connector.ask(Request {
            token,
            since,
            reply: self.replies.clone(),
            bell: Arc::clone(&self.bell),
        });
    }

    /// One that is there, or could not be made.
    pub fn take(&self) -> Option<Made> {
        self.made.try_recv().ok()
    }
}

#[cfg(test)]
mod tests;
