//! Deliveries that the terminal does not wait for (clause 2.7.2): a queue, and who carries them out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgdyno_connect::{CancelToken, Interrupt, Params, Patience, Session, SessionError};
use pgdyno_dataset::tpcc::DISTRICTS;
use pgdyno_dataset::tpcc::routines::Transaction;
use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::recorder::Latencies;

use crate::database_setup;
use crate::messages::Failure;

/// Nine of ten deliveries must be complete within this after they were queued (clause 5.2.5.6).
pub const LIMIT: Duration = Duration::from_secs(80);
/// Sessions: one for so many clients, and the most.
const CLIENTS_A_SESSION: usize = 10;
const SESSIONS_MOST: usize = 32;
/// Between two looks whether the load is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the server may take to accept that a delivery is to be cancelled.
const CANCELLING: Duration = Duration::from_secs(2);
/// Times that one delivery is tried.
const TRIES: u32 = 3;

/// A delivery that is due.
#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    pub warehouse: u32,
    pub carrier: u32,
    /// When the terminal asked for it.
    pub queued: Nanos,
}

/// What came of them; those that were queued before measuring began are left out.
#[derive(Debug, Default)]
pub struct Delivered {
    /// From the queue to the commit.
    pub latency: Latencies,
    /// Districts that had no open order.
    pub skipped_districts: u64,
    /// Refused by the server, even when tried again.
    pub failed: u64,
    /// Still in the queue when the load was over.
    pub left: u64,
}

impl Delivered {
    /// Share of all districts that had no open order, percent.
    #[must_use]
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
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    params: Params,
    queue: Mutex<Receiver<Delivery>>,
    clock: Clock,
    measured_from: AtomicU64,
    /// The load is over: what is queued is still carried out.
    closing: AtomicBool,
    /// No more of it; a wait for the server ends, too.
    given_up: Arc<AtomicBool>,
}

impl Deferred {
    /// Connects enough sessions for a load of so many clients.
    ///
    /// # Errors
    /// The server refuses one.
    pub fn start(params: &Params, clients: usize, clock: Clock) -> Result<Self, Failure> {
        let count = clients.div_ceil(CLIENTS_A_SESSION).min(SESSIONS_MOST);
        let (sender, receiver) = channel();
        let shared = Arc::new(Shared {
            params: params.clone(),
            queue: Mutex::new(receiver),
            clock,
            measured_from: AtomicU64::new(Nanos::MAX),
            closing: AtomicBool::new(false),
            given_up: Arc::default(),
        });
        let connected: Result<Vec<Session>, Failure> = (0..count)
            .map(|_| database_setup::connect(params))
            .collect();
        let start = |mut session: Session| {
            let shared = Arc::clone(&shared);
            session.interrupt_by(Interrupt::by(Arc::clone(&shared.given_up)));
            thread::spawn(move || shared.carry_out(session))
        };
        let sessions = connected?.into_iter().map(start).collect();
        Ok(Self {
            sender,
            sessions,
            shared,
        })
    }

    /// Where terminals put deliveries.
    #[must_use]
    pub fn sender(&self) -> Sender<Delivery> {
        self.sender.clone()
    }

    /// Sessions that carry them out.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Those queued from this instant on count.
    pub fn measure_from(&self, instant: Nanos) {
        self.shared.measured_from.store(instant, Ordering::Relaxed);
    }

    /// Waits until the queue is empty, at most so long, and gives what was done. A delivery that is
    /// under way then is cancelled.
    #[must_use]
    pub fn finish(self, patience: Duration) -> Delivered {
        self.shared.closing.store(true, Ordering::Relaxed);
        let end = Instant::now() + patience;
        while Instant::now() < end && self.sessions.iter().any(|session| !session.is_finished()) {
            thread::sleep(LOOK_EVERY);
        }
        self.shared.given_up.store(true, Ordering::Relaxed);
        let mut all = Delivered::default();
        for session in self.sessions {
            // none of them panics; if one did, what it had done is unknown and so not counted
            all.add(&session.join().unwrap_or_default());
        }
        all.left = self.shared.left();
        all
    }
}

impl Shared {
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

    /// Ends a delivery that is not waited for any longer.
    fn cancel(&self, token: Option<&CancelToken>) {
        let patience = Patience::from(Some(Instant::now() + CANCELLING));
        if let Some(token) = token {
            // a server that cannot be reached ends it with the connection
            let _ = token.send(&self.params, &patience);
        }
    }

    /// The next delivery; None when the load is over and the queue is empty, or it is given up.
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

    /// Gives how many districts had no open order.
    fn deliver(&self, session: &mut Session, delivery: Delivery) -> Result<u64, SessionError> {
        let Delivery {
            warehouse, carrier, ..
        } = delivery;
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

    fn left(&self) -> u64 {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.try_iter().count() as u64
    }
}
