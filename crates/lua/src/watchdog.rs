//! Finds scripts that run on without a statement when the load is to be over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pgdyno_engine::clock::Nanos;

/// When one worker's state went into a script; 0 while it is not in one.
#[derive(Debug, Default)]
pub struct Watch {
    since: AtomicU64,
}

impl Watch {
    pub(crate) fn enter(&self, now: Nanos) {
        self.since.store(now.max(1), Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// How long it has been in a script at `now`.
    #[must_use]
    pub fn stuck(&self, now: Nanos) -> Nanos {
        match self.since.load(Ordering::Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        }
    }
}

/// When the main state went into the script: its functions that are no client's.
#[derive(Debug, Default)]
pub(crate) struct MainWatch(Mutex<Option<Instant>>);

impl MainWatch {
    pub fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// How long it has been there.
    pub fn stuck(&self) -> Nanos {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(0, |since| since.elapsed().as_nanos() as Nanos)
    }
}
