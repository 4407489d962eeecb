//! Finds scripts that keep running without a statement after the end of the load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pgdyno_engine::clock::Nanos;

/// When one worker entered a script; 0 while it is in none.
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

    /// How long the worker has been in a script at `now`.
    #[must_use]
    pub fn stuck(&self, now: Nanos) -> Nanos {
        match self.since.load(Ordering::Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        }
    }
}

/// When the main state entered the script, for functions that belong to no client.
#[derive(Debug, Default)]
pub(crate) struct MainWatch(Mutex<Option<Instant>>);

impl MainWatch {
    pub fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// How long the main state has been in the script.
    pub fn stuck(&self) -> Nanos {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(0, |since| since.elapsed().as_nanos() as Nanos)
    }
}
