//! What all sessions share: the options, the answers, and the counters of faults.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::answers::Answers;
use crate::options::Options;
use crate::refusal::{Refusal, refuse};

/// Nanoseconds since the server's start.
pub type Nanos = u64;

#[derive(Debug)]
pub struct Shared {
    pub options: Options,
    pub answers: Answers,
    pub sessions: AtomicU32,
    statements: AtomicU64,
    started: Instant,
    first_query: OnceLock<Nanos>,
}

impl Shared {
    pub fn new(options: Options) -> Self {
        Self {
            answers: Answers::new(options.scale),
            options,
            sessions: AtomicU32::new(0),
            statements: AtomicU64::new(0),
            started: Instant::now(),
            first_query: OnceLock::new(),
        }
    }

    /// Whether any answer waits, so that the clock has to be read.
    pub fn is_timed(&self) -> bool {
        !self.options.delay.is_zero() || self.options.stall.is_some()
    }

    pub fn now(&self) -> Nanos {
        nanos(self.started.elapsed())
    }

    /// When to answer a message that arrived at `now`: after the delay, and not in the stall, which is counted from the
    /// first message of any session. The start of a session also waits for a stall to end, but is not delayed.
    pub fn due(&self, now: Nanos, in_session: bool) -> Nanos {
        let due = if in_session { now + nanos(self.options.delay) } else { now };
        let Some((after, lasts)) = self.options.stall else {
            return due;
        };
        let first = if in_session { Some(self.first_query.get_or_init(|| now)) } else { self.first_query.get() };
        let Some(begin) = first.map(|first| first + nanos(after)) else {
            return due;
        };
        let end = begin + nanos(lasts);
        if (begin..end).contains(&due) { end } else { due }
    }

    /// Counts a statement of a load.
    ///
    /// # Errors
    /// The fault that falls on it, if any; closing takes precedence.
    #[inline]
    pub fn check_faults(&self) -> Result<(), Refusal> {
        let Options { error_every, error_code, close_every, .. } = self.options;
        if error_every.is_none() && close_every.is_none() {
            return Ok(());
        }
        let number = self.statements.fetch_add(1, Ordering::Relaxed) + 1;
        if close_every.is_some_and(|every| number.is_multiple_of(every.get())) {
            Err(Refusal::Close)
        } else if error_every.is_some_and(|every| number.is_multiple_of(every.get())) {
            refuse(error_code, "error on demand (--error-every)")
        } else {
            Ok(())
        }
    }
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::options;

    const MS: Nanos = 1_000_000;

    /// A server that stalls for 5 ms, 10 ms after the first query.
    fn stalling(delay_ms: u64) -> Shared {
        let args = format!("--listen=::1 --delay-us={delay_ms}000 --stall-at=0.01 --stall-for=0.005");
        Shared::new(options(&args).expect("good"))
    }

    #[test]
    fn answers_wait_for_the_delay_and_the_end_of_the_stall() {
        for (delay_ms, cases) in [
            (
                0,
                &[
                    (100, false, 100),
                    (200, true, 200),
                    (209, true, 209),
                    (210, true, 215),
                    (212, false, 215),
                    (215, true, 215),
                    (900, true, 900),
                ][..],
            ),
            // the time of an answer counts, not that of its message
            (2, &[(10, false, 10), (10, true, 12), (17, true, 19), (18, true, 25), (24, true, 26)]),
        ] {
            let shared = stalling(delay_ms);
            for &(now_ms, in_session, due_ms) in cases {
                assert_eq!(shared.due(now_ms * MS, in_session), due_ms * MS, "{now_ms}");
            }
        }
        // answers keep their order
        let shared = stalling(3);
        let due: Vec<Nanos> = (0..40).map(|ms| shared.due(ms * MS, true)).collect();
        assert!(due.is_sorted());
    }
}
