//! The threads of the workers: starts them, adds workers while a load runs, and orders them to
//! redistribute the clients.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope};
use std::time::Duration;

use crate::clock::{Clock, Nanos, SECOND};
use crate::connections::Connections;
use crate::handover::{Order, OrderSender, orders};
use crate::interval::{Merged, Merger, Phase};
use crate::load_share::worker_of;
use crate::observer::Added;
use crate::outage::OutageTracker;
use crate::poller::Poller;
use crate::recorder::ScriptRecord;
use crate::schedule::Arrivals;
use crate::shared::Shared;
use crate::spec::Spec;
use crate::statement_template::Template;
use crate::timetable::Timetable;
use crate::worker::{Links, Worker};
use crate::worker_channel::{WorkerReceiver, WorkerSender};
use crate::worker_count_search::{Choice, Step, Tuning};
use crate::worker_message::{WorkerEnd, WorkerMessage};
use crate::worker_scaling::{Growth, Rule, Scaling, decide};

/// The part of a warm-up in which numbers of workers are tried: before it, connections are not warm
/// yet, and after it, the load is as it will be measured.
const TRIED: (f64, f64) = (0.1, 0.9);

/// What every thread of the engine works with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The specification of the run.
    pub spec: &'a Spec,
    /// Indexed by script and statement.
    pub templates: &'a [Vec<Template>],
    /// The engine's clock.
    pub clock: Clock,
    /// Stops all threads.
    pub stop: &'a AtomicBool,
    /// How late the latest worker started, in nanoseconds.
    pub delay: &'a AtomicU64,
}

/// The engine's channels to one worker.
#[derive(Debug)]
struct WorkerHandle {
    recycling: Sender<Vec<ScriptRecord>>,
    /// None after the worker was dismissed.
    orders: Option<OrderSender>,
    /// How many transactions its clients have ended.
    transactions: Arc<AtomicU64>,
    has_ended: bool,
}

/// A thread that is not a worker yet.
struct NewWorker {
    /// Sends the instant at which it begins.
    begin: Sender<Nanos>,
    handle: WorkerHandle,
}

/// A number of workers, some of which are not ready yet.
struct Pending {
    workers: usize,
    new_workers: Vec<NewWorker>,
    /// How many of them are not ready yet.
    awaited: usize,
    growth: Option<Growth>,
}

/// The main function of an added worker's thread: [`added_worker`] with one of the pollers.
pub type AddedWorker = fn(usize, Context<'_>, Timetable, &Receiver<Nanos>, Links);

/// All workers of a run, and how many of them share the clients.
pub struct WorkerPool<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    context: Context<'scope>,
    timetable: Timetable,
    added: AddedWorker,
    messages: WorkerSender,
    received: WorkerReceiver,
    handles: Vec<WorkerHandle>,
    /// How many workers share the clients.
    workers: usize,
    pending: Option<Pending>,
    last_added: Option<Nanos>,
    /// Whether the system has refused a worker: then no other is tried.
    is_refused: bool,
    /// Present while numbers of workers are tried.
    tuning: Option<Tuning>,
    /// Whether the number was chosen by measurement: then it does not change again.
    is_chosen: bool,
}

/// The arguments of [`WorkerPool::new`].
pub struct PoolParts<'scope> {
    /// What all threads share.
    pub context: Context<'scope>,
    /// When phases change.
    pub timetable: Timetable,
    /// The main function of an added worker's thread.
    pub added: AddedWorker,
    /// Both ends of the channel on which workers report.
    pub messages: (WorkerSender, WorkerReceiver),
}

/// Creates both sides of a worker's links: its own, and the engine's.
pub fn links(messages: &WorkerSender, outages: Option<Arc<OutageTracker>>) -> (Links, Channels) {
    let (recycling, recycled) = channel();
    let (sender, orders) = orders();
    let transactions = Arc::default();
    let links =
        Links { messages: messages.clone(), recycled, outages, orders, transactions: Arc::clone(&transactions) };
    (links, Channels(recycling, sender, transactions))
}

/// The engine's side of [`links`].
pub struct Channels(Sender<Vec<ScriptRecord>>, OrderSender, Arc<AtomicU64>);

impl Channels {
    /// Gives the worker an empty set of `records` in advance.
    pub fn spare(&self, records: usize) {
        let _ = self.0.send(vec![ScriptRecord::default(); records]);
    }
}

impl From<Channels> for WorkerHandle {
    fn from(Channels(recycling, orders, transactions): Channels) -> Self {
        Self { recycling, orders: Some(orders), transactions, has_ended: false }
    }
}

impl<'scope, 'env> WorkerPool<'scope, 'env> {
    /// Creates the pool from the workers that a run begins with, by number.
    pub fn new(scope: &'scope Scope<'scope, 'env>, beginning: PoolParts<'scope>, workers: Vec<Channels>) -> Self {
        let PoolParts { context, timetable, added, messages: (messages, received) } = beginning;
        Self {
            scope,
            context,
            tuning: tuning(context.spec, &timetable),
            timetable,
            added,
            messages,
            received,
            workers: workers.len(),
            handles: workers.into_iter().map(WorkerHandle::from).collect(),
            pending: None,
            last_added: None,
            is_refused: false,
            is_chosen: false,
        }
    }

    /// Waits for the next message. Some(None) means that it is time for [`WorkerPool::tune`]; None,
    /// that the last worker has ended.
    pub fn next(&mut self) -> Option<Option<WorkerMessage>> {
        let is_over = self.pending.is_none() && self.handles.iter().all(|handle| handle.has_ended);
        if is_over {
            return None;
        }
        let (Some(tuning), None) = (&self.tuning, &self.pending) else {
            return self.received.recv().ok().map(Some);
        };
        let wait = tuning.due().saturating_sub(self.context.clock.now());
        match self.received.recv_timeout(Duration::from_nanos(wait)) {
            Ok(message) => Some(Some(message)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// How many workers have clients.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.min(self.context.spec.clients)
    }

    /// Records that worker number `worker` has ended.
    pub fn ended(&mut self, worker: usize) {
        match self.handles.get_mut(worker) {
            Some(handle) => handle.has_ended = true,
            // it panicked before it became a worker
            None => self.pending = None,
        }
        // clients that have ended cannot be redistributed
        self.tuning = None;
        let (working, idle) = self.handles.split_at_mut(self.workers.min(self.context.spec.clients));
        if working.iter().all(|handle| handle.has_ended) {
            idle.iter_mut().for_each(|handle| handle.orders = None);
        }
    }

    /// Returns `records` to worker number `worker` for reuse.
    pub fn recycle(&self, worker: usize, records: Vec<ScriptRecord>) {
        // a worker that has ended needs none
        let _ = self.handles[worker].recycling.send(records);
    }

    /// Adds workers if an interval shows that there are too few.
    ///
    /// # Errors
    /// The system refused a thread; no other is tried then.
    pub fn scale(&mut self, merged: &Merged) -> io::Result<()> {
        let Scaling::Automatic(rule) = self.context.spec.scaling else {
            return Ok(());
        };
        let is_settled = self.is_chosen || self.tuning.is_some();
        if is_settled || self.pending.is_some() || self.is_ending(merged.phase) {
            return Ok(());
        }
        let rule = match merged.phase {
            // every interval of a warm-up counts: workers that are added then do not disturb the
            // results
            Phase::WarmUp => Rule { settling: rule.settling.min(Duration::from_nanos(SECOND)), ..rule },
            _ => rule,
        };
        let clients = self.context.spec.clients;
        match decide(rule, clients, self.last_added, merged.to, &merged.workers) {
            Some(growth) if !self.has_threads_for(growth.workers) => self.start_workers(growth.workers, Some(growth)),
            _ => Ok(()),
        }
    }

    /// Measures the current number of workers, and tries the next number, or chooses the best.
    ///
    /// # Errors
    /// The system refused a thread; no other is tried then.
    pub fn tune(&mut self) -> io::Result<Option<Choice>> {
        let Some(tuning) = &mut self.tuning else {
            return Ok(None);
        };
        let all = self.handles.iter();
        let transactions = all.map(|handle| handle.transactions.load(Ordering::Relaxed));
        let (workers, choice) = match tuning.look(self.context.clock.now(), transactions.sum()) {
            Step::Wait => return Ok(None),
            Step::Arrange(workers) => (workers, None),
            Step::Choose(choice) => (choice.workers, Some(choice)),
        };
        if choice.is_some() {
            self.tuning = None;
            self.is_chosen = true;
        }
        if self.context.stop.load(Ordering::Relaxed) {
            self.tuning = None;
        } else if self.has_threads_for(workers) {
            self.arrange(workers);
        } else {
            self.start_workers(workers, None)?;
        }
        Ok(choice)
    }

    fn is_ending(&self, phase: Phase) -> bool {
        let has_ended = self.handles.iter().any(|handle| handle.has_ended);
        phase == Phase::Drain || has_ended || self.is_refused || self.context.stop.load(Ordering::Relaxed)
    }

    fn has_threads_for(&self, workers: usize) -> bool {
        workers.min(self.context.spec.clients) <= self.handles.len()
    }

    /// Starts threads until there are `workers`; the clients are redistributed when all are ready.
    fn start_workers(&mut self, workers: usize, growth: Option<Growth>) -> io::Result<()> {
        let mut new_workers = Vec::new();
        for number in self.handles.len()..workers.min(self.context.spec.clients) {
            // workers are added only to loads whose clients do not reconnect: see `Spec::scaling`
            let (links, channels) = links(&self.messages, None);
            let (begin, begun) = channel();
            let (context, timetable, added) = (self.context, self.timetable.clone(), self.added);
            let body = move || added(number, context, timetable, &begun, links);
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn_scoped(self.scope, body)
                .inspect_err(|_| self.refused())?;
            let handle = channels.into();
            new_workers.push(NewWorker { begin, handle });
        }
        self.pending = Some(Pending { workers, awaited: new_workers.len(), new_workers, growth });
        Ok(())
    }

    fn refused(&mut self) {
        self.is_refused = true;
        self.tuning = None;
    }

    /// Handles the readiness or failure of an added thread; lets all of them begin when all are
    /// ready. Returns the workers that were added, unless numbers of workers are only being tried.
    ///
    /// # Errors
    /// The system's error for that thread; no other is tried then.
    pub fn ready(&mut self, result: io::Result<()>, merger: &mut Merger) -> io::Result<Vec<Added>> {
        // threads for a number that was given up end by themselves
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
        let any_ended = self.handles.iter().any(|handle| handle.has_ended);
        if any_ended || self.context.stop.load(Ordering::Relaxed) {
            return Ok(vec![]);
        }
        Ok(self.begin(pending, merger))
    }

    /// Lets the threads of `pending` begin, and redistributes the clients.
    fn begin(&mut self, pending: Pending, merger: &mut Merger) -> Vec<Added> {
        // no interval that was received ends later than now, but the first one of the new workers
        // does
        let from = self.context.clock.now();
        let before = self.workers;
        for new_worker in pending.new_workers {
            if new_worker.begin.send(from).is_ok() {
                merger.join(from);
                self.handles.push(new_worker.handle);
            }
        }
        self.arrange(pending.workers);
        let Some(growth) = pending.growth else {
            return vec![];
        };
        self.last_added = Some(from);
        let (clients, workers) = (self.context.spec.clients, self.workers);
        let clients_of = |worker| {
            let all = 0..clients;
            all.filter(|client| worker_of(*client, workers) == worker).count()
        };
        let added = before..workers.min(clients);
        added
            .map(|worker| Added {
                worker,
                at: from,
                donor: worker_of(worker, before),
                clients: clients_of(worker),
                share: growth.share,
            })
            .collect()
    }

    /// Orders the first `workers` workers to share the clients.
    fn arrange(&mut self, workers: usize) {
        if workers == self.workers {
            return;
        }
        let receivers = workers.min(self.handles.len());
        let (senders, mut from): (Vec<_>, Vec<_>) = (0..receivers)
            .map(|_| {
                let (to, from) = channel();
                (to, Some(from))
            })
            .unzip();
        for (number, handle) in self.handles.iter().enumerate() {
            let Some(orders) = &handle.orders else {
                continue;
            };
            let has_clients = number < self.workers;
            let to = senders.iter().enumerate().map(|(other, to)| (has_clients && other != number).then(|| to.clone()));
            orders.give(Order { workers, to: to.collect(), from: from.get_mut(number).and_then(Option::take) });
        }
        self.workers = workers;
    }
}

/// The trial of numbers of workers in the warm-up, for a closed loop without pauses: otherwise
/// throughput does not depend on their number.
fn tuning(spec: &Spec, timetable: &Timetable) -> Option<Tuning> {
    let Scaling::Automatic(rule) = spec.scaling else {
        return None;
    };
    let pauses = spec.pacing.iter().any(crate::pacing::Pacing::pauses);
    // transactions that are counted belong to a client, so none may be part of a trial
    if spec.arrivals != Arrivals::Closed || pauses || timetable.deadline.is_none() {
        return None;
    }
    let length = (timetable.measure - timetable.origin) as f64;
    let [from, end] = [TRIED.0, TRIED.1].map(|at| timetable.origin + (length * at) as Nanos);
    Tuning::new(&rule.numbers(spec.clients), spec.workers, from, end)
}

/// The main function of an added worker's thread: gets ready, then waits for its start.
pub fn added_worker<P: Poller>(
    number: usize,
    context: Context<'_>,
    timetable: Timetable,
    begun: &Receiver<Nanos>,
    links: Links,
) {
    let _last_message = LastMessage::of(number, &links);
    let log = context.spec.log.as_ref().and_then(|log| log.files.get(number));
    let ready = Connections::<P>::new(context.spec.clients, context.clock, context.spec).and_then(|connections| {
        log.map_or(Ok(()), crate::log_spec::LogFile::create)?;
        Ok(connections)
    });
    let Context { spec, templates, clock, stop, .. } = context;
    let shared = Shared::new(number, spec, templates, clock, stop);
    let (result, connections) = match ready {
        Ok(connections) => (Ok(()), Some(connections)),
        Err(error) => (Err(error), None),
    };
    // the engine receives messages as long as it waits for this one
    links.messages.send(WorkerMessage::Ready(result));
    // it became ready too late, or the poller failed: it never became a worker
    let (Some(connections), Ok(from)) = (connections, begun.recv()) else {
        return;
    };
    let mut worker = Worker::new(number, Vec::new(), connections, shared, timetable, links);
    worker.begin_idle(from);
    worker.run();
    // a worker that was only tried leaves no log
    if let Some(log) = log {
        log.remove_empty();
    }
}

/// Reports a worker's end if it panics, because the engine waits for a last message from each.
pub struct LastMessage {
    worker: usize,
    messages: WorkerSender,
}

impl LastMessage {
    /// For worker number `worker`.
    pub fn of(worker: usize, links: &Links) -> Self {
        Self { worker, messages: links.messages.clone() }
    }
}

impl Drop for LastMessage {
    fn drop(&mut self) {
        if thread::panicking() {
            let end = WorkerEnd::idle(self.worker, Some(io::Error::other("a worker panicked")));
            self.messages.send(WorkerMessage::Ended(end));
        }
    }
}
