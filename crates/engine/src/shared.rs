//! What the clients of one worker share. Each worker has its own, without locks.

mod reports;
mod requests;
mod results;
mod run_settings;
mod starts;

use pgdyno_wire::SqlState;

use self::reports::{NoteLimit, Reports};
use self::requests::Requests;
use self::results::Results;
use self::run_settings::RunSettings;
pub use self::run_settings::{AfterLoss, Context};
use self::starts::Starts;
use crate::clock::{Clock, Nanos};
use crate::connect_record::Attempt;
use crate::driver::LoadTimes;
use crate::spec::Window;
use crate::timetable::Timetable;

/// State that a worker lends to a client at every step.
#[derive(Debug)]
pub struct Shared<'a> {
    pub clock: Clock,
    pub run: RunSettings<'a>,
    pub starts: Starts<'a>,
    pub results: Results<'a>,
    pub reports: Reports,
    pub requests: Requests,
}

impl<'a> Shared<'a> {
    /// For worker number `worker`, whose load has not begun.
    pub fn new(worker: usize, context: Context<'a>) -> Self {
        let Context { spec, clock, .. } = context;
        Self {
            clock,
            run: RunSettings::new(worker, &context),
            starts: Starts::new(worker, spec),
            results: Results::new(worker, spec, clock),
            reports: Reports {
                notes: Vec::new(),
                note_limit: NoteLimit::new(spec.notes_every_error),
                outages: context.outages,
                has_losses: false,
            },
            requests: Requests::new(spec),
        }
    }

    pub fn begin(&mut self, timetable: &Timetable) {
        self.run.measure = timetable.measure;
        self.run.deadline = timetable.deadline;
        self.starts.begin(timetable.origin);
        self.results.stalls.begin(timetable.origin);
    }

    #[inline]
    pub fn end_transaction(&mut self, record: usize, started: Nanos, now: Nanos) {
        self.results.last_end = now;
        self.results.in_flight -= 1;
        self.add_overrun(record, started, now);
    }

    /// Adds the time that a transaction of `record` from `started` to `now` takes outside of its
    /// phase: throughput is divided by the time in which clients were busy with what it counts.
    #[inline]
    pub fn add_overrun(&mut self, record: usize, started: Nanos, now: Nanos) {
        let (phase, from, to) = match &self.starts.phase_state {
            Some(phase_state) => {
                let phase = phase_state.phase_of_record(record);
                (phase, 0, phase_state.end_of(phase))
            }
            None => (0, self.run.measure, self.run.deadline.unwrap_or(Nanos::MAX)),
        };
        if now >= from {
            self.results.overruns[phase] += from.saturating_sub(started) + now.saturating_sub(to.max(started));
        }
    }

    /// Where the measured part ends for a worker that ends at `now`, with transactions in flight or lost clients.
    pub fn measured_until(&self, now: Nanos, in_flight: bool, away: bool) -> Nanos {
        match (self.run.spec.window, self.run.deadline) {
            // what is later is in the overruns
            (Window::Planned, Some(deadline)) => deadline.min(now),
            // while the server did not answer, it gave no throughput
            _ if in_flight => now,
            (Window::Planned, None) if away || self.run.is_stopped() => now,
            _ => self.results.last_end,
        }
    }

    pub fn load_times(&self) -> LoadTimes {
        LoadTimes { origin: self.starts.schedule.origin(), deadline: self.run.deadline }
    }

    pub fn record_connection(&mut self, record: usize, made: &Attempt) {
        self.results.recorder.scripts[record].connecting.record(made.took);
        if self.starts.counts(record)
            && let Some(connects) = &mut self.results.recorder.connects
        {
            connects.record(&made.times);
        }
    }

    pub fn count_refusal(&mut self, record: usize, sqlstate: Option<SqlState>, message: &str) {
        if self.starts.counts(record) {
            self.results.recorder.errors.count_refusal(sqlstate, message);
        }
    }

    pub fn count_error(&mut self, record: usize, sqlstate: Option<SqlState>, message: &str) {
        if self.starts.counts(record) {
            self.results.recorder.errors.count(sqlstate, message, 1);
        }
    }
}
