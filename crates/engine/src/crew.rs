//! The workers of a run, seen from the thread that merges what they report; and how their number changes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread::{self, Scope};
use std::time::Duration;

use crate::clock::{Clock, Nanos, SECOND};
use crate::handover::{Order, OrderSender, orders, worker_of};
use crate::interval::{Merged, Merger, Phase};
use crate::message::Template;
use crate::poller::Poller;
use crate::reconnect::Returning;
use crate::recorder::ScriptRecord;
use crate::scaling::{Growth, Rule, Scaling, decide};
use crate::schedule::Arrivals;
use crate::shared::Shared;
use crate::spec::Spec;
use crate::timetable::Timetable;
use crate::tuning::{Choice, Step, Tuning};
use crate::worker::{Connections, Links, Word, Worker, WorkerEnd};

/// The part of a warm-up in which numbers of workers are tried: connections are not yet warm before it,
/// and after it the load is as it will be measured.
const TRIED: (f64, f64) = (0.1, 0.9);

/// A worker was added while the load ran, because others were too busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Added {
    /// Its number.
    pub worker: usize,
    /// When, since the engine's start.
    pub at: Nanos,
    /// The worker whose clients it shares.
    pub donor: usize,
    /// Clients that it takes over.
    pub clients: usize,
    /// Share of a core that the busiest worker used.
    pub share: f64,
}

/// What every thread of the engine works with.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// What is run.
    pub spec: &'a Spec,
    /// By script and statement.
    pub templates: &'a [Vec<Template>],
    /// The engine's clock.
    pub clock: Clock,
    /// Ends all.
    pub stop: &'a AtomicBool,
    /// How much later than meant a worker began, at most; nanoseconds.
    pub late: &'a AtomicU64,
}

/// How one worker is spoken to.
#[derive(Debug)]
struct Line {
    recycling: Sender<Vec<ScriptRecord>>,
    /// None once the worker is dismissed.
    orders: Option<OrderSender>,
    /// Transactions that its clients have ended.
    transactions: Arc<AtomicU64>,
    has_ended: bool,
}

/// A thread that is not a worker yet.
struct Candidate {
    /// When it begins.
    begin: Sender<Nanos>,
    line: Line,
}

/// A number of workers that waits for some of them to get ready.
struct Pending {
    workers: usize,
    candidates: Vec<Candidate>,
    /// How many candidates are not ready yet.
    awaited: usize,
    growth: Option<Growth>,
}

/// A worker's thread before it has clients: [`hired`] with one of the pollers.
pub type Hired = fn(usize, Stage<'_>, Timetable, &Receiver<Nanos>, Links);

/// All workers.
pub struct Crew<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    stage: Stage<'scope>,
    timetable: Timetable,
    hired: Hired,
    words: SyncSender<Word>,
    received: Receiver<Word>,
    lines: Vec<Line>,
    /// How many workers share the clients.
    workers: usize,
    pending: Option<Pending>,
    last_added: Option<Nanos>,
    /// The system refused a worker: no other is tried.
    is_refused: bool,
    /// While numbers of workers are tried.
    tuning: Option<Tuning>,
    /// A measured number of workers is not changed again.
    is_chosen: bool,
}

/// What [`Crew`] is made from.
pub struct Beginning<'scope> {
    /// What every thread works with.
    pub stage: Stage<'scope>,
    /// When phases change.
    pub timetable: Timetable,
    /// What a further worker's thread does.
    pub hired: Hired,
    /// Both ends of what the workers report.
    pub words: (SyncSender<Word>, Receiver<Word>),
}

/// Both sides of a worker's links: its own, and the engine's.
pub fn links(words: &SyncSender<Word>, returning: Option<Returning>) -> (Links, Channels) {
    let (recycling, recycled) = channel();
    let (sender, orders) = orders();
    let transactions = Arc::default();
    let links = Links {
        words: words.clone(),
        recycled,
        returning,
        orders,
        transactions: Arc::clone(&transactions),
    };
    (links, Channels(recycling, sender, transactions))
}

/// The engine's side of [`links`].
pub struct Channels(Sender<Vec<ScriptRecord>>, OrderSender, Arc<AtomicU64>);

impl Channels {
    /// Gives the worker an empty set of `records` beforehand.
    pub fn spare(&self, records: usize) {
        let _ = self.0.send(vec![ScriptRecord::default(); records]);
    }
}

impl From<Channels> for Line {
    fn from(Channels(recycling, orders, transactions): Channels) -> Self {
        Self {
            recycling,
            orders: Some(orders),
            transactions,
            has_ended: false,
        }
    }
}

impl<'scope, 'env> Crew<'scope, 'env> {
    /// The workers that a run begins with, by number.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        beginning: Beginning<'scope>,
        workers: Vec<Channels>,
    ) -> Self {
        let Beginning {
            stage,
            timetable,
            hired,
            words: (words, received),
        } = beginning;
        Self {
            scope,
            stage,
            tuning: tuning(stage.spec, &timetable),
            timetable,
            hired,
            words,
            received,
            workers: workers.len(),
            lines: workers.into_iter().map(Line::from).collect(),
            pending: None,
            last_added: None,
            is_refused: false,
            is_chosen: false,
        }
    }

    /// Waits for the next word, which is None when it is time for [`Crew::tune`]; None in all when the
    /// last worker has ended.
    pub fn next(&mut self) -> Option<Option<Word>> {
        let is_over = self.pending.is_none() && self.lines.iter().all(|line| line.has_ended);
        if is_over {
            return None;
        }
        let (Some(tuning), None) = (&self.tuning, &self.pending) else {
            return self.received.recv().ok().map(Some);
        };
        let wait = tuning.due().saturating_sub(self.stage.clock.now());
        match self.received.recv_timeout(Duration::from_nanos(wait)) {
            Ok(word) => Some(Some(word)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// How many workers have clients.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.min(self.stage.spec.clients)
    }

    /// Worker number `worker` has ended.
    pub fn ended(&mut self, worker: usize) {
        match self.lines.get_mut(worker) {
            Some(line) => line.has_ended = true,
            // it panicked before it was one
            None => self.pending = None,
        }
        // clients that are gone are shared out no more
        self.tuning = None;
        let (working, idle) = self
            .lines
            .split_at_mut(self.workers.min(self.stage.spec.clients));
        if working.iter().all(|line| line.has_ended) {
            idle.iter_mut().for_each(|line| line.orders = None);
        }
    }

    /// Gives `records` back to worker number `worker`.
    pub fn recycle(&self, worker: usize, records: Vec<ScriptRecord>) {
        // one that has ended needs none
        let _ = self.lines[worker].recycling.send(records);
    }

    /// Looks at an interval, and begins to add workers if it shows that they are too few.
    ///
    /// # Errors
    /// When the system refuses a thread; no other is tried then.
    pub fn look(&mut self, merged: &Merged) -> io::Result<()> {
        let Scaling::Automatic(rule) = self.stage.spec.scaling else {
            return Ok(());
        };
        let is_settled = self.is_chosen || self.tuning.is_some();
        if is_settled || self.pending.is_some() || self.is_ending(merged.phase) {
            return Ok(());
        }
        let rule = match merged.phase {
            // every interval of a warm-up counts: what is settled in it does not disturb the results
            Phase::WarmUp => Rule {
                settling: rule.settling.min(Duration::from_nanos(SECOND)),
                ..rule
            },
            _ => rule,
        };
        let clients = self.stage.spec.clients;
        match decide(rule, clients, self.last_added, merged.to, &merged.workers) {
            Some(growth) if !self.has_threads_for(growth.workers) => {
                self.hire(growth.workers, Some(growth))
            }
            _ => Ok(()),
        }
    }

    /// Looks at how the current number of workers does, and tries the next, or takes the best.
    ///
    /// # Errors
    /// When the system refuses a thread; no other is tried then.
    pub fn tune(&mut self) -> io::Result<Option<Choice>> {
        let Some(tuning) = &mut self.tuning else {
            return Ok(None);
        };
        let all = self.lines.iter();
        let transactions = all.map(|line| line.transactions.load(Ordering::Relaxed));
        let (workers, choice) = match tuning.look(self.stage.clock.now(), transactions.sum()) {
            Step::Wait => return Ok(None),
            Step::Arrange(workers) => (workers, None),
            Step::Choose(choice) => (choice.workers, Some(choice)),
        };
        if choice.is_some() {
            self.tuning = None;
            self.is_chosen = true;
        }
        if self.stage.stop.load(Ordering::Relaxed) {
            self.tuning = None;
        } else if self.has_threads_for(workers) {
            self.arrange(workers);
        } else {
            self.hire(workers, None)?;
        }
        Ok(choice)
    }

    fn is_ending(&self, phase: Phase) -> bool {
        let has_ended = self.lines.iter().any(|line| line.has_ended);
        phase == Phase::Drain
            || has_ended
            || self.is_refused
            || self.stage.stop.load(Ordering::Relaxed)
    }

    fn has_threads_for(&self, workers: usize) -> bool {
        workers.min(self.stage.spec.clients) <= self.lines.len()
    }

    /// Starts threads until there are `workers`; the clients are shared out when all are ready.
    fn hire(&mut self, workers: usize, growth: Option<Growth>) -> io::Result<()> {
        let mut candidates = Vec::new();
        for number in self.lines.len()..workers.min(self.stage.spec.clients) {
            // workers are added only to loads whose lost clients stay lost: see `Spec::scaling`
            let (links, channels) = links(&self.words, None);
            let (begin, begun) = channel();
            let (stage, timetable, hired) = (self.stage, self.timetable.clone(), self.hired);
            let body = move || hired(number, stage, timetable, &begun, links);
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn_scoped(self.scope, body)
                .inspect_err(|_| self.refused())?;
            let line = channels.into();
            candidates.push(Candidate { begin, line });
        }
        self.pending = Some(Pending {
            workers,
            awaited: candidates.len(),
            candidates,
            growth,
        });
        Ok(())
    }

    fn refused(&mut self) {
        self.is_refused = true;
        self.tuning = None;
    }

    /// One of the threads that were hired is ready, or is not; lets them begin when all are. Those
    /// that were added, unless numbers of workers are only tried.
    ///
    /// # Errors
    /// What the system refused to it; no other is tried then.
    pub fn hired(&mut self, result: io::Result<()>, merger: &mut Merger) -> io::Result<Vec<Added>> {
        // those of a number that was given up end by themselves
        let Some(pending) = &mut self.pending else {
            return Ok(vec![]);
        };
        if let Err(error) = result {
            self.pending = None;
            self.refused();
            return Err(error);
        }
        pending.awaited -= 1;
        if pending.awaited > 0 {
            return Ok(vec![]);
        }
        let Some(pending) = self.pending.take() else {
            return Ok(vec![]);
        };
        let any_ended = self.lines.iter().any(|line| line.has_ended);
        if any_ended || self.stage.stop.load(Ordering::Relaxed) {
            return Ok(vec![]);
        }
        // no interval that was received ends later than now: the first one of the new workers does
        let from = self.stage.clock.now();
        let before = self.workers;
        for candidate in pending.candidates {
            if candidate.begin.send(from).is_ok() {
                merger.join(from);
                self.lines.push(candidate.line);
            }
        }
        self.arrange(pending.workers);
        let Some(growth) = pending.growth else {
            return Ok(vec![]);
        };
        self.last_added = Some(from);
        let (clients, workers) = (self.stage.spec.clients, self.workers);
        let clients_of = |worker| {
            let all = 0..clients;
            all.filter(|client| worker_of(*client, workers) == worker)
                .count()
        };
        let added = before..workers.min(clients);
        Ok(added
            .map(|worker| Added {
                worker,
                at: from,
                donor: worker_of(worker, before),
                clients: clients_of(worker),
                share: growth.share,
            })
            .collect())
    }

    /// Has the clients shared out among the first `workers` workers.
    fn arrange(&mut self, workers: usize) {
        if workers == self.workers {
            return;
        }
        let receivers = workers.min(self.lines.len());
        let (senders, mut from): (Vec<_>, Vec<_>) = (0..receivers)
            .map(|_| {
                let (to, from) = channel();
                (to, Some(from))
            })
            .unzip();
        for (number, line) in self.lines.iter().enumerate() {
            let Some(orders) = &line.orders else { continue };
            let has_clients = number < self.workers;
            let to = senders
                .iter()
                .enumerate()
                .map(|(other, to)| (has_clients && other != number).then(|| to.clone()));
            orders.give(Order {
                workers,
                to: to.collect(),
                from: from.get_mut(number).and_then(Option::take),
            });
        }
        self.workers = workers;
    }
}

/// Numbers of workers are tried in the warm-up of a closed loop without pauses: otherwise throughput
/// does not depend on them.
fn tuning(spec: &Spec, timetable: &Timetable) -> Option<Tuning> {
    let Scaling::Automatic(rule) = spec.scaling else {
        return None;
    };
    let pauses = spec.pacing.iter().any(crate::pacing::Pacing::pauses);
    // a transaction that is counted is the client's own: none of them may be part of a trial
    if spec.arrivals != Arrivals::Closed || pauses || timetable.deadline.is_none() {
        return None;
    }
    let length = (timetable.measure - timetable.origin) as f64;
    let [from, end] = [TRIED.0, TRIED.1].map(|at| timetable.origin + (length * at) as Nanos);
    Tuning::new(&rule.numbers(spec.clients), spec.workers, from, end)
}

/// The thread of a worker that is added: gets ready, then waits for the word to begin.
pub fn hired<P: Poller>(
    number: usize,
    stage: Stage<'_>,
    timetable: Timetable,
    begun: &Receiver<Nanos>,
    links: Links,
) {
    let _last_word = LastWord::of(number, &links);
    let log = stage
        .spec
        .log
        .as_ref()
        .and_then(|log| log.files.get(number));
    let ready = Connections::<P>::new(stage.spec.clients, stage.clock).and_then(|connections| {
        log.map_or(Ok(()), crate::log::LogFile::create)?;
        Ok(connections)
    });
    let (said, connections) = match ready {
        Ok(connections) => (Ok(()), Some(connections)),
        Err(error) => (Err(error), None),
    };
    // the engine listens as long as it waits for this
    let _ = links.words.send(Word::Hired(said));
    // it was too late, or the poller is not there: it never was a worker
    let (Some(connections), Ok(from)) = (connections, begun.recv()) else {
        return;
    };
    let Stage {
        spec,
        templates,
        clock,
        stop,
        ..
    } = stage;
    let shared = Shared::new(number, spec, templates, clock, stop);
    let mut worker = Worker::new(number, Vec::new(), connections, shared, timetable, links);
    worker.begin_idle(from);
    worker.run();
    // a worker that was only tried leaves no log
    if let Some(log) = log {
        log.remove_empty();
    }
}

/// Tells of a worker's end if it panics: the engine waits for a last word of each.
pub struct LastWord {
    worker: usize,
    words: SyncSender<Word>,
}

impl LastWord {
    /// For worker number `worker`.
    pub fn of(worker: usize, links: &Links) -> Self {
        Self {
            worker,
            words: links.words.clone(),
        }
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        if thread::panicking() {
            let end = WorkerEnd::idle(self.worker, Some(io::Error::other("a worker panicked")));
            // nobody listens only when the engine itself is gone
            let _ = self.words.send(Word::Ended(end));
        }
    }
}
