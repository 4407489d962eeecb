//! Cancels what the server does for us when the load is to stop.

use std::io::{self, Write};
use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgdyno_connect::{Host, Params, Place, Session, Stream, encrypt};
use pgdyno_wire::frontend;

use crate::initialize::progress::say;

/// How often the stop flag is looked at: a signal handler may not do more than set it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A request that comes between two statements has no effect, so it is sent again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long one address may take to accept a request.
const PATIENCE: Duration = Duration::from_secs(3);

/// Waits for the stop flag until it is dropped.
pub struct Canceller {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    params: Params,
    requests: Requests,
}

/// One for each session.
type Requests = Arc<Mutex<Vec<Request>>>;

impl Canceller {
    /// Watches over no session yet; all of them are connected by `params`.
    pub fn start(params: &Params, stop: &Arc<AtomicBool>) -> Self {
        let (done, finished) = channel();
        let requests = Requests::default();
        let (stop, watched) = (Arc::clone(stop), Arc::clone(&requests));
        Self {
            done: Some(done),
            thread: Some(thread::spawn(move || watch(&finished, &stop, &watched))),
            params: params.clone(),
            requests,
        }
    }

    /// Watches over this session, too. Without a key of the server there is nothing to do.
    pub fn watch(&self, session: &Session) {
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

fn watch(finished: &Receiver<()>, stop: &AtomicBool, requests: &Requests) {
    let mut wait = LOOK_EVERY;
    while finished.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        if !stop.load(Ordering::Relaxed) {
            continue;
        }
        let sent = send_all(requests);
        if wait == LOOK_EVERY {
            match sent {
                Ok(false) => {}
                Ok(true) => say("Cancel request sent"),
                Err(error) => say(&format!("Could not send cancel request: {error}")),
            }
        }
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
                    true => encrypt(&self.params, host, stream, deadline())
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
