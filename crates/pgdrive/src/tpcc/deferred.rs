//! Deliveries for which the terminal does not wait (clause 2.7.2): the queue, and the sessions that carry them out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgdyno_connect::{CancelToken, Interrupt, Params, Patience, Session, SessionError};
use pgdyno_dataset::tpcc::DISTRICTS;
use pgdyno_dataset::tpcc::routines::Transaction;
use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::latencies::Latencies;

use crate::database_setup;
use crate::messages::Failure;

/// Nine of ten deliveries must complete within this time after they were queued (clause 5.2.5.6).
pub const LIMIT: Duration = Duration::from_secs(80);
/// How many clients share a session, and the most sessions.
const CLIENTS_A_SESSION: usize = 10;
const SESSIONS_MOST: usize = 32;
/// Time between two checks whether the load has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the server may take to accept a request to cancel a delivery.
const CANCELLING: Duration = Duration::from_secs(2);
const TRIES: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    pub warehouse: u32,
    pub carrier: u32,
    pub queued: Nanos,
}

/// The results of deliveries, without those that were queued before measuring began.
#[derive(Debug, Default)]
pub struct Delivered {
    pub latency: Latencies,
    pub skipped_districts: u64,
    /// Number of deliveries that the server refused, even after retries.
    pub failed: u64,
    pub left: u64,
}

impl Delivered {
    /// Percentage of all districts that had no open order.
    pub fn skipped_percent(&self) -> f64 {
        let districts = (self.latency.moments.count * DISTRICTS).max(1);
        self.skipped_districts as f64 / districts as f64 * 100.0
    }

    fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.skipped_districts += other.skipped_districts;
        self.failed += other.failed;
        self.left += other.left;
    }
}

/// The queue with the sessions that empty it.
#[derive(Debug)]
pub struct Deferred {
    sender: Sender<Delivery>,
    sessions: Vec<JoinHandle<Delivered>>,
    shared: Arc<DeferredState>,
}

#[derive(Debug)]
struct DeferredState {
    params: Params,
    queue: Mutex<Receiver<Delivery>>,
    clock: Clock,
    measured_from: AtomicU64,
    /// Set after the load: what is queued is still carried out.
    closing: AtomicBool,
    /// Set to give up the queue; also ends waits for the server.
    given_up: Arc<AtomicBool>,
}

impl Deferred {
    /// Connects enough sessions for a load with this many clients.
    pub fn start(params: &Params, clients: usize, clock: Clock) -> Result<Self, Failure> {
        let count = clients.div_ceil(CLIENTS_A_SESSION).min(SESSIONS_MOST);
        let (sender, receiver) = channel();
        let shared = Arc::new(DeferredState {
            params: params.clone(),
            queue: Mutex::new(receiver),
            clock,
            measured_from: AtomicU64::new(Nanos::MAX),
            closing: AtomicBool::new(false),
            given_up: Arc::default(),
        });
        let connected: Result<Vec<Session>, Failure> = (0..count).map(|_| database_setup::connect(params)).collect();
        let start = |mut session: Session| {
            let shared = Arc::clone(&shared);
            session.interrupt_by(Interrupt::by(Arc::clone(&shared.given_up)));
            thread::spawn(move || shared.carry_out(session))
        };
        let sessions = connected?.into_iter().map(start).collect();
        Ok(Self { sender, sessions, shared })
    }

    /// The end of the queue for terminals.
    pub fn sender(&self) -> Sender<Delivery> {
        self.sender.clone()
    }

    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    pub fn measure_from(&self, instant: Nanos) {
        self.shared.measured_from.store(instant, Ordering::Relaxed);
    }

    /// Waits until the queue is empty, at most for `patience`, and returns the results. A delivery
    /// that is still in progress then is cancelled.
    pub fn finish(self, patience: Duration) -> Delivered {
        self.shared.closing.store(true, Ordering::Relaxed);
        let end = Instant::now() + patience;
        while Instant::now() < end && self.sessions.iter().any(|session| !session.is_finished()) {
            thread::sleep(LOOK_EVERY);
        }
        self.shared.given_up.store(true, Ordering::Relaxed);
        let mut all = Delivered::default();
        for session in self.sessions {
            // no thread panics; if one did, its deliveries would be unknown and therefore not counted
            all.add(&session.join().unwrap_or_default());
        }
        all.left = self.shared.queue_length();
        all
    }
}

impl DeferredState {
    fn carry_out(&self, mut session: Session) -> Delivered {
        let cancel = session.cancel_token().cloned();
        let mut done = Delivered::default();
        while let Some(delivery) = self.next() {
            let outcome = self.deliver(&mut session, delivery);
            if matches!(outcome, Err(SessionError::Interrupted)) {
                self.cancel(cancel.as_ref());
            }
            if delivery.queued < self.measured_from.load(Ordering::Relaxed) {
                continue;
            }
            match outcome {
                Ok(skipped) => {
                    let now = self.clock.now();
                    done.latency.record(now.saturating_sub(delivery.queued));
                    done.skipped_districts += skipped;
                }
                Err(_) => done.failed += 1,
            }
        }
        let _ = session.close();
        done
    }

    fn cancel(&self, token: Option<&CancelToken>) {
        let patience = Patience::from(Some(Instant::now() + CANCELLING));
        if let Some(token) = token {
            // an unreachable server ends the delivery with the connection
            let _ = token.send(&self.params, &patience);
        }
    }

    /// The next delivery; None when the load has ended and the queue is empty, or when it is given up.
    fn next(&self) -> Option<Delivery> {
        loop {
            if self.given_up.load(Ordering::Relaxed) {
                return None;
            }
            let is_closing = self.closing.load(Ordering::Relaxed);
            let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            match queue.recv_timeout(LOOK_EVERY) {
                Ok(delivery) => return Some(delivery),
                Err(RecvTimeoutError::Timeout) if !is_closing => {}
                Err(_) => return None,
            }
        }
    }

    /// Carries out a delivery; returns how many districts had no open order.
    fn deliver(&self, session: &mut Session, delivery: Delivery) -> Result<u64, SessionError> {
        let Delivery { warehouse, carrier, .. } = delivery;
        let function = Transaction::Delivery.function();
        let sql = format!(
            "select count(*) filter (where o is null) + {DISTRICTS} - count(*) \
             from unnest({function}({warehouse}, {carrier})) o"
        );
        let mut tries = 1;
        loop {
            match session.query_one_value(&sql) {
                Ok(skipped) => return Ok(skipped.and_then(|text| text.parse().ok()).unwrap_or(0)),
                Err(error) => {
                    let state = error.sqlstate();
                    if tries == TRIES || !state.is_some_and(|state| state.is_retryable()) {
                        return Err(error);
                    }
                    tries += 1;
                }
            }
        }
    }

    fn queue_length(&self) -> u64 {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.try_iter().count() as u64
    }
}
