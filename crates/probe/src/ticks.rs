//! When to sample: on a fixed grid, so that a late sample does not move the next one.

use std::time::{Duration, Instant};

use crate::probe_stop::Stop;

/// Instants at a fixed distance.
#[derive(Debug)]
pub struct Ticks {
    origin: Instant,
    period: Duration,
    next: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Number of the tick, from 0.
    pub number: u32,
    pub due: Instant,
    /// How many ticks before it were skipped because their time had passed.
    pub missed: u32,
}

impl Ticks {
    pub fn new(origin: Instant, period: Duration) -> Self {
        Self { origin, period, next: 0 }
    }

    /// Waits for the next tick; None if the probe ends.
    pub fn wait(&mut self, stop: &Stop) -> Option<Tick> {
        let tick = self.next(Instant::now());
        (!stop.sleep_until(tick.due)).then_some(tick)
    }

    /// The next tick that is late by less than a period, or in the future.
    pub fn next(&mut self, now: Instant) -> Tick {
        let planned = self.next;
        let passed = now.saturating_duration_since(self.origin).as_nanos() / self.period.as_nanos();
        let number = planned.max(u32::try_from(passed).unwrap_or(u32::MAX));
        self.next = number.saturating_add(1);
        Tick { number, due: self.origin + self.period * number, missed: number - planned }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_tick_is_taken_and_what_has_passed_is_missed() {
        let origin = Instant::now();
        let at = |ms| origin + Duration::from_millis(ms);
        let mut ticks = Ticks::new(origin, Duration::from_millis(100));
        let mut next = |now| {
            let tick = ticks.next(now);
            (tick.number, tick.due, tick.missed)
        };
        assert_eq!(next(at(0)), (0, at(0), 0));
        assert_eq!(next(at(30)), (1, at(100), 0));
        assert_eq!(next(at(150)), (2, at(200), 0));
        // late by 70 ms: still used
        assert_eq!(next(at(370)), (3, at(300), 0));
        assert_eq!(next(at(710)), (7, at(700), 3));
        assert_eq!(next(at(711)), (8, at(800), 0));
    }
}
