//! Injected faults: errors and closed connections after a given number of statements.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use pgdyno_wire::SqlState;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// None: it is answered.
    None,
    /// It fails with this code.
    Error(SqlState),
    /// Its connection is closed without an answer.
    Close,
}

/// Counts the statements of all connections.
#[derive(Debug)]
pub struct Faults {
    error_every: Option<NonZeroU64>,
    code: SqlState,
    close_every: Option<NonZeroU64>,
    seen: AtomicU64,
}

impl Faults {
    /// An error with `code` for every `error_every`-th statement, and a closed connection for every
    /// `close_every`-th, which takes precedence.
    pub fn new(error_every: Option<NonZeroU64>, code: SqlState, close_every: Option<NonZeroU64>) -> Self {
        Self { error_every, code, close_every, seen: AtomicU64::new(0) }
    }

    #[inline]
    pub fn next(&self) -> Fault {
        if self.error_every.is_none() && self.close_every.is_none() {
            return Fault::None;
        }
        let number = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        let due = |every: Option<NonZeroU64>| every.is_some_and(|n| number.is_multiple_of(n.get()));
        if due(self.close_every) {
            Fault::Close
        } else if due(self.error_every) {
            Fault::Error(self.code)
        } else {
            Fault::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_fails_and_every_fifth_is_closed() {
        let code = SqlState::SERIALIZATION_FAILURE;
        let faults = Faults::new(NonZeroU64::new(3), code, NonZeroU64::new(5));
        let met: Vec<Fault> = (0..15).map(|_| faults.next()).collect();
        for (at, fault) in met.iter().enumerate() {
            let expected = match at + 1 {
                5 | 10 | 15 => Fault::Close,
                3 | 6 | 9 | 12 => Fault::Error(code),
                _ => Fault::None,
            };
            assert_eq!(*fault, expected, "statement {}", at + 1);
        }
    }

    #[test]
    fn nothing_fails_unless_asked() {
        let faults = Faults::new(None, SqlState::SERIALIZATION_FAILURE, None);
        assert!((0..100).all(|_| faults.next() == Fault::None));
    }
}
