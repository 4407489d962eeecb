//! What a worker records of its transactions.

use pgdyno_script::Program;

use crate::clock::{Clock, Nanos};
use crate::log::{Entry, Log};
use crate::recorder::Recorder;
use crate::spec::{Sessions, Spec, Timing};
use crate::stall::Stalls;

/// What a worker records of its transactions.
#[derive(Debug)]
pub struct Results<'a> {
    pub recorder: Recorder,
    /// Indexed by phase, one without phases: how long clients were in its transactions outside of
    /// it, before the measured part or after the planned end.
    pub overruns: Vec<Nanos>,
    pub last_end: Nanos,
    /// Transactions that have begun and not ended.
    pub in_flight: usize,
    /// Periods in which no transaction succeeded.
    pub stalls: Stalls,
    /// The transaction log (-l).
    log: Option<Log<'a>>,
}

fn timed_commands(spec: &Spec) -> Vec<Vec<bool>> {
    let every = spec.timing == Timing::EveryCommand;
    let of_program = |program: &Program| {
        let commands = program.commands.iter();
        commands.map(|command| every || command.statement.is_some()).collect()
    };
    spec.programs.iter().map(|p| of_program(&p.program)).collect()
}

impl<'a> Results<'a> {
    pub fn new(worker: usize, spec: &'a Spec, clock: Clock) -> Self {
        let mut recorder = Recorder::new(&timed_commands(spec), spec.phase_count());
        recorder.connects = (spec.sessions == Sessions::PerTransaction).then(Box::default);
        Self {
            recorder,
            overruns: vec![0; spec.phase_count()],
            last_end: 0,
            in_flight: 0,
            stalls: Stalls::default(),
            log: Log::open(worker, spec, clock),
        }
    }

    /// Ends the warm-up. The log begins where the results begin.
    pub fn begin_measuring(&mut self, now: Nanos) {
        self.recorder.begin_measuring();
        self.begin_log(now);
    }

    /// Begins the log; only the first call has an effect.
    pub fn begin_log(&mut self, now: Nanos) {
        if let Some(log) = &mut self.log {
            log.begin(now);
        }
    }

    #[inline]
    pub fn log(&mut self, entry: impl FnOnce() -> Entry, now: Nanos) {
        if let Some(log) = &mut self.log {
            log.transaction(&entry(), now);
        }
    }
}
