//! When transactions are meant to begin: absolute instants, never "sleep again".

use pgdyno_script::Rng;

use crate::clock::{Nanos, SECOND};

/// Starts that nobody took are drawn one by one up to this number, and estimated beyond: an absurd
/// rate must not keep the engine from ending.
const MOST_DRAWN: u64 = 1_000_000;

/// How transactions arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// A client starts its next transaction when the last one has ended.
    Closed,
    /// Every 1/rate seconds, whatever the server does.
    Regular {
        /// Transactions a second over all workers.
        rate_per_s: f64,
    },
    /// Exponentially distributed gaps with mean 1/rate, as independent users make them.
    Poisson {
        /// Transactions a second over all workers.
        rate_per_s: f64,
    },
}

/// One worker's sequence of intended starts.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrivals: Arrivals,
    /// Mean gap for this worker, nanoseconds.
    gap: f64,
    next: f64,
    rng: Rng,
}

impl Schedule {
    /// The share of one worker of `workers`; `rng` draws the gaps.
    #[must_use]
    pub fn new(arrivals: Arrivals, workers: usize, rng: Rng) -> Self {
        let gap = match arrivals {
            Arrivals::Closed => 0.0,
            Arrivals::Regular { rate_per_s } | Arrivals::Poisson { rate_per_s } => {
                SECOND as f64 * workers as f64 / rate_per_s
            }
        };
        Self {
            arrivals,
            gap,
            next: 0.0,
            rng,
        }
    }

    /// Counts from `origin`.
    pub fn begin(&mut self, origin: Nanos) {
        self.next = origin as f64;
    }

    /// The next intended start: `now` in a closed loop.
    pub fn next_start(&mut self, now: Nanos) -> Nanos {
        match self.arrivals {
            Arrivals::Closed => now,
            Arrivals::Regular { .. } => {
                let at = self.next;
                self.next += self.gap;
                at as Nanos
            }
            Arrivals::Poisson { .. } => {
                // 1 - u is in (0, 1], so that the logarithm is finite
                self.next += -(1.0 - self.rng.next_f64()).ln() * self.gap;
                self.next as Nanos
            }
        }
    }

    /// How many intended starts are left up to `until`; they are used up. None in a closed loop.
    pub fn overdue(&mut self, until: Nanos) -> u64 {
        if !self.is_open() {
            return 0;
        }
        let mut count = 0;
        while count < MOST_DRAWN {
            if self.next_start(until) > until {
                return count;
            }
            count += 1;
        }
        count + ((until as f64 - self.next) / self.gap).max(0.0) as u64
    }

    /// Whether starts come from a rate.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.arrivals != Arrivals::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_starts_now() {
        let mut schedule = Schedule::new(Arrivals::Closed, 1, Rng::seed(1));
        assert_eq!(schedule.next_start(17), 17);
        assert!(!schedule.is_open());
    }

    #[test]
    fn regular_starts_do_not_drift() {
        let mut schedule = Schedule::new(Arrivals::Regular { rate_per_s: 3.0 }, 1, Rng::seed(1));
        schedule.begin(100);
        let starts: Vec<_> = (0..301).map(|_| schedule.next_start(0)).collect();
        assert_eq!(starts[0], 100);
        assert!(starts[300].abs_diff(100 + 100 * SECOND) < 1000);
    }

    #[test]
    fn what_is_left_of_a_schedule_is_counted() {
        let mut schedule = Schedule::new(Arrivals::Regular { rate_per_s: 10.0 }, 1, Rng::seed(1));
        schedule.begin(0);
        let taken = schedule.next_start(0);
        // 0 is taken: 0.1, 0.2 … 1.0 are left
        assert_eq!((taken, schedule.overdue(SECOND)), (0, 10));
        let mut closed = Schedule::new(Arrivals::Closed, 1, Rng::seed(1));
        assert_eq!(closed.overdue(SECOND), 0);
    }

    #[test]
    fn poisson_keeps_its_rate_shared_over_workers() {
        let arrivals = Arrivals::Poisson { rate_per_s: 1000.0 };
        let mut schedule = Schedule::new(arrivals, 4, Rng::seed(7));
        schedule.begin(0);
        let last = (0..25_000)
            .map(|_| schedule.next_start(0))
            .last()
            .unwrap_or(0);
        // 25,000 gaps of 4 ms: the sum's standard deviation is 0.63 %
        let expected = 100.0 * SECOND as f64;
        assert!((last as f64 - expected).abs() < 0.03 * expected);
    }
}
