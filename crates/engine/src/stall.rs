//! Stalls: periods in which no transaction of any client succeeded.

use crate::clock::{Nanos, SECOND};

pub const SHORTEST: Nanos = SECOND / 100;
/// The shortest piece that is reported of a stall that continues over the end of an interval.
const SHORTEST_PIECE: Nanos = SECOND / 1000;

/// A period from one success to the next, since the engine's start.
pub type Stretch = (Nanos, Nanos);

/// The stalls of a worker that were not reported yet.
#[derive(Debug, Default)]
pub struct Stalls {
    last_success: Nanos,
    ended: Vec<Stretch>,
}

impl Stalls {
    pub fn begin(&mut self, now: Nanos) {
        self.last_success = now;
    }

    #[inline]
    pub fn record_success(&mut self, now: Nanos) {
        if now.saturating_sub(self.last_success) >= SHORTEST {
            self.ended.push((self.last_success, now));
        }
        self.last_success = now;
    }

    /// The parts of the stalls within an interval, in order.
    pub fn within(&self, from: Nanos, to: Nanos) -> Vec<Stretch> {
        let goes_on = (self.last_success, to);
        let all = self.ended.iter().copied().chain([goes_on]);
        all.map(|(begin, end)| (begin.max(from), end.min(to)))
            .filter(|(begin, end)| *end >= *begin + SHORTEST_PIECE)
            .collect()
    }

    /// Forgets the stalls that were reported, which ended by `to`. After a pause of the generator, a
    /// success in a later interval may have ended a stall before the interval up to `to` was reported.
    pub fn forget(&mut self, to: Nanos) {
        self.ended.retain(|(_, end)| *end > to);
    }
}

/// The intersection of two lists; both, and the result, are in order and without overlaps.
pub fn common(one: &[Stretch], other: &[Stretch]) -> Vec<Stretch> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::new();
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let (begin, end) = (a.0.max(b.0), a.1.min(b.1));
        if begin < end {
            both.push((begin, end));
        }
        if a.1 < b.1 {
            one.next();
        } else {
            other.next();
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = SECOND / 1000;

    #[test]
    fn a_lull_is_cut_where_intervals_meet() {
        let mut stalls = Stalls::default();
        stalls.begin(5 * MS);
        stalls.record_success(14 * MS);
        stalls.record_success(30 * MS);
        assert_eq!(stalls.within(0, 100 * MS), [(14 * MS, 30 * MS), (30 * MS, 100 * MS)]);
        stalls.forget(100 * MS);
        stalls.record_success(150 * MS);
        assert_eq!(stalls.within(100 * MS, 150 * MS), [(100 * MS, 150 * MS)]);
        stalls.forget(150 * MS);
        assert!(stalls.within(150 * MS, 150 * MS).is_empty());
        // intervals that are reported late share a lull
        let mut stalls = Stalls::default();
        stalls.begin(0);
        stalls.record_success(5 * MS);
        // the worker itself did not run until now, and two intervals have ended in the meantime
        stalls.record_success(250 * MS);
        stalls.record_success(265 * MS);
        let mut reported = Vec::new();
        for to in [100 * MS, 200 * MS, 300 * MS] {
            reported.extend(stalls.within(to - 100 * MS, to));
            stalls.forget(to);
        }
        let whole = (5 * MS, 100 * MS);
        let rest = [(100 * MS, 200 * MS), (200 * MS, 250 * MS), (250 * MS, 265 * MS), (265 * MS, 300 * MS)];
        assert_eq!(reported, [&[whole], &rest[..]].concat());
    }

    #[test]
    fn nobody_is_served_when_no_worker_serves() {
        let one = [(0, 10), (20, 50), (60, 70)];
        let other = [(5, 30), (40, 65)];
        let both = [(5, 10), (20, 30), (40, 50), (60, 65)];
        assert_eq!(common(&one, &other), both);
        assert_eq!(common(&other, &one), both);
        assert!(common(&one, &[]).is_empty());
    }
}
