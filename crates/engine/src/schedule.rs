//! The intended starts of transactions, as absolute instants; there is no "sleep again".

use pgdyno_script::Rng;

use crate::clock::{Nanos, SECOND};
use crate::phases::Phases;

/// How many unstarted starts are drawn one by one; more are estimated, so that an absurd rate ends.
const MOST_DRAWN: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// A client starts its next transaction when the last one has ended.
    Closed,
    /// At regular intervals of 1/rate seconds, whatever the server does.
    Regular {
        /// Transactions per second over all workers.
        rate_per_s: f64,
    },
    /// Exponentially distributed gaps with mean 1/rate, as independent users make them.
    Poisson {
        /// Transactions per second over all workers.
        rate_per_s: f64,
    },
    /// At the rates of the run's phases.
    Phased(Spacing),
    /// When the clients' drivers say: see [`crate::driver::Step`].
    Driven,
}

impl Arrivals {
    /// The same arrivals at a fraction of the rate. With phases, the phases have the fraction.
    pub fn at_fraction(self, fraction: f64) -> Self {
        match self {
            Self::Closed | Self::Phased(_) | Self::Driven => self,
            Self::Regular { rate_per_s } => Self::Regular { rate_per_s: rate_per_s * fraction },
            Self::Poisson { rate_per_s } => Self::Poisson { rate_per_s: rate_per_s * fraction },
        }
    }
}

/// How starts are spaced at a given rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    Regular,
    /// With exponential gaps, as independent users arrive.
    Poisson,
}

/// The instant of a start that never comes; low enough that the latency limit can be added.
pub const NEVER: Nanos = Nanos::MAX / 2;

#[derive(Debug, Clone)]
pub struct Schedule<'a> {
    arrivals: Arrivals,
    phases: Option<&'a Phases>,
    worker: usize,
    workers: usize,
    origin: Nanos,
    /// Mean gap between this worker's starts, in nanoseconds.
    gap: f64,
    /// Regular: the offset of the first start from the origin, as a fraction of a gap.
    turn: f64,
    /// Regular: starts so far; at rates of phases, the last point of this worker's Poisson process of rate 1.
    drawn: f64,
    next: f64,
    rng: Rng,
    /// See [`Turn::shift`].
    shift: f64,
}

/// Which of the evenly spaced starts of a load are a worker's.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    pub worker: usize,
    pub workers: usize,
    /// By how much of a gap of the whole engine its starts come later, so that several generators take turns.
    pub shift: f64,
}

impl<'a> Schedule<'a> {
    /// The share of the worker with this `turn`; `rng` draws gaps, `phases` have the rates of [`Arrivals::Phased`].
    pub fn new(arrivals: Arrivals, phases: Option<&'a Phases>, turn: Turn, rng: Rng) -> Self {
        let Turn { worker, workers, shift } = turn;
        let gap = match arrivals {
            Arrivals::Closed | Arrivals::Phased(_) | Arrivals::Driven => 0.0,
            Arrivals::Regular { rate_per_s } | Arrivals::Poisson { rate_per_s } => {
                SECOND as f64 * workers as f64 / rate_per_s
            }
        };
        Self {
            arrivals,
            phases,
            worker,
            workers,
            origin: 0,
            gap,
            // workers take turns, so that the starts of the whole engine are evenly spaced
            turn: (worker as f64 + shift) / workers as f64,
            drawn: 0.0,
            next: 0.0,
            rng,
            shift,
        }
    }

    pub fn begin(&mut self, origin: Nanos) {
        self.origin = origin;
        self.next = origin as f64;
    }

    pub fn origin(&self) -> Nanos {
        self.origin
    }

    /// The next intended start: `now` in a closed loop, [`NEVER`] when the phases have no more.
    pub fn next_start(&mut self, now: Nanos) -> Nanos {
        match self.arrivals {
            Arrivals::Closed | Arrivals::Driven => now,
            Arrivals::Regular { .. } => {
                self.next = self.origin as f64 + (self.drawn + self.turn) * self.gap;
                self.drawn += 1.0;
                // at a very low rate, the next start may be beyond the clock's last instant
                (self.next as Nanos).min(NEVER)
            }
            Arrivals::Poisson { .. } => {
                self.next += self.exponential() * self.gap;
                (self.next as Nanos).min(NEVER)
            }
            Arrivals::Phased(spacing) => self.next_of_phases(spacing),
        }
    }

    /// How many intended starts are left until `until`; this uses them up. None in a closed loop, or if drivers know.
    pub fn overdue(&mut self, until: Nanos) -> u64 {
        let mut count = 0;
        while count < MOST_DRAWN {
            if self.next_start(until) >= until {
                return count;
            }
            count += 1;
        }
        count + ((until as f64 - self.next) / self.gap).max(0.0) as u64
    }

    /// The same by phase, for a run with phases.
    pub fn overdue_by_phase(&mut self, until: Nanos) -> Vec<u64> {
        let (Arrivals::Phased(spacing), Some(phases)) = (self.arrivals, self.phases) else {
            return vec![self.overdue(until)];
        };
        let mut counts = vec![0; phases.specs().len()];
        for _ in 0..MOST_DRAWN {
            let start = self.next_of_phases(spacing);
            if start >= until {
                return counts;
            }
            counts[phases.at(start - self.origin)] += 1;
        }
        let drawn = self.drawn * self.workers as f64;
        let until = until.saturating_sub(self.origin);
        for (number, count) in counts.iter_mut().enumerate() {
            let (from, to) = phases.bounds(number);
            let before = phases.starts_by(from).max(drawn);
            let rest = phases.starts_by_end(number, to.min(until)) - before;
            *count += (rest / self.workers as f64).max(0.0) as u64;
        }
        counts
    }

    /// Maps a process of rate 1 to the integral of the rate, which is exact for a changing rate.
    /// (Çinlar, Introduction to Stochastic Processes, 1975: time-rescaling by inversion)
    fn next_of_phases(&mut self, spacing: Spacing) -> Nanos {
        let starts = match spacing {
            Spacing::Regular => {
                let turn = self.drawn * self.workers as f64 + self.worker as f64 + self.shift;
                self.drawn += 1.0;
                turn
            }
            Spacing::Poisson => {
                self.drawn += self.exponential();
                self.drawn * self.workers as f64
            }
        };
        let when = self.phases.and_then(|phases| phases.when(starts));
        when.map_or(NEVER, |when| self.origin + when)
    }

    fn exponential(&mut self) -> f64 {
        // 1 - u is in (0, 1], so that the logarithm is finite
        -(1.0 - self.rng.next_f64()).ln()
    }

    /// Whether starts have an intended instant.
    pub fn is_open(&self) -> bool {
        self.arrivals != Arrivals::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::PhaseSpec;

    fn turn(worker: usize, workers: usize) -> Turn {
        Turn { worker, workers, shift: 0.0 }
    }

    fn alone(arrivals: Arrivals) -> Schedule<'static> {
        Schedule::new(arrivals, None, turn(0, 1), Rng::seed(1))
    }

    #[test]
    fn regular_starts_do_not_drift_and_closed_ones_are_now() {
        let mut schedule = alone(Arrivals::Regular { rate_per_s: 3.0 });
        schedule.begin(100);
        assert_eq!(schedule.origin(), 100);
        let starts: Vec<_> = (0..301).map(|_| schedule.next_start(0)).collect();
        assert_eq!(starts[0], 100);
        assert!(starts[300].abs_diff(100 + 100 * SECOND) < 1000);
        let mut schedule = alone(Arrivals::Closed);
        assert_eq!(schedule.next_start(17), 17);
        assert!(!schedule.is_open());
        // a rate beyond the clock never starts
        let rate_per_s = 1e-12;
        for arrivals in [Arrivals::Regular { rate_per_s }, Arrivals::Poisson { rate_per_s }] {
            let mut schedule = alone(arrivals);
            schedule.begin(SECOND);
            let starts: Vec<_> = (0..100).map(|_| schedule.next_start(0)).collect();
            assert_eq!(starts.last(), Some(&NEVER), "{arrivals:?}");
        }
    }

    #[test]
    fn what_is_left_of_a_schedule_is_counted() {
        let mut schedule = alone(Arrivals::Regular { rate_per_s: 10.0 });
        schedule.begin(0);
        let taken = schedule.next_start(0);
        // the start at 0 was taken: 0.1, 0.2 … 0.9 are left, and 1.0 belongs to the next second
        assert_eq!((taken, schedule.overdue(SECOND)), (0, 9));
        for arrivals in [Arrivals::Closed, Arrivals::Driven] {
            assert_eq!(alone(arrivals).overdue(SECOND), 0);
        }
        // most of a flood is estimated
        let flood = Arrivals::Regular { rate_per_s: 1e9 };
        let mut schedule = Schedule::new(flood, None, turn(0, 2), Rng::seed(1));
        schedule.begin(SECOND);
        assert!(schedule.overdue(11 * SECOND).abs_diff(5 * SECOND) <= 1);
    }

    #[test]
    fn workers_and_engines_take_turns_with_regular_starts() {
        let arrivals = Arrivals::Regular { rate_per_s: 1000.0 };
        let mut starts = vec![];
        for worker in 0..3 {
            let mut schedule = Schedule::new(arrivals, None, turn(worker, 3), Rng::seed(1));
            schedule.begin(50);
            starts.extend((0..100).map(|_| schedule.next_start(0)));
        }
        starts.sort_unstable();
        assert_eq!(starts[0], 50);
        for pair in starts.windows(2) {
            assert!((pair[1] - pair[0]).abs_diff(SECOND / 1000) <= 1, "{pair:?}");
        }
        // engines do as workers do
        let phases = Phases::new(vec![phase(10, 100.0, 100.0)]);
        for arrivals in [Arrivals::Regular { rate_per_s: 100.0 }, Arrivals::Phased(Spacing::Regular)] {
            let mut starts: Vec<Nanos> = vec![];
            for (engine, worker) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
                let turn = Turn { shift: f64::from(engine) / 3.0, ..turn(worker, 2) };
                let mut schedule = Schedule::new(arrivals, Some(&phases), turn, Rng::seed(1));
                schedule.begin(50);
                starts.extend((0..50).map(|_| schedule.next_start(0)));
            }
            starts.sort_unstable();
            for pair in starts.windows(2) {
                assert!((pair[1] - pair[0]).abs_diff(SECOND / 300) <= 1, "{pair:?}");
            }
        }
    }

    #[test]
    fn poisson_keeps_its_rate_shared_over_workers() {
        let arrivals = Arrivals::Poisson { rate_per_s: 1000.0 };
        let mut schedule = Schedule::new(arrivals, None, turn(1, 4), Rng::seed(7));
        schedule.begin(0);
        let starts: Vec<_> = (0..25_000).map(|_| schedule.next_start(0)).collect();
        // 25,000 gaps of 4 ms: the sum's standard deviation is 0.63 %
        let expected = 100.0 * SECOND as f64;
        assert!((starts[24_999] as f64 - expected).abs() < 0.03 * expected);
        // of exponential gaps, 1 - 1/e = 0.632 are shorter than the mean; standard deviation 0.003
        let short = starts.windows(2).filter(|pair| pair[1] - pair[0] < 4 * SECOND / 1000).count();
        assert!((15_300..16_300).contains(&short), "{short}");
        // a generator has a fraction of the rate
        let (whole, part) = (40.0, 10.0);
        assert_eq!(Arrivals::Regular { rate_per_s: whole }.at_fraction(0.25), Arrivals::Regular { rate_per_s: part });
        assert_eq!(Arrivals::Poisson { rate_per_s: whole }.at_fraction(0.25), Arrivals::Poisson { rate_per_s: part });
    }

    fn phase(seconds: u32, from: f64, to: f64) -> PhaseSpec {
        crate::phases::tests::phase(f64::from(seconds), (from, to), (1.0, 1.0))
    }

    fn up_pause_down() -> Phases {
        Phases::new(vec![phase(10, 0.0, 2000.0), phase(5, 0.0, 0.0), phase(4, 2000.0, 1000.0)])
    }

    fn all_starts(phases: &Phases, spacing: Spacing, seed: u64) -> Vec<Nanos> {
        let mut starts = vec![];
        for worker in 0..2 {
            let rng = Rng::seed(seed + worker as u64);
            let mut schedule = Schedule::new(Arrivals::Phased(spacing), Some(phases), turn(worker, 2), rng);
            schedule.begin(7);
            let of_worker = std::iter::repeat_with(|| schedule.next_start(0));
            starts.extend(of_worker.take_while(|start| *start < NEVER));
        }
        starts.sort_unstable();
        starts
    }

    #[test]
    fn counts_of_a_poisson_ramp_are_those_of_its_integral() {
        let phases = up_pause_down();
        for seed in [1, 20, 300] {
            let starts = all_starts(&phases, Spacing::Poisson, seed);
            // each second of each phase, compared with the integral over it
            for second in 0..19 {
                let (from, to) = (second * SECOND, (second + 1) * SECOND);
                let expected = phases.starts_by(to) - phases.starts_by(from);
                let inside = |start: &&Nanos| (from..to).contains(&(**start - 7));
                let count = starts.iter().filter(inside).count() as f64;
                assert!((count - expected).abs() <= 5.0 * expected.sqrt(), "second {second}: {count} for {expected}");
            }
        }
    }

    #[test]
    fn what_is_left_is_told_by_phase_however_much_it_is() {
        let phases = up_pause_down();
        let arrivals = Arrivals::Phased(Spacing::Regular);
        let origin = 3 * SECOND;
        let mut schedule = Schedule::new(arrivals, Some(&phases), turn(0, 1), Rng::seed(1));
        schedule.begin(origin);
        for _ in 0..9000 {
            schedule.next_start(0);
        }
        assert_eq!(schedule.clone().overdue_by_phase(30 * SECOND), [1000, 0, 6000]);
        // by 17 s: 2000 x 2 - 250 x 2 x 2 / 2
        assert_eq!(schedule.overdue_by_phase(origin + 17 * SECOND), [1000, 0, 3500]);
        let flood = Phases::new(vec![phase(10, 1e9, 1e9)]);
        for workers in [1, 2] {
            let mut schedule = Schedule::new(arrivals, Some(&flood), turn(0, workers), Rng::seed(1));
            schedule.begin(origin);
            assert_eq!(schedule.overdue_by_phase(origin + 5 * SECOND), [5_000_000_000 / workers as u64]);
        }
    }

    #[test]
    fn regular_starts_follow_a_ramp_without_chance() {
        let phases = up_pause_down();
        let starts = all_starts(&phases, Spacing::Regular, 1);
        assert_eq!(starts.len(), 10_000 + 6000);
        for (number, start) in starts.iter().enumerate() {
            let by_then = phases.starts_by(start - 7);
            assert!((by_then - number as f64).abs() < 0.01, "{number}: {by_then}");
        }
        let in_pause = |start: &&Nanos| (10 * SECOND..15 * SECOND).contains(&(**start - 7));
        assert_eq!(starts.iter().filter(in_pause).count(), 0);
    }
}
