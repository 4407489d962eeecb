//! What the clients of one worker share: the schedule, the recorder, the deadlines.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pgdyno_script::{Program, QueryMode, Rng};
use pgdyno_wire::{SqlState, printable};

use crate::clock::{Clock, Nanos};
use crate::driver::LoadTimes;
use crate::interval::ErrorNote;
use crate::load_share::LoadShare;
use crate::log::Log;
use crate::log_entry::Entry;
use crate::note_limit::NoteLimit;
use crate::outage::OutageTracker;
use crate::pacing::Pacing;
use crate::phase_state::PhaseState;
use crate::recorder::Recorder;
use crate::schedule::Schedule;
use crate::spec::{OnLoss, Pipelining, Preparing, Sessions, Spec, Timing, Window};
use crate::stall::Stalls;
use crate::statement_template::Template;

/// State that a worker lends to a client at every step. Each worker has its own, without locks.
#[derive(Debug)]
pub struct Shared<'a> {
    /// Number of the worker.
    pub worker: usize,
    /// The specification of the run.
    pub spec: &'a Spec,
    /// Indexed by script and statement.
    pub templates: &'a [Vec<Template>],
    /// For each script, how many statements the scripts before it have; and the sum of all.
    firsts: Vec<usize>,
    /// The engine's clock.
    pub clock: Clock,
    /// Intended starts.
    pub schedule: Schedule<'a>,
    /// Which clients are in use; None for a load without phases.
    pub phase_state: Option<PhaseState<'a>>,
    /// Counts and latencies.
    pub recorder: Recorder,
    /// Errors that were not reported yet.
    pub notes: Vec<ErrorNote>,
    /// How many errors have a note.
    pub note_limit: NoteLimit,
    /// End of the warm-up.
    pub measure: Nanos,
    /// End of measuring; None when transactions are counted.
    pub deadline: Option<Nanos>,
    /// Indexed by phase, one without phases: how long clients were in its transactions outside of
    /// it, before the measured part or after the planned end.
    pub overruns: Vec<Nanos>,
    /// See [`Spec::latency_limit`].
    pub latency_limit: Option<Nanos>,
    /// End of the last transaction.
    pub last_end: Nanos,
    /// Transactions that have begun and not ended.
    pub in_flight: usize,
    /// Periods in which no transaction succeeded.
    pub stalls: Stalls,
    /// Whether meta commands are timed.
    pub times_every_command: bool,
    /// Whether a statement is one Query message, which is answered without a Sync.
    pub is_simple: bool,
    /// Whether every transaction has a connection of its own.
    pub reconnects: bool,
    /// Whether drivers decide when sessions and transactions begin.
    pub driven_sessions: bool,
    /// Outages over all workers; None when a client whose connection is lost gives up.
    pub outages: Option<Arc<OutageTracker>>,
    /// Whether connections were lost that were not reported to the engine yet.
    pub has_losses: bool,
    /// Whether clients have keying or think times.
    pub pauses: bool,
    /// Whether statements that need no earlier result share a round trip.
    pub auto_pipeline: bool,
    /// Whether a statement is prepared in a round trip of its own.
    pub prepares_ahead: bool,
    /// Whether notices go to standard error.
    pub prints_notices: bool,
    /// The transaction log (-l).
    log: Option<Log<'a>>,
    choice: Rng,
    total_weight: u64,
    timers: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Sleeping clients are woken at multiples of this.
    timer_tick: Nanos,
    /// Clients that wait for a connection.
    unconnected: VecDeque<usize>,
    /// Clients that want to change their session.
    changing: VecDeque<usize>,
    stop: &'a AtomicBool,
}

/// Indexed by script and command: whether its latency is recorded.
fn timed_commands(spec: &Spec) -> Vec<Vec<bool>> {
    let every = spec.timing == Timing::EveryCommand;
    let of_program = |program: &Program| {
        let commands = program.commands.iter();
        commands.map(|command| every || command.statement.is_some()).collect()
    };
    spec.programs.iter().map(|p| of_program(&p.program)).collect()
}

/// The intended starts of worker number `worker`.
fn schedule(worker: usize, spec: &Spec) -> Schedule<'_> {
    let rng = Rng::seed(spec.seeds.arrivals[worker]);
    let place = (worker, spec.workers);
    Schedule::new(spec.arrivals, spec.phases.as_ref(), place, rng).shifted_by(spec.share.map_or(0.0, LoadShare::turn))
}

impl<'a> Shared<'a> {
    /// For worker number `worker`; `stop` ends all workers.
    #[must_use]
    pub fn new(
        worker: usize,
        spec: &'a Spec,
        templates: &'a [Vec<Template>],
        clock: Clock,
        stop: &'a AtomicBool,
    ) -> Self {
        let counts = templates.iter().map(Vec::len);
        let firsts = std::iter::once(0).chain(counts.scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        Self {
            worker,
            spec,
            templates,
            firsts: firsts.collect(),
            clock,
            schedule: schedule(worker, spec),
            phase_state: PhaseState::of(worker, spec),
            recorder: Recorder::new(&timed_commands(spec), spec.phase_count()),
            notes: Vec::new(),
            note_limit: NoteLimit::new(spec.notes_every_error),
            measure: 0,
            deadline: None,
            overruns: vec![0; spec.phase_count()],
            latency_limit: spec.latency_limit.map(|limit| limit.as_nanos() as Nanos),
            last_end: 0,
            in_flight: 0,
            stalls: Stalls::default(),
            times_every_command: spec.timing == Timing::EveryCommand,
            is_simple: spec.mode == QueryMode::Simple,
            reconnects: spec.sessions == Sessions::PerTransaction,
            driven_sessions: spec.sessions == Sessions::Driven,
            outages: (spec.on_loss != OnLoss::Abort).then(|| Arc::new(OutageTracker::new(spec.clients))),
            has_losses: false,
            pauses: spec.pacing.iter().any(Pacing::pauses),
            auto_pipeline: spec.pipelining == Pipelining::Auto,
            prepares_ahead: spec.preparing == Preparing::Ahead,
            prints_notices: spec.drivers.as_ref().is_none_or(|drivers| drivers.prints_notices()),
            log: Log::open(worker, spec, clock),
            choice: Rng::seed(spec.seeds.choice[worker]),
            total_weight: spec.programs.iter().map(|p| u64::from(p.weight)).sum(),
            timers: BinaryHeap::new(),
            timer_tick: (spec.timer_tick.as_nanos() as Nanos).max(1),
            unconnected: VecDeque::new(),
            changing: VecDeque::new(),
            stop,
        }
    }

    /// How many statements all scripts have.
    #[must_use]
    pub fn statements(&self) -> usize {
        *self.firsts.last().expect("it begins with 0")
    }

    /// Number of a statement of a script among those of all scripts.
    #[must_use]
    pub fn statement_number(&self, script: usize, statement: usize) -> usize {
        self.firsts[script] + statement
    }

    /// The statement of `script` with this number among those of all scripts.
    #[must_use]
    pub fn statement_in(&self, script: usize, number: usize) -> usize {
        number - self.firsts[script]
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

    /// The phase state of a run with phases.
    ///
    /// # Panics
    /// In a run without phases: only code for phases may call this.
    pub fn phase_state(&mut self) -> &mut PhaseState<'a> {
        self.phase_state.as_mut().expect("the run has phases")
    }

    /// Draws a script for a transaction with the intended start `intended`, by the weights of that
    /// phase; returns its number and that of its record.
    pub fn choose_script_at(&mut self, intended: Nanos, own: Option<&mut Rng>) -> (usize, usize) {
        let Some(phase_state) = &self.phase_state else {
            let script = self.choose_script(own);
            return (script, script);
        };
        let phase = phase_state.phase(intended);
        let script = phase_state.choose_script(phase, own.unwrap_or(&mut self.choice));
        (script, phase_state.record(phase, script))
    }

    /// The next start that no client waits for.
    pub fn next_planned_start(&mut self, now: Nanos) -> Nanos {
        let left = self.phase_state.as_mut().and_then(PhaseState::take_start);
        left.unwrap_or_else(|| self.schedule.next_start(now))
    }

    /// Whether the results include `record`; a warm-up without phases is excluded by time.
    #[inline]
    #[must_use]
    pub fn counts(&self, record: usize) -> bool {
        self.phase_state.as_ref().is_none_or(|phase_state| phase_state.counts(record))
    }

    /// Records the end of a transaction of `record` that began at `started`.
    #[inline]
    pub fn ended(&mut self, record: usize, started: Nanos, now: Nanos) {
        self.last_end = now;
        self.in_flight -= 1;
        self.add_overrun(record, started, now);
    }

    /// Adds the time that a transaction of `record` from `started` to `now` takes outside of its
    /// phase: throughput is divided by the time in which clients were busy with what it counts.
    #[inline]
    pub fn add_overrun(&mut self, record: usize, started: Nanos, now: Nanos) {
        let (phase, from, to) = match &self.phase_state {
            Some(phase_state) => {
                let phase = phase_state.phase_of_record(record);
                (phase, 0, phase_state.end_of(phase))
            }
            None => (0, self.measure, self.deadline.unwrap_or(Nanos::MAX)),
        };
        if now >= from {
            self.overruns[phase] += from.saturating_sub(started) + now.saturating_sub(to.max(started));
        }
    }

    /// Where the measured part ends for a worker that ends at `now`, with transactions in flight or
    /// with disconnected clients.
    #[must_use]
    pub fn measured_until(&self, now: Nanos, in_flight: bool, away: bool) -> Nanos {
        match (self.spec.window, self.deadline) {
            // what is later is in the overruns
            (Window::Planned, Some(deadline)) => deadline.min(now),
            // while the server did not answer, it gave no throughput
            _ if in_flight => now,
            (Window::Planned, None) if away || self.stopped() => now,
            _ => self.last_end,
        }
    }

    /// When the load began and is to end.
    #[must_use]
    pub fn load_times(&self) -> LoadTimes {
        LoadTimes { origin: self.schedule.origin(), deadline: self.deadline }
    }

    /// Whether no transaction may begin at `now`.
    #[must_use]
    pub fn stops(&self, now: Nanos) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline) || self.stopped()
    }

    /// Whether everything has to end immediately.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts an error of a transaction of `record`.
    pub fn count_error(&mut self, record: usize, sqlstate: Option<SqlState>, message: &str) {
        if self.counts(record) {
            self.recorder.errors.count(sqlstate, message, 1);
        }
    }

    /// Records that a client gave up.
    pub fn client_aborted(&mut self) {
        if self.spec.exit_on_abort {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Begins the load; only the first call of a worker has an effect.
    pub fn begin(&mut self, now: Nanos) {
        if self.spec.warmup.is_zero() {
            self.begin_log(now);
        }
    }

    /// Ends the warm-up. The log begins where the results begin.
    pub fn begin_measuring(&mut self, now: Nanos) {
        self.recorder.begin_measuring();
        self.begin_log(now);
    }

    fn begin_log(&mut self, now: Nanos) {
        if let Some(log) = &mut self.log {
            log.begin(now);
        }
    }

    /// Logs a transaction that ended at `now`.
    #[inline]
    pub fn log(&mut self, entry: impl FnOnce() -> Entry, now: Nanos) {
        if let Some(log) = &mut self.log {
            log.transaction(&entry(), now);
        }
    }

    /// Prints a step if debugging is enabled.
    #[inline]
    pub fn debug(&self, text: impl FnOnce() -> String) {
        if let Some(program) = &self.spec.debug {
            // standard error may be closed, which must not stop the load
            let _ = writeln!(std::io::stderr(), "{program}: {}", printable(&text()));
        }
    }

    /// Requests a connection for `client`.
    pub fn connect(&mut self, client: usize) {
        self.unconnected.push_back(client);
    }

    /// The next client that is to be connected.
    pub fn next_unconnected(&mut self) -> Option<usize> {
        self.unconnected.pop_front()
    }

    /// Requests a change of the session of `client`.
    pub fn change_session(&mut self, client: usize) {
        self.changing.push_back(client);
    }

    /// How many clients want to change their session.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.changing.len()
    }

    /// The next client that wants to change its session.
    pub fn next_change(&mut self) -> Option<usize> {
        self.changing.pop_front()
    }

    /// Sets a timer that wakes `client` at `instant`.
    pub fn wake_at(&mut self, instant: Nanos, client: usize) {
        self.timers.push(Reverse((instant, client)));
    }

    /// Sets a timer that wakes `client` at the first tick that is not before `instant`.
    pub fn sleep_until(&mut self, instant: Nanos, client: usize) {
        let tick = self.timer_tick;
        let at = if tick > 1 { instant.div_ceil(tick).saturating_mul(tick) } else { instant };
        self.wake_at(at, client);
    }

    /// The next client whose timer has expired by `now`.
    pub fn due(&mut self, now: Nanos) -> Option<usize> {
        let Reverse((instant, client)) = *self.timers.peek()?;
        (instant <= now).then(|| {
            self.timers.pop();
            client
        })
    }

    /// When the next timer expires.
    #[must_use]
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((instant, _))| *instant)
    }
}
