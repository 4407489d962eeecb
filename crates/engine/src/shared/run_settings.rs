//! What stays the same during a run, for the clients of one worker.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pgdyno_script::QueryMode;
use pgdyno_wire::printable;

use crate::clock::{Clock, Nanos};
use crate::outage::SharedOutages;
use crate::pacing::Pacing;
use crate::spec::{OnLoss, Pipelining, Preparing, Sessions, Spec, Timing};
use crate::statement_template::Template;

/// What every thread of the engine works with.
#[derive(Clone)]
pub struct Context<'a> {
    pub spec: &'a Spec,
    /// Indexed by script and statement.
    pub templates: &'a [Vec<Template>],
    pub clock: Clock,
    pub stop: &'a AtomicBool,
    /// How late the latest worker started, in nanoseconds.
    pub delay: &'a AtomicU64,
    /// None when a lost connection is not replaced.
    pub outages: Option<Arc<SharedOutages>>,
}

/// What a client does whose connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterLoss {
    Abort,
    /// It continues without a session, until its driver requests another one.
    EndSession,
    /// It continues with its next transaction, which has a connection of its own.
    EndTransaction,
    Reconnect,
}

/// What stays the same during a run, as the clients of one worker need it.
#[derive(Debug)]
pub struct RunSettings<'a> {
    pub worker: usize,
    pub spec: &'a Spec,
    /// Indexed by script and statement.
    pub templates: &'a [Vec<Template>],
    /// For each script, how many statements the scripts before it have; and the sum of all.
    firsts: Vec<usize>,
    /// End of the warm-up.
    pub measure: Nanos,
    /// End of measuring; None when transactions are counted.
    pub deadline: Option<Nanos>,
    /// See [`Spec::latency_limit`].
    pub latency_limit: Option<Nanos>,
    pub times_every_command: bool,
    /// Whether a statement is one Query message, which is answered without a Sync.
    pub is_simple: bool,
    /// Whether every transaction has a connection of its own.
    pub reconnects: bool,
    /// Whether drivers decide when sessions and transactions begin.
    pub driven_sessions: bool,
    pub after_loss: AfterLoss,
    /// Whether clients have keying or think times.
    pub pauses: bool,
    /// Whether statements that need no earlier result share a round trip.
    pub auto_pipeline: bool,
    /// Whether a statement is prepared in a round trip of its own.
    pub prepares_ahead: bool,
    /// Whether notices go to standard error.
    pub prints_notices: bool,
    stop: &'a AtomicBool,
}

impl<'a> RunSettings<'a> {
    /// For worker number `worker`, whose load has not begun.
    pub fn new(worker: usize, context: &Context<'a>) -> Self {
        let Context { spec, templates, stop, .. } = *context;
        let counts = templates.iter().map(Vec::len);
        let firsts = std::iter::once(0).chain(counts.scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
        let driven_sessions = spec.sessions == Sessions::Driven;
        Self {
            worker,
            spec,
            templates,
            firsts: firsts.collect(),
            measure: 0,
            deadline: None,
            latency_limit: spec.latency_limit.map(|limit| limit.as_nanos() as Nanos),
            times_every_command: spec.timing == Timing::EveryCommand,
            is_simple: spec.mode == QueryMode::Simple,
            reconnects: spec.sessions == Sessions::PerTransaction,
            driven_sessions,
            after_loss: match spec.on_loss {
                OnLoss::Reconnect { .. } => AfterLoss::Reconnect,
                OnLoss::Count => AfterLoss::EndTransaction,
                OnLoss::Abort if driven_sessions => AfterLoss::EndSession,
                OnLoss::Abort => AfterLoss::Abort,
            },
            pauses: spec.pacing.iter().any(Pacing::pauses),
            auto_pipeline: spec.pipelining == Pipelining::Auto,
            prepares_ahead: spec.preparing == Preparing::Ahead,
            prints_notices: spec.drivers.as_ref().is_none_or(|drivers| drivers.prints_notices()),
            stop,
        }
    }

    pub fn statements(&self) -> usize {
        *self.firsts.last().expect("it begins with 0")
    }

    /// Number of a statement of a script among those of all scripts.
    pub fn statement_number(&self, script: usize, statement: usize) -> usize {
        self.firsts[script] + statement
    }

    /// The statement of `script` with this number among those of all scripts.
    pub fn statement_in(&self, script: usize, number: usize) -> usize {
        number - self.firsts[script]
    }

    pub fn stops(&self, now: Nanos) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline) || self.is_stopped()
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the load if a client that gives up is to end it.
    pub fn stop_after_abort(&self) {
        if self.spec.exit_on_abort {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn debug(&self, text: impl FnOnce() -> String) {
        if let Some(program) = &self.spec.debug {
            // standard error may be closed, which must not stop the load
            let _ = writeln!(std::io::stderr(), "{program}: {}", printable(&text()));
        }
    }
}
