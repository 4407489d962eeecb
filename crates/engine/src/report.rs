//! The result of a run: the sum of its measured intervals.

use pgdyno_wire::SqlState;

use crate::clock::Nanos;
use crate::command_record::CommandRecord;
use crate::commit_ledger::ClientLedger;
use crate::connect_record::ConnectRecord;
use crate::error_counts::{ErrorCount, ErrorCounts};
use crate::health::Healths;
use crate::interval::{ErrorNote, Merged, Phase};
use crate::latencies::Moments;
use crate::outage::Outages;
use crate::phase_report::{PhaseReport, measured};
use crate::phases::Phases;
use crate::recorder::ScriptRecord;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It ended as planned.
    #[default]
    Finished,
    /// It was ended by a signal, or because its parent has ended.
    Interrupted,
    /// At least one client gave up.
    Aborted,
}

/// The results of the measured part of a run. `scheduled() = succeeded + failed + skipped + in flight`.
#[derive(Debug, Default)]
pub struct Report {
    pub outcome: Outcome,
    pub scripts: Vec<ScriptRecord>,
    /// One record for each command of each script; None for commands without timing.
    pub commands: Vec<Vec<Option<CommandRecord>>>,
    /// Transactions that had begun and were still running at the end.
    pub in_flight: u64,
    /// Intended starts up to the end that no client was free for; not in `scheduled()`.
    pub unstarted: u64,
    pub clients_aborted: u64,
    /// How many statements the server may still run, because they did not end when they were cancelled.
    pub left_running: u64,
    /// Length of the measured part: see [`crate::spec::Window`].
    pub measured: Nanos,
    /// Time from the start of the first connection to the end of the last one.
    pub connecting: Nanos,
    pub start_late: Nanos,
    /// Times to connect; None unless each transaction has its own connection (-C).
    pub connects: Option<Box<ConnectRecord>>,
    /// Errors by SQLSTATE, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// How many errors had no note, because there were too many or nobody read them; `errors` has them.
    pub unreported_errors: u64,
    /// Outages; None when a client whose connection is lost gives up.
    pub outages: Option<Outages>,
    /// The commit ledger by client, including the warm-up; None without --ledger.
    pub ledger: Option<Vec<ClientLedger>>,
    /// The phases, in order; the figures above include those that count. Empty for a load without phases.
    pub phases: Vec<PhaseReport>,
    /// Transactions by client, including those of a warm-up: shows whether all clients had an equal share.
    pub fairness: Moments,
    /// The load of the generator's own workers.
    pub health: Healths,
}

impl Report {
    /// All scripts together.
    pub fn total(&self) -> ScriptRecord {
        ScriptRecord::sum(&self.scripts)
    }

    /// Transactions for which there was no connection; some of those that failed.
    pub fn refused(&self) -> u64 {
        self.errors.iter().filter(|error| error.is_refusal).map(|error| error.count).sum()
    }

    /// How many transactions were scheduled.
    pub fn scheduled(&self) -> u64 {
        self.total().counts.ended() + self.in_flight
    }

    /// Length of the measured part, seconds.
    pub fn measured_s(&self) -> f64 {
        self.measured as f64 / crate::clock::SECOND as f64
    }

    /// Successful transactions per second; 0 when nothing was measured.
    pub fn tps(&self) -> f64 {
        if self.measured == 0 { 0.0 } else { self.total().counts.succeeded as f64 / self.measured_s() }
    }
}

/// Adds up intervals into a [`Report`].
#[derive(Debug)]
pub struct Totals<'a> {
    phases: Option<&'a Phases>,
    /// One record for each script, or for each script and phase.
    records: Vec<ScriptRecord>,
    scripts: usize,
    commands: Vec<Vec<Option<CommandRecord>>>,
    pub errors: ErrorCounts,
    connects: Option<Box<ConnectRecord>>,
    health: Healths,
}

impl<'a> Totals<'a> {
    /// For this many scripts, and the phases of a run that has any.
    pub fn new(scripts: usize, phases: Option<&'a Phases>) -> Self {
        let count = phases.map_or(1, |phases| phases.specs().len());
        Self {
            phases,
            records: vec![ScriptRecord::default(); scripts * count],
            scripts,
            commands: Vec::new(),
            errors: ErrorCounts::default(),
            connects: None,
            health: Healths::default(),
        }
    }

    /// Adds an interval unless it belongs to the warm-up; records of phases are always kept.
    pub fn interval(&mut self, merged: &Merged) {
        if merged.phase != Phase::WarmUp || self.phases.is_some() {
            for (all, one) in self.records.iter_mut().zip(&merged.scripts) {
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

    pub fn connects(&mut self, connects: Option<Box<ConnectRecord>>) {
        match (&mut self.connects, connects) {
            (Some(all), Some(connects)) => all.add(&connects),
            (all, connects) => *all = all.take().or(connects),
        }
    }

    pub fn count_errors(&mut self, note: &ErrorNote, times: u64) {
        let sqlstate = note.sqlstate.as_deref();
        let sqlstate = sqlstate.map(|state| SqlState::parse(state.as_bytes()).unwrap_or(SqlState::UNKNOWN));
        self.errors.count(sqlstate, &note.message, times);
    }

    /// Completes a report in which only what was recorded is missing.
    pub fn complete(self, mut report: Report) -> Report {
        for (phase, records) in report.phases.iter_mut().zip(self.records.chunks(self.scripts)) {
            phase.scripts = records.to_vec();
        }
        report.scripts = self.records;
        if !report.phases.is_empty() {
            let results: Vec<_> = report.phases.iter().filter(|phase| phase.result).collect();
            report.scripts = vec![ScriptRecord::default(); self.scripts];
            for phase in &results {
                for (all, one) in report.scripts.iter_mut().zip(&phase.scripts) {
                    all.add(one);
                }
            }
            report.in_flight = results.iter().map(|phase| phase.in_flight).sum();
            report.unstarted = results.iter().map(|phase| phase.unstarted).sum();
            report.measured = measured(&results);
        }
        let Self { commands, errors, connects, health, .. } = self;
        Report { commands, errors: errors.into_list(), connects, health, ..report }
    }
}
