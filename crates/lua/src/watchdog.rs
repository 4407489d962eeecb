//! Finds scripts that keep running without a statement after the end of the load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether one worker, or the main state, is in a script, and whether it has left it since the last look.
///
/// Looks are counted instead of time. A worker runs many clients one after the other for one reading of its clock,
/// which may take seconds, and a machine that stands still for seconds stops scripts and looks alike.
#[derive(Debug, Default)]
pub struct Watch {
    /// Twice the number of visits to scripts; odd during a visit.
    visits: AtomicU64,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    visits: u64,
    /// Looks in a row that found this visit.
    looks: u32,
}

impl Watch {
    pub(crate) fn enter(&self) {
        let visits = self.visits.load(Ordering::Relaxed);
        self.visits.store((visits & !1) + 3, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        let visits = self.visits.load(Ordering::Relaxed);
        self.visits.store(visits & !1, Ordering::Relaxed);
    }

    /// How many looks in a row, this one included, have found the same visit to a script.
    pub fn look(&self) -> u32 {
        let visits = self.visits.load(Ordering::Relaxed);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = visits == last.visits;
        last.looks = match visits & 1 {
            0 => 0,
            _ if is_same => last.looks + 1,
            _ => 1,
        };
        last.visits = visits;
        last.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_counted_within_one_visit() {
        let watch = Watch::default();
        assert_eq!(watch.look(), 0);
        for _ in 0..3 {
            watch.enter();
            assert_eq!(watch.look(), 1);
            watch.leave();
        }
        watch.enter();
        assert_eq!([watch.look(), watch.look(), watch.look()], [1, 2, 3]);
        watch.leave();
        assert_eq!(watch.look(), 0);
    }
}
