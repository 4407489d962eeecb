//! Cancels what the server does for us when the load is to stop.

use std::io::{self, Write};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
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
}

impl Canceller {
    /// Watches over `session`, which was connected by `params`. Where requests do not help, or
    /// cannot be made for want of the server's key, the session's waits are interrupted.
    pub fn start(params: &Params, session: &mut Session, stop: &Arc<AtomicBool>) -> Self {
        let (done, finished) = channel();
        let request = request(params, session);
        let given_up = Arc::new(AtomicBool::new(false));
        session.interrupt_by(Interrupt::by(Arc::clone(&given_up)));
        let stop = Arc::clone(stop);
        let thread = thread::spawn(move || {
            watch(&finished, &stop, request.as_ref());
            given_up.store(true, Ordering::Relaxed);
        });
        Self {
            done: Some(done),
            thread: Some(thread),
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
fn watch(finished: &Receiver<()>, stop: &AtomicBool, request: Option<&Request>) {
    let mut first = None;
    let mut wait = LOOK_EVERY;
    while finished.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        if !stop.load(Ordering::Relaxed) {
            continue;
        }
        let is_in_vain = first.is_some_and(|at: Instant| at.elapsed() > IN_VAIN_AFTER);
        let Some(request) = request.filter(|_| !is_in_vain) else {
            return;
        };
        let sent = request.send();
        if first.is_none() {
            match sent {
                Ok(()) => say("Cancel request sent"),
                Err(error) => say(&format!("Could not send cancel request: {error}")),
            }
        }
        first.get_or_insert_with(Instant::now);
        wait = AGAIN_AFTER;
    }
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
