//! When the phases of a run change, and its intervals end.

use crate::clock::{Nanos, SECOND};
use crate::interval::{ErrorNote, Phase};

/// When phases change.
#[derive(Debug, Clone)]
pub struct Timetable {
    /// The instant of the first transaction.
    pub origin: Nanos,
    /// End of the warm-up; `origin` without one.
    pub measure: Nanos,
    /// End of measuring; None when transactions are counted.
    pub deadline: Option<Nanos>,
    /// The phases of a run with phases, from `origin` to `deadline` without gaps.
    pub planned: Vec<Planned>,
}

/// A phase of the plan, as a period.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    pub from: Nanos,
    pub to: Nanos,
    /// Whether the phase counts in the results.
    pub result: bool,
}

impl Timetable {
    pub fn counts(&self, note: &ErrorNote) -> bool {
        match note.planned {
            Some(number) => self.planned[number].result,
            None => note.at >= self.measure,
        }
    }

    pub fn phase(&self, instant: Nanos) -> (Phase, Nanos) {
        if let Some(number) = self.planned(instant) {
            let planned = self.planned[number];
            return if planned.result { (Phase::Measure, planned.from) } else { (Phase::WarmUp, planned.from) };
        }
        match self.deadline {
            _ if instant < self.measure => (Phase::WarmUp, self.origin),
            Some(deadline) if instant >= deadline => (Phase::Drain, deadline),
            _ => (Phase::Measure, self.measure),
        }
    }

    /// Number of the plan's phase at `instant`; None without phases, and after the last one.
    pub fn planned(&self, instant: Nanos) -> Option<usize> {
        let number = self.planned.partition_point(|each| each.to <= instant);
        (number < self.planned.len()).then_some(number)
    }

    /// The end of the interval that begins at `from`: a second on the phase's grid, or the end of the phase.
    pub fn interval_end(&self, from: Nanos) -> Nanos {
        let (phase, began) = self.phase(from);
        let tick = began + ((from - began) / SECOND + 1) * SECOND;
        if let Some(number) = self.planned(from) {
            return tick.min(self.planned[number].to);
        }
        match (phase, self.deadline) {
            (Phase::WarmUp, _) => tick.min(self.measure),
            (Phase::Measure, Some(deadline)) => tick.min(deadline),
            _ => tick,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_cut_where_phases_change() {
        let timetable =
            Timetable { origin: 100, measure: 100 + SECOND * 3 / 2, deadline: Some(100 + SECOND * 4), planned: vec![] };
        let mut ends = vec![];
        let mut at = timetable.origin;
        for _ in 0..7 {
            at = timetable.interval_end(at);
            ends.push((at - 100) as f64 / SECOND as f64);
        }
        assert_eq!(ends, [1.0, 1.5, 2.5, 3.5, 4.0, 5.0, 6.0]);
        assert_eq!(timetable.phase(100).0, Phase::WarmUp);
        assert_eq!(timetable.phase(timetable.measure).0, Phase::Measure);
        assert_eq!(timetable.phase(100 + SECOND * 4).0, Phase::Drain);
        // without a deadline measuring goes on
        let timetable = Timetable { origin: 5, measure: 5, deadline: None, planned: vec![] };
        assert_eq!(timetable.interval_end(5), 5 + SECOND);
        assert_eq!(timetable.phase(500 * SECOND), (Phase::Measure, 5));
    }

    #[test]
    fn intervals_are_cut_where_the_plans_phases_meet() {
        let planned = |from, to, result| Planned { from, to, result };
        let timetable = Timetable {
            origin: 7,
            measure: 7,
            deadline: Some(7 + SECOND * 3),
            planned: vec![
                planned(7, 7 + SECOND / 2, false),
                planned(7 + SECOND / 2, 7 + SECOND * 2, true),
                planned(7 + SECOND * 2, 7 + SECOND * 3, true),
            ],
        };
        let mut at = timetable.origin;
        let mut seen = vec![];
        for _ in 0..5 {
            seen.push((timetable.planned(at), timetable.phase(at).0));
            at = timetable.interval_end(at);
        }
        assert_eq!(
            seen,
            [
                (Some(0), Phase::WarmUp),
                (Some(1), Phase::Measure),
                (Some(1), Phase::Measure),
                (Some(2), Phase::Measure),
                (None, Phase::Drain),
            ]
        );
    }
}
