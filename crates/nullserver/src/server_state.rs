//! The state that all threads of the server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use crate::answer_times::{Nanos, Stall, Timing};
use crate::answers::Answers;
use crate::connection::{Connection, SharedAnswers};
use crate::faults::Faults;
use crate::options::Options;

#[derive(Debug)]
pub(crate) struct ServerState {
    pub shared: SharedAnswers,
    pub timing: Timing,
    pub stop: Arc<AtomicBool>,
    started: Instant,
    connections: AtomicU32,
}

impl ServerState {
    pub fn new(options: &Options) -> Self {
        let stall = options.stall.map(|(at, lasts)| Stall::new(at, lasts));
        let faults = Faults::new(options.error_every, options.error_code, options.close_every);
        Self {
            shared: SharedAnswers { answers: Answers::new(options.scale), faults },
            timing: Timing::new(options.delay, stall),
            stop: Arc::new(AtomicBool::new(false)),
            started: Instant::now(),
            connections: AtomicU32::new(0),
        }
    }

    /// Nanoseconds since the server's start.
    pub fn now(&self) -> Nanos {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn connection(&self) -> Connection {
        Connection::new(self.connections.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
