//! Which transaction begins when: the intended starts, the phases, and the choice of scripts.

use pgdyno_script::Rng;

use crate::clock::Nanos;
use crate::load_share::LoadShare;
use crate::phase_state::PhaseState;
use crate::schedule::{Schedule, Turn};
use crate::spec::Spec;

/// Which transactions of a worker begin when.
#[derive(Debug)]
pub struct Starts<'a> {
    pub schedule: Schedule<'a>,
    /// Which clients are in use; None for a load without phases.
    pub phase_state: Option<PhaseState<'a>>,
    spec: &'a Spec,
    choice: Rng,
    total_weight: u64,
}

/// A script that was drawn, and the number of its record: the script's, or that of the script in its phase.
#[derive(Debug, Clone, Copy)]
pub struct ChosenScript {
    pub script: usize,
    pub record: usize,
}

impl<'a> Starts<'a> {
    pub fn new(worker: usize, spec: &'a Spec) -> Self {
        let turn = Turn { worker, workers: spec.workers, shift: spec.share.map_or(0.0, LoadShare::turn) };
        let rng = Rng::seed(spec.seeds.arrivals[worker]);
        Self {
            schedule: Schedule::new(spec.arrivals, spec.phases.as_ref(), turn, rng),
            phase_state: PhaseState::of(worker, spec),
            spec,
            choice: Rng::seed(spec.seeds.choice[worker]),
            total_weight: spec.programs.iter().map(|p| u64::from(p.weight)).sum(),
        }
    }

    /// Begins the load; its first transaction is at `origin`.
    pub fn begin(&mut self, origin: Nanos) {
        self.schedule.begin(origin);
        if let Some(phase_state) = &mut self.phase_state {
            phase_state.begin(origin);
        }
    }

    /// Draws a script by weight, from the client's `own` sequence if it has one.
    pub fn choose_script(&mut self, own: Option<&mut Rng>) -> usize {
        if self.spec.programs.len() == 1 {
            return 0;
        }
        let rng = own.unwrap_or(&mut self.choice);
        let drawn = rng.range_i64(0, self.total_weight as i64 - 1) as u64;
        let mut sum = 0;
        self.spec
            .programs
            .iter()
            .position(|p| {
                sum += u64::from(p.weight);
                drawn < sum
            })
            .unwrap_or(0)
    }

    /// Draws a script for a transaction with the intended start `intended`, by the weights of that phase.
    pub fn choose_script_at(&mut self, intended: Nanos, own: Option<&mut Rng>) -> ChosenScript {
        let Some(phase_state) = &self.phase_state else {
            let script = self.choose_script(own);
            return ChosenScript { script, record: script };
        };
        let phase = phase_state.phase(intended);
        let script = phase_state.choose_script(phase, own.unwrap_or(&mut self.choice));
        ChosenScript { script, record: phase_state.record(phase, script) }
    }

    /// # Panics
    /// In a run without phases: only code for phases may call this.
    pub fn phase_state(&mut self) -> &mut PhaseState<'a> {
        self.phase_state.as_mut().expect("the run has phases")
    }

    pub fn next_planned_start(&mut self, now: Nanos) -> Nanos {
        let left = self.phase_state.as_mut().and_then(PhaseState::take_start);
        left.unwrap_or_else(|| self.schedule.next_start(now))
    }

    /// Whether the results include `record`; a warm-up without phases is excluded by time.
    #[inline]
    pub fn counts(&self, record: usize) -> bool {
        self.phase_state.as_ref().is_none_or(|phase_state| phase_state.counts(record))
    }
}
