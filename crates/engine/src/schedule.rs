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

/// A part of the rate, which one worker has from an instant on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Nanoseconds on the engine's clock.
    pub from: f64,
    /// Of the rate of all workers, from 0 to 1.
    pub part: f64,
}

/// One worker's sequence of intended starts.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrivals: Arrivals,
    /// Share of the rate of all workers.
    part: f64,
    /// Mean gap for this worker, nanoseconds.
    gap: f64,
    next: f64,
    rng: Rng,
}

impl Schedule {
    /// The share of one worker of `workers`; `rng` draws the gaps.
    #[must_use]
    pub fn new(arrivals: Arrivals, workers: usize, rng: Rng) -> Self {
        let mut schedule = Self {
            arrivals,
            part: 0.0,
            gap: 0.0,
            next: 0.0,
            rng,
        };
        schedule.set_part(1.0 / workers as f64);
        schedule
    }

    fn set_part(&mut self, part: f64) {
        self.part = part;
        self.gap = match self.arrivals {
            Arrivals::Closed => 0.0,
            Arrivals::Regular { rate_per_s } | Arrivals::Poisson { rate_per_s } => {
                SECOND as f64 / (rate_per_s * part)
            }
        };
    }

    /// Gives `fraction` of this worker's starts to another, from the next that was not handed out
    /// yet: none is lost, none comes twice. Poisson arrivals of two workers are together Poisson
    /// arrivals of the same rate; regular ones are together regular when `fraction` is one half.
    pub fn give(&mut self, fraction: f64) -> Share {
        // behind the next start of a regular schedule, which stays here, comes the other's first
        let from = match self.arrivals {
            Arrivals::Regular { .. } => self.next + self.gap,
            Arrivals::Closed | Arrivals::Poisson { .. } => self.next,
        };
        let part = self.part * fraction;
        self.set_part(self.part - part);
        Share { from, part }
    }

    /// Takes what another gave.
    pub fn take(&mut self, share: Share) {
        self.next = share.from;
        self.set_part(share.part);
    }

    /// Counts from `origin`.
    pub fn begin(&mut self, origin: Nanos) {
        self.next = origin as f64;
    }

    /// Has no start before it takes some of another's.
    pub fn begin_with_nothing(&mut self) {
        self.next = f64::INFINITY;
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

    /// Starts of both from the split to `end`, in order.
    fn starts_of(schedules: &mut [Schedule], end: Nanos) -> Vec<Nanos> {
        let starts = schedules.iter_mut().flat_map(|schedule| {
            std::iter::repeat_with(|| schedule.next_start(0))
                .take_while(|&start| start < end)
                .collect::<Vec<_>>()
        });
        let mut starts: Vec<_> = starts.collect();
        starts.sort_unstable();
        starts
    }

    #[test]
    fn a_regular_schedule_in_halves_stays_regular() {
        let arrivals = Arrivals::Regular { rate_per_s: 1000.0 };
        let mut one = Schedule::new(arrivals, 1, Rng::seed(1));
        one.begin(0);
        let mut starts: Vec<_> = (0..10).map(|_| one.next_start(0)).collect();
        let mut other = Schedule::new(arrivals, 1, Rng::seed(2));
        other.take(one.give(0.5));
        starts.extend(starts_of(&mut [one, other], SECOND));
        let expected: Vec<_> = (0..1000).map(|n| n * SECOND / 1000).collect();
        assert_eq!(starts, expected);
    }

    #[test]
    fn a_poisson_schedule_keeps_its_rate_when_it_is_shared() {
        let arrivals = Arrivals::Poisson { rate_per_s: 1000.0 };
        let mut one = Schedule::new(arrivals, 1, Rng::seed(3));
        one.begin(0);
        let last = (0..1000).map(|_| one.next_start(0)).last().unwrap_or(0);
        let mut other = Schedule::new(arrivals, 1, Rng::seed(4));
        let share = one.give(0.25);
        // the next gap counts from the last start, whoever has it
        assert_eq!((share.from as Nanos, share.part), (last, 0.25));
        other.take(share);
        let end = last + 100 * SECOND;
        let theirs = starts_of(&mut [other.clone()], end).len() as f64;
        let all = starts_of(&mut [one, other], end).len() as f64;
        // standard deviations of 316 and 158
        assert!((all - 100_000.0).abs() < 2000.0, "{all}");
        assert!((theirs - 25_000.0).abs() < 1000.0, "{theirs}");
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
