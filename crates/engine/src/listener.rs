//! Merges the workers' messages into intervals and the run's report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use crate::clock::{Clock, Nanos};
use crate::commit_ledger::ClientLedger;
use crate::interval::{Merged, Merger};
use crate::latencies::Moments;
use crate::observer::{Observer, RunError};
use crate::outage::{OutageNote, SharedOutages};
use crate::phase_report::PhaseReport;
use crate::recorder::ScriptRecord;
use crate::report::{Outcome, Report, Totals};
use crate::spec::{Spec, Window};
use crate::timetable::Timetable;
use crate::worker_channel::{WorkerEnd, WorkerMessage, WorkerReceiver};

/// What is known when the load begins.
pub struct LoadStart<'a> {
    /// When phases change and intervals end.
    pub timetable: Timetable,
    /// How long it took to connect.
    pub connecting: Nanos,
    pub clock: Clock,
    /// How late the latest worker started, in nanoseconds.
    pub delay: &'a AtomicU64,
    /// Outages over all workers; None when a client whose connection is lost gives up.
    pub outages: Option<Arc<SharedOutages>>,
}

pub struct Listener<'a, O> {
    spec: &'a Spec,
    start: LoadStart<'a>,
    received: WorkerReceiver,
    /// Return emptied records to each worker. One that has ended needs none.
    recycling: Vec<Sender<Vec<ScriptRecord>>>,
    observer: &'a mut O,
    merger: Merger,
    totals: Totals<'a>,
    ends: Vec<WorkerEnd>,
}

impl<'a, O: Observer> Listener<'a, O> {
    pub fn new(
        spec: &'a Spec, start: LoadStart<'a>, received: WorkerReceiver, recycling: Vec<Sender<Vec<ScriptRecord>>>,
        observer: &'a mut O,
    ) -> Self {
        Self {
            merger: Merger::new(spec.workers, start.timetable.origin),
            totals: Totals::new(spec.programs.len(), spec.phases.as_ref()),
            ends: Vec::new(),
            spec,
            start,
            received,
            recycling,
            observer,
        }
    }

    /// Receives messages until the last worker has ended.
    pub fn listen(mut self, stop: &AtomicBool) -> Result<Report, RunError> {
        while self.ends.len() < self.recycling.len()
            && let Ok(message) = self.received.recv()
        {
            self.take(message, stop);
            while let Some(merged) = self.merger.take_whole() {
                self.hand_on(merged);
            }
            if let Some(outages) = self.start.outages.clone() {
                let clock = self.start.clock;
                for note in std::iter::from_fn(|| outages.lock().take_note(clock.now())) {
                    self.report_outage(&note);
                }
            }
        }
        self.into_report(stop)
    }

    fn take(&mut self, message: WorkerMessage, stop: &AtomicBool) {
        match message {
            WorkerMessage::Error(note) => self.observer.error(&note),
            WorkerMessage::Interval(interval) => {
                let worker = interval.worker;
                if let Some(used) = self.merger.add(interval) {
                    let _ = self.recycling[worker].send(used);
                }
            }
            // the tracker is checked after every message
            WorkerMessage::Outage => {}
            WorkerMessage::Ended(mut end) => {
                // there will be no report, so the other workers need not go on
                stop.fetch_or(end.failure.is_some(), Ordering::Relaxed);
                self.merger.ended(end.worker);
                self.totals.commands(std::mem::take(&mut end.commands));
                self.totals.errors.add(&end.errors);
                self.totals.connects(end.connects.take());
                self.ends.push(end);
            }
        }
    }

    fn hand_on(&mut self, mut merged: Merged) {
        self.totals.interval(&merged);
        let mut of_phases = merged.fold_phases(self.spec.programs.len());
        self.observer.interval(&merged);
        merged.scripts.append(&mut of_phases);
        merged.scripts.iter_mut().for_each(ScriptRecord::clear);
        let _ = self.recycling[0].send(merged.scripts);
    }

    fn report_outage(&mut self, note: &OutageNote) {
        if let OutageNote::Lost { note, clients } = note
            && self.start.timetable.counts(note)
        {
            self.totals.count_errors(note, *clients);
        }
        self.observer.outage(note);
    }

    fn into_report(mut self, stop: &AtomicBool) -> Result<Report, RunError> {
        if let Some(failure) = self.ends.iter_mut().find_map(|end| end.failure.take()) {
            return Err(RunError::System(failure));
        }
        let now = self.start.clock.now();
        let outages = self.start.outages.clone().map(|outages| {
            let (notes, outages) = outages.lock().finish(now, self.start.timetable.measure);
            notes.iter().for_each(|note| self.report_outage(note));
            outages
        });
        let (spec, start, mut ends) = (self.spec, &self.start, self.ends);
        let report = Report {
            outcome: outcome(&ends, stop),
            phases: end_phases(spec, &ends, start, start.clock.now()),
            outages,
            ledger: spec.ledger.as_ref().map(|_| client_ledgers(&mut ends)),
            ..sum_up(spec, &ends, start)
        };
        Ok(self.totals.complete(report))
    }
}

fn client_ledgers(ends: &mut [WorkerEnd]) -> Vec<ClientLedger> {
    let parts = ends.iter_mut().flat_map(|end| std::mem::take(&mut end.ledgers));
    let mut parts: Vec<ClientLedger> = parts.collect();
    parts.sort_by_key(|part| part.client);
    parts
}

fn end_phases(spec: &Spec, ends: &[WorkerEnd], start: &LoadStart<'_>, now: Nanos) -> Vec<PhaseReport> {
    let scripts = spec.programs.len();
    let specs = spec.phases.iter().flat_map(|phases| phases.specs());
    let numbered = start.timetable.planned.iter().zip(specs).enumerate();
    numbered
        .map(|(number, (planned, phase))| {
            let records = ends.iter().flat_map(|end| &end.in_flight);
            let to = planned.to.min(now) + overrun(ends, number, clients_of(spec, number));
            PhaseReport {
                name: phase.name.clone(),
                result: phase.result,
                duration: phase.duration.as_nanos() as Nanos,
                from: planned.from,
                to: to.max(planned.from),
                scripts: Vec::new(),
                unstarted: ends.iter().map(|end| end.unstarted[number]).sum(),
                in_flight: records.filter(|record| *record / scripts == number).count() as u64,
            }
        })
        .collect()
}

fn clients_of(spec: &Spec, number: usize) -> usize {
    let planned = spec.phases.as_ref().map_or(0.0, |phases| phases.specs()[number].clients.to);
    let generators = spec.share.map_or(1, |share| share.of);
    (planned.round() as usize).div_ceil(generators).min(spec.clients)
}

fn overrun(ends: &[WorkerEnd], phase: usize, clients: usize) -> Nanos {
    let sum: Nanos = ends.iter().map(|end| end.overruns[phase]).sum();
    sum / clients.max(1) as Nanos
}

fn outcome(ends: &[WorkerEnd], stop: &AtomicBool) -> Outcome {
    if ends.iter().any(|end| end.aborted > 0) {
        Outcome::Aborted
    } else if stop.load(Ordering::Relaxed) {
        Outcome::Interrupted
    } else {
        Outcome::Finished
    }
}

fn sum_up(spec: &Spec, ends: &[WorkerEnd], start: &LoadStart<'_>) -> Report {
    let until = ends.iter().map(|end| end.measured_until).max().unwrap_or(0);
    let outside = match spec.window {
        Window::Planned => overrun(ends, 0, spec.clients),
        Window::ToLastTransaction => 0,
    };
    let mut fairness = Moments::default();
    for ended in ends.iter().flat_map(|end| &end.ended) {
        fairness.record(*ended);
    }
    Report {
        fairness,
        in_flight: ends.iter().map(|end| end.in_flight.len() as u64).sum(),
        unstarted: ends.iter().flat_map(|end| &end.unstarted).sum(),
        clients_aborted: ends.iter().map(|end| end.aborted as u64).sum(),
        unreported_errors: ends.iter().map(|end| end.unreported_errors).sum(),
        left_running: ends.iter().map(|end| end.left_running as u64).sum(),
        measured: until.saturating_sub(start.timetable.measure) + outside,
        connecting: start.connecting,
        start_late: start.delay.load(Ordering::Relaxed),
        ..Report::default()
    }
}
