//! From a [`Spec`] to a [`Report`]: connects the clients, starts the workers together, and merges their reports.

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope};
use std::time::Duration;

use crate::client::Client;
use crate::clock::{Clock, Nanos, SECOND};
use crate::connections::{Connections, Purpose, Request};
use crate::listener::{Listener, LoadStart};
use crate::observer::{Connected, Observer, RunError};
use crate::outage::SharedOutages;
use crate::poller::{self, Epoll, Poller, Uring};
use crate::recorder::ScriptRecord;
use crate::report::Report;
use crate::shared::{Context, Shared};
use crate::spec::{Limit, Sessions, Spec};
use crate::statement_template::templates;
use crate::timetable::{Planned, Timetable};
pub use crate::worker::LONGEST_SHUTDOWN;
use crate::worker::{Links, Worker};
use crate::worker_channel::{WorkerEnd, WorkerMessage, WorkerSender, worker_channel};

/// How long a worker that waits for its start sleeps before it checks whether it is to stop.
const LONGEST_SLEEP: Nanos = SECOND / 10;

/// How many sets of records a worker of a run with phases has in reserve.
const SPARE_RECORDS: usize = 2;

enum Ready {
    Connected {
        /// When it began to connect.
        from: Nanos,
        to: Nanos,
    },
    Failed(RunError),
}

/// Runs `spec` to its end or until `stop` is set.
///
/// # Errors
/// The load could not begin. Later errors are in the report.
pub fn run(spec: &Spec, clock: Clock, stop: &AtomicBool, observer: &mut impl Observer) -> Result<Report, RunError> {
    let templates = templates(&spec.programs, spec.mode).map_err(RunError::Statement)?;
    let (work, io) = thread_function(spec)?;
    let delay = AtomicU64::new(0);
    let outages = spec.on_loss.reconnects().then(|| Arc::new(SharedOutages::new(spec.clients)));
    let context = Context { spec, templates: &templates, clock, stop, delay: &delay, outages: outages.clone() };
    let messages = worker_channel();
    thread::scope(|scope| {
        let begun = begin_workers(scope, &context, work, &messages.0)?;
        let connecting = await_all(&begun.readiness, spec.workers, stop)?;
        let timetable = timetable(spec, observer.ready(clock, connecting)?);
        begun.start(&timetable);
        observer.connected(&Connected { connecting, origin: timetable.origin, measure: timetable.measure, io });
        let start = LoadStart { timetable, connecting, clock, delay: &delay, outages };
        Listener::new(spec, start, messages.1, begun.recycling, observer).listen(stop)
    })
}

fn thread_function(spec: &Spec) -> Result<(Work, &'static str), RunError> {
    let connections = spec.clients.div_ceil(spec.workers);
    let kind = poller::choose(spec.io, spec.workers, connections).map_err(RunError::System)?;
    Ok(match kind {
        poller::PollerKind::Epoll => (work::<Epoll>, Epoll::NAME),
        poller::PollerKind::IoUring => (work::<Uring>, Uring::NAME),
    })
}

struct BegunWorkers {
    /// Pass each worker its start.
    starts: Vec<Sender<Timetable>>,
    recycling: Vec<Sender<Vec<ScriptRecord>>>,
    /// On which each worker reports that it can begin.
    readiness: Receiver<Ready>,
}

impl BegunWorkers {
    fn start(&self, timetable: &Timetable) {
        for start in &self.starts {
            // a worker that has ended has reported why
            let _ = start.send(timetable.clone());
        }
    }
}

fn begin_workers<'scope>(
    scope: &'scope Scope<'scope, '_>, context: &Context<'scope>, work: Work, messages: &WorkerSender,
) -> Result<BegunWorkers, RunError> {
    let spec = context.spec;
    let (ready, readiness) = channel();
    let mut begun = BegunWorkers { starts: Vec::new(), recycling: Vec::new(), readiness };
    for number in 0..spec.workers {
        let (start, started) = channel();
        let (recycling, recycled) = channel();
        let links = Links { messages: messages.clone(), recycled };
        begun.starts.push(start);
        if spec.phases.is_some() {
            // the records of all phases are large: allocated during the load, they would delay it
            let records = spec.programs.len() * spec.phase_count();
            let spare = || vec![ScriptRecord::default(); records];
            (0..SPARE_RECORDS).for_each(|_| recycling.send(spare()).expect("its receiver waits below"));
        }
        begun.recycling.push(recycling);
        let (ready, messages, context) = (ready.clone(), messages.clone(), context.clone());
        let body = move || {
            let worked = catch_unwind(AssertUnwindSafe(|| work(number, context, &ready, &started, links)));
            // the engine waits for one or the other, and a scope for threads would panic, too
            if worked.is_err() {
                let error = || io::Error::other(format!("worker {number} panicked"));
                let _ = ready.send(Ready::Failed(RunError::System(error())));
                messages.send(WorkerMessage::Ended(WorkerEnd::panicked(number, error())));
            }
        };
        thread::Builder::new().name(format!("worker-{number}")).spawn_scoped(scope, body).map_err(RunError::System)?;
    }
    Ok(begun)
}

fn timetable(spec: &Spec, origin: Nanos) -> Timetable {
    let measure = origin + spec.warmup.as_nanos() as Nanos;
    let deadline = match spec.limit {
        Limit::Transactions(_) | Limit::Driven => None,
        Limit::Duration(duration) => Some(measure + duration.as_nanos() as Nanos),
    };
    let planned = spec.phases.as_ref().map_or_else(Vec::new, |phases| {
        let numbered = phases.specs().iter().enumerate();
        numbered
            .map(|(number, phase)| {
                let (from, to) = phases.bounds(number);
                Planned { from: origin + from, to: origin + to, result: phase.result }
            })
            .collect()
    });
    Timetable { origin, measure, deadline, planned }
}

/// [`work`] with one of the pollers.
type Work = fn(usize, Context<'_>, &Sender<Ready>, &Receiver<Timetable>, Links);

fn work<P: Poller>(
    number: usize, context: Context<'_>, ready: &Sender<Ready>, started: &Receiver<Timetable>, links: Links,
) {
    let Context { spec, clock, stop, delay, .. } = context;
    let share = spec.clients_of(number);
    let from = clock.now();
    let connections: Connections<P> = match connect_all(spec, share.clone(), clock, stop) {
        Ok(connections) => connections,
        Err(error) => {
            let _ = ready.send(Ready::Failed(error));
            return;
        }
    };
    let connected = clock.now();
    // all of this takes time, so it comes before the load's origin
    let shared = Shared::new(number, context);
    let clients = share.map(|id| Client::new(id, &shared)).collect();
    let _ = ready.send(Ready::Connected { from, to: connected });
    // without a start, the run does not begin
    let Ok(timetable) = started.recv() else {
        return;
    };
    let origin = timetable.origin;
    let worker = Worker::new(number, clients, connections, shared, timetable, links);
    delay.fetch_max(await_instant(origin, clock, stop), Ordering::Relaxed);
    worker.run();
}

fn await_instant(instant: Nanos, clock: Clock, stop: &AtomicBool) -> Nanos {
    loop {
        let now = clock.now();
        if now >= instant || stop.load(Ordering::Relaxed) {
            return now.saturating_sub(instant);
        }
        thread::sleep(Duration::from_nanos((instant - now).min(LONGEST_SLEEP)));
    }
}

fn connect_all<P: Poller>(
    spec: &Spec, share: Range<usize>, clock: Clock, stop: &AtomicBool,
) -> Result<Connections<P>, RunError> {
    let mut connections = Connections::new(share.len(), clock, spec).map_err(RunError::System)?;
    let begins_connected = |client: usize| match (spec.sessions, &spec.drivers) {
        (Sessions::Kept, _) => true,
        // every transaction makes its own connection
        (Sessions::PerTransaction, _) => false,
        (Sessions::Driven, drivers) => drivers.as_ref().is_some_and(|drivers| drivers.begins_connected(client)),
    };
    connect_clients(&mut connections, share, begins_connected, stop)?;
    Ok(connections)
}

fn await_all(readiness: &Receiver<Ready>, workers: usize, stop: &AtomicBool) -> Result<Nanos, RunError> {
    let (mut first, mut last) = (Nanos::MAX, 0);
    let mut failure = None;
    // every worker sends one message, and then waits for the start while it keeps its sender
    for ready in readiness.iter().take(workers) {
        match ready {
            Ready::Connected { from, to } => {
                first = first.min(from);
                last = last.max(to);
            }
            Ready::Failed(error) => {
                // the other workers need not continue to connect
                stop.store(true, Ordering::Relaxed);
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(last.saturating_sub(first)), Err)
}

/// How often to check at least whether the run is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Connects the clients numbered in `share` that `begins_connected`; their tokens are their positions.
pub fn connect_clients(
    connections: &mut Connections<impl Poller>, share: Range<usize>, begins_connected: impl Fn(usize) -> bool,
    stop: &AtomicBool,
) -> Result<(), RunError> {
    let tokens = share.clone().enumerate().filter(|(_, client)| begins_connected(*client));
    tokens.for_each(|(token, _)| connections.dialer.request(Request { token, purpose: Purpose::Connect }));
    while !connections.dialer.is_idle() {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let mut done = connections.dialer.advance(LOOK_EVERY).map_err(RunError::System)?;
        // the others may have failed because of the first one, for example at a limit of connections
        done.sort_by_key(|dialed| dialed.tag.token);
        for dialed in done {
            let token = dialed.tag.token;
            let mut session = dialed.result.map_err(|error| {
                if error.is_interrupted() {
                    RunError::Interrupted
                } else {
                    RunError::Connect { client: share.start + token, error: Box::new(error) }
                }
            })?;
            session.print_notices();
            let transport = session.into_transport().map_err(|error| RunError::System(io::Error::other(error)))?;
            connections.add(token, transport).map_err(RunError::System)?;
        }
    }
    Ok(())
}
