//! The results of each phase of a run: of the transactions that were due in it, whenever they ended.

use crate::clock::{Nanos, SECOND};
use crate::recorder::ScriptRecord;

/// The results of one phase. `scheduled() = succeeded + failed + skipped + in flight`.
#[derive(Debug)]
pub struct PhaseReport {
    pub name: String,
    /// Whether the phase counts in the run's results.
    pub result: bool,
    pub duration: Nanos,
    pub from: Nanos,
    /// The end of the phase, plus the time that each of its clients was in its transactions after that, on average.
    pub to: Nanos,
    pub scripts: Vec<ScriptRecord>,
    /// Transactions that had begun and were still running at the end of the run.
    pub in_flight: u64,
    /// Starts that were due by the end of the run and that no client was free for; not in `scheduled()`.
    pub unstarted: u64,
}

impl PhaseReport {
    /// All scripts together.
    pub fn total(&self) -> ScriptRecord {
        ScriptRecord::sum(&self.scripts)
    }

    /// How many transactions were scheduled.
    pub fn scheduled(&self) -> u64 {
        self.total().counts.ended() + self.in_flight
    }

    /// The length of the phase with what its clients were busy after it, seconds.
    pub fn measured_s(&self) -> f64 {
        self.to.saturating_sub(self.from) as f64 / SECOND as f64
    }

    /// Successful transactions per second; 0 when the run ended before the phase.
    pub fn tps(&self) -> f64 {
        let measured_s = self.measured_s();
        if measured_s > 0.0 { self.total().counts.succeeded as f64 / measured_s } else { 0.0 }
    }
}

/// The total time of `phases`; a period in which two of them overlap counts once.
pub fn measured(phases: &[&PhaseReport]) -> Nanos {
    let (mut sum, mut reached) = (0, 0);
    for phase in phases {
        sum += phase.to.saturating_sub(phase.from.max(reached));
        reached = reached.max(phase.to);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(from: Nanos, to: Nanos) -> PhaseReport {
        let name = "p".into();
        PhaseReport { name, result: true, duration: 1, from, to, scripts: vec![], in_flight: 0, unstarted: 0 }
    }

    #[test]
    fn what_overlaps_is_counted_once() {
        let (first, second, third) = (phase(10, 35), phase(20, 30), phase(40, 45));
        assert_eq!(measured(&[&first, &second, &third]), 30);
        assert_eq!(measured(&[&second, &third]), 15);
    }
}
