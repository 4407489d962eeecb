//! Cancels what the server does for us when the load is to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgdyno_connect::{CancelToken, Cause, Interrupt, Params, Patience, Session, cancel_all};

use crate::initialize::load_progress::say;

/// How often the stop flag is looked at: a signal handler may not do more than set it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A request that comes between two statements has no effect, so it is sent again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// After this time of requests the server is taken to have no answer any more. Also the longest that
/// one of them may take.
const IN_VAIN_AFTER: Duration = Duration::from_secs(5);

/// Waits for the stop flag until it is dropped.
pub struct Canceller {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    requests: Requests,
    /// Set when the server was asked to end in vain.
    in_vain: Arc<AtomicBool>,
}

/// One for each session.
type Requests = Arc<Mutex<Vec<CancelToken>>>;

impl Canceller {
    /// Watches over no session yet; all of them are connected by `params`.
    pub fn start(params: &Params, stop: &Arc<AtomicBool>) -> Self {
        let (done, finished) = channel();
        let requests = Requests::default();
        let in_vain = Arc::new(AtomicBool::new(false));
        let (stop, watched) = (Arc::clone(stop), Arc::clone(&requests));
        let given_up = Arc::clone(&in_vain);
        let params = params.clone();
        let thread = thread::spawn(move || {
            watch(&params, &finished, &stop, &watched);
            given_up.store(true, Ordering::Relaxed);
        });
        Self {
            done: Some(done),
            thread: Some(thread),
            requests,
            in_vain,
        }
    }

    /// Watches over `session`, too. Where requests do not help, or cannot be made for want of the
    /// server's key, its waits are interrupted.
    pub fn watch(&self, session: &mut Session) {
        session.interrupt_by(Interrupt::by(Arc::clone(&self.in_vain)));
        if let Some(token) = session.cancel_token() {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.push(token.clone());
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
fn watch(params: &Params, finished: &Receiver<()>, stop: &AtomicBool, requests: &Requests) {
    let mut gives_up_at = None;
    let mut wait = LOOK_EVERY;
    while finished.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        if !stop.load(Ordering::Relaxed) {
            continue;
        }
        let is_first = gives_up_at.is_none();
        let deadline = *gives_up_at.get_or_insert_with(|| Instant::now() + IN_VAIN_AFTER);
        if Instant::now() >= deadline {
            return;
        }
        match send_all(params, requests, deadline) {
            Ok(false) => return,
            Ok(true) if is_first => say("Cancel request sent"),
            Err(cause) if is_first => say(&format!("Could not send cancel request: {cause}")),
            Ok(true) | Err(_) => {}
        }
        wait = AGAIN_AFTER;
    }
}

/// Sends the requests of all sessions; false when there are none.
fn send_all(params: &Params, requests: &Requests, deadline: Instant) -> Result<bool, Cause> {
    let tokens = requests
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let tokens: Vec<&CancelToken> = tokens.iter().collect();
    let patience = Patience::from(Some(deadline));
    cancel_all(params, &tokens, |_| true, &patience).map(|()| !tokens.is_empty())
}
