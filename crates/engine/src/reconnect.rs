//! Reconnecting after a lost connection: how long to wait, and which thread connects.
//!
//! Connecting may take long, and a worker has other clients to serve. So a few threads connect for
//! all workers, return the sockets, and write to a socket (the bell) that the poller watches.
//! Without the bell, an idle worker would notice a connection only when it next wakes up, up to 100
//! ms later: a terminated backend was replaced after 9 to 35 ms with the bell, and after 107 to 120
//! ms without it.

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

/// The longest wait before the first attempt.
const FIRST_WAIT: Nanos = SECOND / 100;
/// The longest wait between attempts.
const LONGEST_WAIT: Nanos = SECOND;
/// How many threads connect.
const THREADS: usize = 8;
/// Limit of one attempt at one address where `connect_timeout` sets none: otherwise a silent host
/// would occupy a thread for minutes.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The waits between the attempts of one client. Each is at most twice the one before, and drawn
/// from the upper half of that range, so that clients that were lost together do not reconnect in
/// step.
#[derive(Debug, Clone)]
pub struct Backoff {
    rng: Rng,
    longest: Nanos,
}

impl Backoff {
    /// For a client whose random numbers have the seed `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::seed(seed), longest: FIRST_WAIT }
    }

    /// The length of the next wait.
    pub fn next_wait(&mut self) -> Nanos {
        let wait = self.rng.range_u64(self.longest / 2, self.longest);
        self.longest = (self.longest * 2).min(LONGEST_WAIT);
        wait
    }
}

/// A client's absence, from its lost connection to its first success after that.
#[derive(Debug)]
pub struct Absence {
    /// Whether the client has a connection again.
    pub is_back: bool,
    /// The waits between attempts to reconnect.
    pub backoff: Backoff,
    /// When it lost its connection.
    pub since: Nanos,
    /// When it gives up: at the end of its patience or of the run.
    pub gives_up_at: Nanos,
    /// Whether the next transaction was drawn before the loss; it keeps its intended start.
    pub has_chosen: bool,
    /// Why the last attempt failed.
    pub refusal: Option<String>,
}

/// Whether the server ends the session after this error.
#[must_use]
pub fn ends_session(error: &ServerError) -> bool {
    let severity = error.severity_code.as_deref().unwrap_or(&error.severity);
    matches!(severity, "FATAL" | "PANIC")
}

/// Describes the end of a connection in the system's words, without the number that Rust adds;
/// `error` is None when the server closed it.
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
    /// The message in libpq's words.
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
    /// A failure after which another attempt may succeed.
    pub fn passing(error: impl std::fmt::Display) -> Self {
        Self { message: error.to_string(), is_transient: true }
    }
}

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Self {
        let is_transient = error.attempts.last().is_none_or(|last| is_transient(&last.cause));
        Self { message: error.to_string(), is_transient }
    }
}

/// Whether an attempt that failed for this reason may succeed a little later, without human
/// intervention.
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
        // a server that cannot fork, or one that closed in the middle of a message
        StartupError::Refused(_) | StartupError::Protocol(_) => true,
        _ => false,
    }
}

/// The result of a worker's request for a connection.
#[derive(Debug)]
pub struct Made {
    /// Number of the client within its worker.
    pub token: usize,
    /// When the worker requested it.
    pub since: Nanos,
    /// The socket, or the reason for the failure.
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
    /// Returns the result and wakes the worker.
    fn answer(self, result: Result<Transport, Refusal>) {
        let Self { token, since, reply, bell } = self;
        // a worker that has ended needs no connection, and one whose bell is full is awake
        if reply.send(Made { token, since, result }).is_ok() {
            let _ = (&*bell).write(&[0]);
        }
    }
}

/// The threads that connect, started when they are first needed.
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
    /// A connector that uses `params`.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        let mut params = params.clone();
        params.connect_timeout.get_or_insert(ATTEMPT_TIMEOUT);
        Self { common: Arc::new(Common { params, queue: Mutex::default(), wanted: Condvar::new() }) }
    }

    fn ask(&self, request: Request) {
        let mut queue = self.common.lock();
        queue.requests.push_back(request);
        if queue.requests.len() <= queue.idle || queue.threads == THREADS {
            self.common.wanted.notify_one();
            return;
        }
        let common = Arc::clone(&self.common);
        // not joined at the end, because it may be in a connect that takes long
        let started = thread::Builder::new().name(format!("connector-{}", queue.threads)).spawn(move || common.serve());
        match started {
            Ok(_) => queue.threads += 1,
            Err(error) if queue.threads == 0 => {
                let why = format!("could not start a thread that connects: {error}");
                if let Some(request) = queue.requests.pop_back() {
                    request.answer(Err(Refusal::passing(why)));
                }
            }
            // the other threads do the work
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
        // no code panics while it holds the lock, and the queue is consistent between any two
        // operations
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects until the connector is dropped.
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
            queue = self.wanted.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    fn connect(&self) -> Result<Transport, Refusal> {
        let session = Session::connect(&self.params)?;
        session.into_transport().map_err(Refusal::passing)
    }
}

/// What all workers share to connect clients during the load.
#[derive(Debug, Clone)]
pub struct Reconnecting {
    /// Outages over all workers; None when a lost connection is not replaced.
    pub outages: Option<Arc<OutageTracker>>,
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
    /// Returns also the socket that becomes readable whenever a connection is ready.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new(connector: Arc<Connector>) -> io::Result<(Self, UnixStream)> {
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let (replies, made) = channel();
        let dispatch = Self { connector, replies, made, bell: Arc::new(bell) };
        Ok((dispatch, heard))
    }

    /// Requests a connection.
    pub fn ask(&self, token: usize, since: Nanos) {
        self.connector.ask(Request { token, since, reply: self.replies.clone(), bell: Arc::clone(&self.bell) });
    }

    /// The next result, if there is one.
    pub fn take(&self) -> Option<Made> {
        self.made.try_recv().ok()
    }
}

#[cfg(test)]
mod tests;
