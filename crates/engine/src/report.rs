//! What a run came to: the sum of its measured intervals.

use std::collections::HashMap;

use crate::clock::Nanos;
use crate::health::Healths;
use crate::interval::{ErrorNote, Merged, Phase};
use crate::recorder::{CommandRecord, Counts, Latencies, Moments, ScriptRecord};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Finished,
    /// By a signal, or because nobody listens any more.
    Interrupted,
    /// At least one client gave up.
    Aborted,
}

/// How often one error came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCount {
    /// None when it did not come from the server.
    pub sqlstate: Option<String>,
    /// Its first wording.
    pub message: String,
    /// Times.
    pub count: u64,
}

/// The measured part of a run. `scheduled() = succeeded + failed + skipped + in flight`.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// A record a script.
    pub scripts: Vec<ScriptRecord>,
    /// A record a command of each script; None where commands are not timed.
    pub commands: Vec<Vec<Option<CommandRecord>>>,
    /// Transactions that had begun and were not waited for.
    pub in_flight: u64,
    /// Intended starts up to the end that no client was free to take; not in `scheduled()`.
    pub unstarted: u64,
    /// Clients that gave up.
    pub clients_aborted: u64,
    /// From the start of measuring to the end of the last transaction, or to the stop.
    pub measured: Nanos,
    /// From the first connection's begin to the last one's end.
    pub connecting: Nanos,
    /// Errors by SQLSTATE, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// How the generator fared.
    pub health: Healths,
}

impl Report {
    /// All scripts together.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.scripts
            .iter()
            .for_each(|script| sum.add(&script.counts));
        sum
    }

    /// Latency of all scripts together.
    #[must_use]
    pub fn latency(&self) -> Latencies {
        let mut sum = Latencies::default();
        self.scripts
            .iter()
            .for_each(|script| sum.add(&script.latency));
        sum
    }

    /// Schedule lag of all scripts together.
    #[must_use]
    pub fn lag(&self) -> Moments {
        let mut sum = Moments::default();
        self.scripts.iter().for_each(|script| sum.add(&script.lag));
        sum
    }

    /// Connecting of all scripts together (-C).
    #[must_use]
    pub fn reconnecting(&self) -> Moments {
        let mut sum = Moments::default();
        self.scripts
            .iter()
            .for_each(|script| sum.add(&script.connecting));
        sum
    }

    /// Transactions that were to be run.
    #[must_use]
    pub fn scheduled(&self) -> u64 {
        self.counts().ended() + self.in_flight
    }

    /// Length of the measured part, seconds.
    #[must_use]
    pub fn measured_s(&self) -> f64 {
        self.measured as f64 / crate::clock::SECOND as f64
    }

    /// Succeeded transactions a second; 0 when nothing was measured.
    #[must_use]
    pub fn tps(&self) -> f64 {
        if self.measured == 0 {
            0.0
        } else {
            self.counts().succeeded as f64 / self.measured_s()
        }
    }
}

/// Sums up intervals into a [`Report`].
#[derive(Debug)]
pub struct Totals {
    scripts: Vec<ScriptRecord>,
    commands: Vec<Vec<Option<CommandRecord>>>,
    errors: HashMap<Option<String>, ErrorCount>,
    health: Healths,
}

impl Totals {
    /// For this many scripts.
    #[must_use]
    pub fn new(scripts: usize) -> Self {
        Self {
            scripts: vec![ScriptRecord::default(); scripts],
            commands: Vec::new(),
            errors: HashMap::new(),
            health: Healths::default(),
        }
    }

    /// Adds an interval, unless it is of the warm-up.
    pub fn interval(&mut self, merged: &Merged) {
        if merged.phase != Phase::WarmUp {
            for (all, one) in self.scripts.iter_mut().zip(&merged.scripts) {
                all.add(one);
            }
            self.health.interval(&merged.workers);
        }
    }

    /// Adds a worker's commands.
    pub fn commands(&mut self, commands: Vec<Vec<Option<CommandRecord>>>) {
        if self.commands.is_empty() {
            self.commands = commands;
            return;
        }
        let sums = self.commands.iter_mut().flatten();
        for (all, one) in sums.zip(commands.iter().flatten()) {
            if let (Some(all), Some(one)) = (all, one) {
                all.add(one);
            }
        }
    }

    /// Counts an error.
    pub fn error(&mut self, note: &ErrorNote) {
        let entry = self
            .errors
            .entry(note.sqlstate.clone())
            .or_insert_with(|| ErrorCount {
                sqlstate: note.sqlstate.clone(),
                message: note.message.clone(),
                count: 0,
            });
        entry.count += 1;
    }

    /// The report; the caller knows how the run ended.
    #[must_use]
    pub fn into_report(self, outcome: Outcome, end: &End) -> Report {
        let mut errors: Vec<_> = self.errors.into_values().collect();
        errors.sort_by(|a, b| {
            b.count
                .cmp(&a.count)
                .then_with(|| a.sqlstate.cmp(&b.sqlstate))
        });
        Report {
            outcome,
            scripts: self.scripts,
            commands: self.commands,
            in_flight: end.in_flight,
            unstarted: end.unstarted,
            clients_aborted: end.clients_aborted,
            measured: end.measured,
            connecting: end.connecting,
            errors,
            health: self.health,
        }
    }
}

/// What is known only when the workers have ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct End {
    /// Transactions not waited for.
    pub in_flight: u64,
    /// Intended starts that nobody took.
    pub unstarted: u64,
    /// Clients that gave up.
    pub clients_aborted: u64,
    /// Length of the measured part.
    pub measured: Nanos,
    /// Time to connect.
    pub connecting: Nanos,
}
