//! When an answer is sent: immediately, after a delay, or after a stall.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds since the server's start.
pub type Nanos = u64;

/// A period without answers, counted from the first query on any connection.
#[derive(Debug)]
pub struct Stall {
    begins_after: Nanos,
    lasts: Nanos,
    /// When the first query arrived; 0 before.
    first_query: AtomicU64,
}

impl Stall {
    /// A stall of length `lasts` that begins `begins_after` the first query.
    pub fn new(begins_after: Duration, lasts: Duration) -> Self {
        Self { begins_after: nanos(begins_after), lasts: nanos(lasts), first_query: AtomicU64::new(0) }
    }

    /// Records that a query arrived at `now`. Only the first one matters.
    pub fn query_at(&self, now: Nanos) {
        if self.first_query.load(Ordering::Relaxed) == 0 {
            let _ = self.first_query.compare_exchange(0, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// When an answer is sent that would be sent at `due`: at the end of the stall if that is within it.
    pub fn release(&self, due: Nanos) -> Nanos {
        let first = self.first_query.load(Ordering::Relaxed);
        if first == 0 {
            return due;
        }
        let begin = first.saturating_add(self.begins_after);
        let end = begin.saturating_add(self.lasts);
        if (begin..end).contains(&due) { end } else { due }
    }
}

#[derive(Debug)]
pub struct Timing {
    delay: Nanos,
    stall: Option<Stall>,
}

impl Timing {
    /// Sends every answer `delay` after its query, but not during the stall.
    pub fn new(delay: Duration, stall: Option<Stall>) -> Self {
        Self { delay: nanos(delay), stall }
    }

    /// Whether every answer is sent immediately, so that the clock need not be read.
    #[inline]
    pub fn is_immediate(&self) -> bool {
        self.delay == 0 && self.stall.is_none()
    }

    /// When to answer a message that arrived at `now`; `now` itself means immediately. The start of
    /// a session also waits for a stall to end, but is not delayed.
    pub fn due(&self, now: Nanos, in_session: bool) -> Nanos {
        let delay = if in_session { self.delay } else { 0 };
        let due = now.saturating_add(delay);
        match &self.stall {
            None => due,
            Some(stall) => {
                if in_session {
                    stall.query_at(now);
                }
                stall.release(due)
            }
        }
    }
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn stalling(delay_ms: u64) -> Timing {
        let stall = Stall::new(Duration::from_millis(10), Duration::from_millis(5));
        Timing::new(Duration::from_millis(delay_ms), Some(stall))
    }

    #[test]
    fn a_stall_holds_what_falls_within_until_its_end() {
        let timing = stalling(0);
        assert_eq!(timing.due(100 * MS, false), 100 * MS);
        assert_eq!(timing.due(200 * MS, true), 200 * MS);
        assert_eq!(timing.due(209 * MS, true), 209 * MS);
        assert_eq!(timing.due(210 * MS, true), 215 * MS);
        assert_eq!(timing.due(212 * MS, false), 215 * MS);
        assert_eq!(timing.due(215 * MS, true), 215 * MS);
        assert_eq!(timing.due(900 * MS, true), 900 * MS);
    }

    #[test]
    fn a_delay_is_added_to_answers_but_not_to_starts() {
        let timing = stalling(2);
        assert_eq!(timing.due(10 * MS, false), 10 * MS);
        assert_eq!(timing.due(10 * MS, true), 12 * MS);
        assert_eq!(timing.due(17 * MS, true), 19 * MS);
        // its time is within the stall
        assert_eq!(timing.due(18 * MS, true), 25 * MS);
        assert_eq!(timing.due(24 * MS, true), 26 * MS);
        assert!(!timing.is_immediate());
    }

    #[test]
    fn answers_keep_their_order() {
        let timing = stalling(3);
        let due: Vec<Nanos> = (0..40).map(|ms| timing.due(ms * MS, true)).collect();
        assert!(due.is_sorted());
    }
}
