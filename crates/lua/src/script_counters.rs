//! Counters that scripts increment themselves with sysbench's `ffi.C.sb_counter_inc`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pgdyno_engine::recorder::Statements;

/// The counts of the client whose script runs, until the engine takes them.
#[derive(Debug, Default)]
pub(crate) struct ClientCounts {
    has_any: AtomicBool,
    counts: Mutex<Statements>,
}

impl ClientCounts {
    /// Adds to the counter with this number in sysbench's `sb_counter_type`. The engine itself counts transactions.
    pub fn add(&self, kind: u32, number: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match kind {
            0 => &mut counts.others,
            1 => &mut counts.reads,
            2 => &mut counts.writes,
            4 => &mut counts.ignored_errors,
            5 => &mut counts.reconnects,
            _ => return,
        };
        *count += number;
        self.has_any.store(true, Ordering::Relaxed);
    }

    /// Takes the counts since the last call; None if there are none.
    pub fn take(&self) -> Option<Statements> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        self.has_any.store(false, Ordering::Relaxed);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        Some(std::mem::take(&mut *counts))
    }
}
