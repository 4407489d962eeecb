//! Cancels what the server does for us when the load is to stop.

use std::io::{self, Write};
use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgdyno_connect::{Host, Interrupt, Params, Place, Session, Stream, encrypt};
use pgdyno_wire::frontend;

use crate::initialize::progress::say;

/// How often the stop flag is looked at: a signal handler may not do more than set it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A request that comes between two statements has no effect, so it is sent again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// After this time of requests the server is taken to have no answer any more.
const IN_VAIN_AFTER: Duration = Duration::from_secs(5);
/// How long one address may take to accept a request.
const PATIENCE: Duration = Duration::from_secs(3);

/// Waits for the stop flag until it is dropped.
pub struct Canceller {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    params: Params,
    requests: Requests,
    /// Set when the server was asked to end in vain.
    in_vain: Arc<AtomicBool>,
}

/// One for each session.
type Requests = Arc<Mutex<Vec<Request>>>;

impl Canceller {
    /// Watches over no session yet; all of them are connected by `params`.
    pub fn start(params: &Params, stop: &Arc<AtomicBool>) -> Self {
        let (done, finished) = channel();
        let requests = Requests::default();
        let in_vain = Arc::new(AtomicBool::new(false));
        let (stop, watched) = (Arc::clone(stop), Arc::clone(&requests));
        let given_up = Arc::clone(&in_vain);
        let thread = thread::spawn(move || {
            watch(&finished, &stop, &watched);
            given_up.store(true, Ordering::Relaxed);
        });
        Self {
            done: Some(done),
            thread: Some(thread),
            params: params.clone(),
            requests,
            in_vain,
        }
    }

    /// Watches over `session`, too. Where requests do not help, or cannot be made for want of the
    /// server's key, its waits are interrupted.
    pub fn watch(&self, session: &mut Session) {
        session.interrupt_by(Interrupt::by(Arc::clone(&self.in_vain)));
        if let Some(request) = request(&self.params, session) {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.push(request);
        }
    }
}

impl Drop for Canceller {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            // a request under way is brought to its end, so that what it says comes before our end
            let _ = thread.join();
        }
    }
}

/// Returns when the work is finished, or when it was asked to end in vain.
fn watch(finished: &Receiver<()>, stop: &AtomicBool, requests: &Requests) {
    let mut first = None;
    let mut wait = LOOK_EVERY;
    while finished.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        if !stop.load(Ordering::Relaxed) {
            continue;
        }
        let is_in_vain = first.is_some_and(|at: Instant| at.elapsed() > IN_VAIN_AFTER);
        let sent = send_all(requests);
        if is_in_vain || matches!(sent, Ok(false)) {
            return;
        }
        if first.is_none() {
            match sent {
                Ok(_) => say("Cancel request sent"),
                Err(error) => say(&format!("Could not send cancel request: {error}")),
            }
        }
        first.get_or_insert_with(Instant::now);
        wait = AGAIN_AFTER;
    }
}

/// Sends the requests of all sessions; false when there are none. The first failure counts.
fn send_all(requests: &Requests) -> io::Result<bool> {
    let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
    let mut outcome = Ok(!requests.is_empty());
    for request in requests.iter() {
        let sent = request.send();
        if outcome.is_ok() {
            outcome = sent.map(|()| true);
        }
    }
    outcome
}

/// A CancelRequest and where it may go. It holds the session's secret, hence no Debug.
struct Request {
    params: Params,
    /// It goes as the session's own messages did.
    is_encrypted: bool,
    message: Vec<u8>,
}

fn request(params: &Params, session: &Session) -> Option<Request> {
    let key = session.cancel_key()?;
    let mut message = Vec::new();
    frontend::cancel_request(&mut message, key.pid, &key.key).ok()?;
    Some(Request {
        params: params.clone(),
        is_encrypted: session.is_encrypted(),
        message,
    })
}

impl Request {
    /// Sends it to every host: a server ignores a key that is not of its own session.
    fn send(&self) -> io::Result<()> {
        let mut outcome = Err(io::Error::other("no host could be reached"));
        for host in &self.params.hosts {
            let sent = self.send_to(host);
            if outcome.is_err() {
                outcome = sent;
            }
        }
        outcome
    }

    fn send_to(&self, host: &Host) -> io::Result<()> {
        let deadline = || Some(Instant::now() + PATIENCE);
        if let Some(path) = host.socket() {
            return self.send_over(Stream::connect_unix(&path, deadline())?);
        }
        let name = match &host.place {
            Place::Address { address, .. } => address.clone(),
            _ => host.display(),
        };
        let mut outcome = Err(io::Error::other("the host has no address"));
        for address in (name.as_str(), host.port).to_socket_addrs()? {
            outcome = Stream::connect_tcp(address, deadline(), &self.params.keepalives)
                .and_then(|stream| match self.is_encrypted {
                    true => encrypt(&self.params, host, stream, &deadline().into())
                        .map_err(|cause| io::Error::other(cause.to_string())),
                    false => Ok(stream),
                })
                .and_then(|stream| self.send_over(stream));
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn send_over(&self, mut stream: Stream) -> io::Result<()> {
        stream.write_all(&self.message)?;
        stream.flush()?;
        // the server closes when it has passed the request on; it says nothing
        stream.wait(false, Some(Instant::now() + PATIENCE))
    }
}
