//! A load that changes over time: phases with rates, clients and weights of their own.

use std::time::Duration;

use crate::clock::{Nanos, SECOND};

/// A number that changes linearly over a phase; both ends are equal for a constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    pub from: f64,
    pub to: f64,
}

impl Ramp {
    /// A ramp that stays at `value`.
    pub fn constant(value: f64) -> Self {
        Self { from: value, to: value }
    }

    /// The value after the fraction `part` (0 to 1) of the phase.
    pub fn at(self, part: f64) -> f64 {
        self.from + (self.to - self.from) * part
    }

    /// The first fraction of the phase, from `part` on, at which the value is at least `least`; None if there is none.
    fn reaches(self, least: f64, part: f64) -> Option<f64> {
        if self.at(part) >= least {
            Some(part)
        } else if self.to >= least && self.to > self.from {
            Some(((least - self.from) / (self.to - self.from)).clamp(part, 1.0))
        } else {
            None
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct PhaseSpec {
    pub name: String,
    /// Duration of the phase, above zero.
    pub duration: Duration,
    /// Intended starts per second over all workers; None in a closed loop. Either all phases have a rate or none has.
    pub rate_per_s: Option<Ramp>,
    /// Number of clients in use, rounded to whole clients.
    pub clients: Ramp,
    /// Weight of each script; the sum is above zero.
    pub weights: Vec<u32>,
    /// Whether the phase counts in the run's results.
    pub result: bool,
}

/// A phase with its position in the run; instants count from the first transaction.
#[derive(Debug, Clone, PartialEq)]
struct PlacedPhase {
    from: Nanos,
    to: Nanos,
    /// Intended starts of all phases before this one.
    before: f64,
}

impl PlacedPhase {
    fn length(&self) -> f64 {
        (self.to - self.from) as f64
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Phases {
    specs: Vec<PhaseSpec>,
    places: Vec<PlacedPhase>,
}

impl Phases {
    /// Places `specs` (at least one) one after the other.
    pub fn new(specs: Vec<PhaseSpec>) -> Self {
        let (mut from, mut before) = (0, 0.0);
        let places = specs
            .iter()
            .map(|spec| {
                let to = from + spec.duration.as_nanos() as Nanos;
                let place = PlacedPhase { from, to, before };
                if let Some(rate) = spec.rate_per_s {
                    before += rate.at(0.5) * spec.duration.as_secs_f64();
                }
                from = to;
                place
            })
            .collect();
        Self { specs, places }
    }

    pub fn at_fraction(&self, fraction: f64) -> Self {
        let mut specs = self.specs.clone();
        for rate in specs.iter_mut().filter_map(|spec| spec.rate_per_s.as_mut()) {
            rate.from *= fraction;
            rate.to *= fraction;
        }
        Self::new(specs)
    }

    pub fn specs(&self) -> &[PhaseSpec] {
        &self.specs
    }

    /// Begin and end of phase `number`, counted from the first transaction.
    pub fn bounds(&self, number: usize) -> (Nanos, Nanos) {
        (self.places[number].from, self.places[number].to)
    }

    pub fn end(&self) -> Nanos {
        self.places.last().map_or(0, |place| place.to)
    }

    /// The fewest clients that a phase with a rate has at any time; `usize::MAX` without rates.
    pub fn fewest_clients(&self) -> usize {
        let with_rate = self.specs().iter().filter(|phase| phase.rate_per_s.is_some());
        with_rate.map(|phase| phase.clients.from.min(phase.clients.to) as usize).min().unwrap_or(usize::MAX)
    }

    pub fn is_open(&self) -> bool {
        self.specs.iter().any(|spec| spec.rate_per_s.is_some())
    }

    /// The phase at `instant`: its begin belongs to it, its end to the next phase; the last phase does not end.
    pub fn at(&self, instant: Nanos) -> usize {
        let passed = self.places.partition_point(|place| place.to <= instant);
        passed.min(self.places.len() - 1)
    }

    /// The number of intended starts from the begin to `instant`: the integral of the rate.
    pub fn starts_by(&self, instant: Nanos) -> f64 {
        self.starts_by_end(self.at(instant), instant)
    }

    /// The same for an `instant` within phase `number`, or at its end.
    pub fn starts_by_end(&self, number: usize, instant: Nanos) -> f64 {
        let place = &self.places[number];
        let Some(rate) = self.specs[number].rate_per_s else {
            return 0.0;
        };
        let passed = instant.min(place.to).saturating_sub(place.from);
        let part = passed as f64 / place.length();
        place.before + rate.at(part / 2.0) * passed as f64 / SECOND as f64
    }

    /// The instant by which `starts` starts are intended, the inverse of [`Phases::starts_by`].
    /// Where the rate is zero, it is the end of that period; None if there are fewer starts.
    ///
    /// In a phase whose rate goes from r to r + k t, r t + k t² / 2 is solved for t in the form
    /// that does not cancel for small k.
    pub fn when(&self, starts: f64) -> Option<Nanos> {
        // the last phase that begins with no more starts than these, and has some
        let number = self.places.partition_point(|place| place.before <= starts).checked_sub(1)?;
        let (place, rate) = (&self.places[number], self.specs[number].rate_per_s?);
        let rest = starts - place.before;
        let length_s = place.length() / SECOND as f64;
        if rest >= rate.at(0.5) * length_s {
            return None;
        }
        let slope = (rate.to - rate.from) / length_s;
        let root = (rate.from * rate.from + 2.0 * slope * rest).max(0.0).sqrt();
        let t_s = if rest > 0.0 { 2.0 * rest / (rate.from + root) } else { 0.0 };
        let t = (t_s * SECOND as f64) as Nanos;
        // rounding must not move it into the next phase
        Some((place.from + t).min(place.to - 1))
    }

    /// The first instant at or after `instant` at which more than `rank` clients are in use.
    pub fn next_in_use(&self, rank: usize, instant: Nanos) -> Option<Nanos> {
        let least = rank as f64 + 0.5;
        let later = self.places.iter().zip(&self.specs);
        later.filter(|(place, _)| place.to > instant).find_map(|(place, spec)| {
            let from = place.from.max(instant);
            let begun = (from - place.from) as f64 / place.length();
            let part = spec.clients.reaches(least, begun)?;
            let wait = ((part - begun) * place.length()).ceil() as Nanos;
            (from + wait < place.to).then_some(from + wait)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn phase(seconds: f64, rate: (f64, f64), clients: (f64, f64)) -> PhaseSpec {
        PhaseSpec {
            name: "p".into(),
            duration: Duration::from_secs_f64(seconds),
            rate_per_s: Some(Ramp { from: rate.0, to: rate.1 }),
            clients: Ramp { from: clients.0, to: clients.1 },
            weights: vec![1],
            result: true,
        }
    }

    fn course() -> Phases {
        Phases::new(vec![
            phase(2.0, (500.0, 500.0), (8.0, 8.0)),
            phase(3.0, (500.0, 4000.0), (8.0, 8.0)),
            phase(1.5, (0.0, 0.0), (2.0, 2.0)),
            phase(2.5, (3000.0, 0.0), (0.0, 6.0)),
        ])
    }

    fn rate(phases: &Phases, t_s: f64) -> f64 {
        let mut from = 0.0;
        for spec in phases.specs() {
            let length = spec.duration.as_secs_f64();
            if t_s < from + length {
                return spec.rate_per_s.map_or(0.0, |rate| rate.at((t_s - from) / length));
            }
            from += length;
        }
        0.0
    }

    #[test]
    fn the_inversion_agrees_with_numerical_integration() {
        let phases = course();
        let step_s = 1e-4;
        let mut sum = 0.0;
        for step in 0..90_000 {
            let t_s = f64::from(step) * step_s;
            assert!((phases.starts_by((t_s * SECOND as f64).round() as Nanos) - sum).abs() < 1e-3, "{t_s}: {sum}");
            if rate(&phases, t_s + step_s / 2.0) > 1.0 {
                let back = phases.when(sum + 1e-6).expect("there are more starts") as f64;
                assert!((back / SECOND as f64 - t_s).abs() < 2e-5, "{t_s}: {back}");
            }
            // midpoints are exact for straight lines
            sum += rate(&phases, t_s + step_s / 2.0) * step_s;
        }
        assert!((sum - (1000.0 + 6750.0 + 3750.0)).abs() < 1e-3);
    }

    #[test]
    fn a_pause_is_passed_over_and_the_end_is_the_end() {
        let phases = course();
        let pause_over = SECOND * 13 / 2;
        assert_eq!(phases.when(0.0), Some(0));
        assert_eq!(phases.when(7750.0), Some(pause_over));
        assert!(phases.when(7749.999).expect("before the pause") < 5 * SECOND);
        assert!(phases.when(11_499.999).expect("before the end") < 9 * SECOND);
        assert_eq!(phases.when(11_500.0), None);
        // a phases begin is its own and its end is not
        assert_eq!(phases.at(0), 0);
        assert_eq!(phases.at(2 * SECOND - 1), 0);
        assert_eq!(phases.at(2 * SECOND), 1);
        assert_eq!(phases.at(20 * SECOND), 3);
        assert_eq!(phases.bounds(2), (5 * SECOND, SECOND * 13 / 2));
        assert_eq!(phases.end(), 9 * SECOND);
        // clients come back when they are wanted
        assert_eq!(phases.fewest_clients(), 0);
        assert_eq!(phases.next_in_use(7, SECOND), Some(SECOND));
        assert_eq!(phases.next_in_use(7, 5 * SECOND), None);
        // from 0 to 6 in 2.5 s: the third client is in use when the ramp reaches 2.5
        let third = phases.next_in_use(2, SECOND * 13 / 2).expect("it comes");
        let expected = 6.5 + 2.5 * 2.5 / 6.0;
        assert!((third as f64 / SECOND as f64 - expected).abs() < 1e-6);
        assert_eq!(phases.next_in_use(1, SECOND * 11 / 2), Some(SECOND * 11 / 2));
    }
}
