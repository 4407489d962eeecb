//! What the clients of one worker share: the schedule, the recorder, the instants that matter.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use pgdyno_script::{QueryMode, Rng};
use pgdyno_wire::printable;

use crate::clock::{Clock, Nanos};
use crate::interval::ErrorNote;
use crate::log::{Entry, Log};
use crate::message::Template;
use crate::pacing::Pacing;
use crate::recorder::Recorder;
use crate::schedule::Schedule;
use crate::spec::{Pipelining, Sessions, Spec, Timing};

/// Lent to a client at every step. One a worker: nothing in it is locked.
#[derive(Debug)]
pub struct Shared<'a> {
    /// What is run.
    pub spec: &'a Spec,
    /// By script and statement.
    pub templates: &'a [Vec<Template>],
    /// The engine's clock.
    pub clock: Clock,
    /// Intended starts.
    pub schedule: Schedule,
    /// Counts and latencies.
    pub recorder: Recorder,
    /// Errors that are not yet handed on.
    pub notes: Vec<ErrorNote>,
    /// End of measuring; None when transactions are counted.
    pub deadline: Option<Nanos>,
    /// See [`Spec::latency_limit`].
    pub latency_limit: Option<Nanos>,
    /// End of the last transaction.
    pub last_end: Nanos,
    /// Whether meta commands are timed.
    pub times_every_command: bool,
    /// Whether a statement is one Query message, which is answered without a Sync.
    pub is_simple: bool,
    /// Whether every transaction has a connection of its own.
    pub reconnects: bool,
    /// Whether clients key or think.
    pub pauses: bool,
    /// Whether statements that need no earlier result share a round trip.
    pub auto_pipeline: bool,
    /// -l
    log: Option<Log<'a>>,
    choice: Rng,
    total_weight: u64,
    timers: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Clients that wait for a connection.
    unconnected: VecDeque<usize>,
    stop: &'a AtomicBool,
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
        let times_every_command = spec.timing == Timing::EveryCommand;
        let timed: Vec<Vec<bool>> = spec
            .programs
            .iter()
            .map(|p| {
                p.program
                    .commands
                    .iter()
                    .map(|command| times_every_command || command.statement.is_some())
                    .collect()
            })
            .collect();
        Self {
            spec,
            templates,
            clock,
            schedule: Schedule::new(
                spec.arrivals,
                spec.workers,
                Rng::seed(spec.seeds.arrivals[worker]),
            ),
            recorder: Recorder::new(&timed),
            notes: Vec::new(),
            deadline: None,
            latency_limit: spec.latency_limit.map(|limit| limit.as_nanos() as Nanos),
            last_end: 0,
            times_every_command,
            is_simple: spec.mode == QueryMode::Simple,
            reconnects: spec.sessions == Sessions::PerTransaction,
            pauses: spec.pacing.iter().any(Pacing::pauses),
            auto_pipeline: spec.pipelining == Pipelining::Auto,
            log: Log::open(worker, spec, clock),
            choice: Rng::seed(spec.seeds.choice[worker]),
            total_weight: spec.programs.iter().map(|p| u64::from(p.weight)).sum(),
            timers: BinaryHeap::new(),
            unconnected: VecDeque::new(),
            stop,
        }
    }

    /// Draws a script by weight.
    pub fn choose_script(&mut self) -> usize {
        if self.spec.programs.len() == 1 {
            return 0;
        }
        let drawn = self.choice.range_i64(0, self.total_weight as i64 - 1) as u64;
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

    /// Whether no transaction is to begin at `now`.
    #[must_use]
    pub fn stops(&self, now: Nanos) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline) || self.stopped()
    }

    /// Whether all is to end at once.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A client gave up.
    pub fn client_aborted(&mut self) {
        if self.spec.exit_on_abort {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// The load begins; only the first call of a worker counts.
    pub fn begin(&mut self, now: Nanos) {
        if self.spec.warmup.is_zero() {
            self.begin_log(now);
        }
    }

    /// The warm-up is over. The log begins where the results begin, whatever a clock says.
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

    /// Says a step, if all are to be said.
    #[inline]
    pub fn debug(&self, text: impl FnOnce() -> String) {
        if let Some(program) = &self.spec.debug {
            // standard error may be closed; nothing depends on it
            let _ = writeln!(std::io::stderr(), "{program}: {}", printable(&text()));
        }
    }

    /// Asks for a connection for `client`.
    pub fn connect(&mut self, client: usize) {
        self.unconnected.push_back(client);
    }

    /// The next client that is to be connected.
    pub fn next_unconnected(&mut self) -> Option<usize> {
        self.unconnected.pop_front()
    }

    /// Wakes `client` at `instant`.
    pub fn wake_at(&mut self, instant: Nanos, client: usize) {
        self.timers.push(Reverse((instant, client)));
    }

    /// The next client that was to be woken by `now`.
    pub fn due(&mut self, now: Nanos) -> Option<usize> {
        let Reverse((instant, client)) = *self.timers.peek()?;
        (instant <= now).then(|| {
            self.timers.pop();
            client
        })
    }

    /// When the next client is to be woken.
    #[must_use]
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((instant, _))| *instant)
    }
}
