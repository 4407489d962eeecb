//! Cancels the program's statements in the server when the load is to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgdyno_connect::{CancelToken, Cause, Interrupt, Params, Patience, Session, cancel_all};

use crate::initialize::load_progress::print_line;

/// How often the stop flag is checked: a signal handler may do no more than set it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time after which a request is repeated, because one that arrives between two statements has no effect.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// After requests for this long, the server counts as unresponsive. Also the longest time for one request.
const IN_VAIN_AFTER: Duration = Duration::from_secs(5);

/// Watches the stop flag until it is dropped.
pub struct Canceller {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    requests: Requests,
    /// Set when the server did not end the statements.
    in_vain: Arc<AtomicBool>,
}

/// One token for each session.
type Requests = Arc<Mutex<Vec<CancelToken>>>;

impl Canceller {
    /// Starts to watch without a session; all sessions will be connected with `params`.
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
        Self { done: Some(done), thread: Some(thread), requests, in_vain }
    }

    /// Adds `session`. Where requests do not help, or cannot be made because the server gave no
    /// key, the session's waits are interrupted.
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
            // waits for a request in progress, so that its messages come before the end of the program
            let _ = thread.join();
        }
    }
}

/// Returns when the work is finished, or when the server did not end the statements.
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
            Ok(true) if is_first => print_line("Cancel request sent"),
            Err(cause) if is_first => print_line(&format!("Could not send cancel request: {cause}")),
            Ok(true) | Err(_) => {}
        }
        wait = AGAIN_AFTER;
    }
}

/// Sends the requests for all sessions; returns false when there are none.
fn send_all(params: &Params, requests: &Requests, deadline: Instant) -> Result<bool, Cause> {
    let tokens = requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
    cancel_all(params, &tokens, &Patience::from(Some(deadline))).map(|()| !tokens.is_empty())
}
