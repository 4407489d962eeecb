//! From a [`Spec`] to a [`Report`]: connects the clients, starts the workers together, merges what
//! they hand on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use pgdyno_connect::ConnectError;
use pgdyno_wire::EncodeError;

use crate::client::Client;
use crate::clock::{Clock, Nanos, SECOND};
use crate::connecting::connect_clients;
pub use crate::crew::Added;
use crate::crew::{Beginning, Crew, Hired, LastWord, Stage, hired, links};
use crate::interval::{ErrorNote, Merged, Merger};
use crate::ledger::Page;
use crate::message::templates;
use crate::outage::{OutageNote, OutageTracker};
use crate::phase_report::PhaseEnd;
use crate::poller::{self, Epoll, Poller, Uring};
use crate::reconnect::{Connector, Returning};
use crate::recorder::{Moments, ScriptRecord};
use crate::report::{End, Outcome, Report, Totals};
use crate::scaling::Scaling;
use crate::shared::Shared;
use crate::spec::{Limit, OnLoss, Sessions, Spec};
use crate::timetable::{Planned, Timetable};
use crate::tuning::Choice;
pub use crate::worker::LONGEST_PARTING;
use crate::worker::{Connections, Links, Word, Worker, WorkerEnd};

/// Intervals that may wait for a slow reader before workers begin to join them.
const WORDS_IN_FLIGHT: usize = 256;

/// How long a worker that waits for its start sleeps before it looks whether it is to stop.
const LONGEST_SLEEP: Nanos = SECOND / 10;

/// Sets of records that a worker of a run with phases has in hand.
const SPARE_RECORDS: usize = 2;

/// Is told what happens, as it happens.
pub trait Observer {
    /// All clients are connected, which took so long: when is the load to begin? At once, unless
    /// others have to be waited for.
    ///
    /// # Errors
    /// When it is not to begin.
    fn ready(&mut self, clock: Clock, _connecting: Nanos) -> Result<Nanos, RunError> {
        Ok(clock.now())
    }

    /// All clients are connected; the load begins at `origin`.
    fn connected(&mut self, connected: &Connected);

    /// An interval is whole.
    fn interval(&mut self, merged: &Merged);

    /// Something went wrong in a script or a session.
    fn error(&mut self, note: &ErrorNote);

    /// An outage began or ended, or connections were lost in it.
    fn outage(&mut self, note: &OutageNote);

    /// Numbers of workers were tried in the warm-up, and one is kept.
    fn workers_chosen(&mut self, _choice: &Choice) {}

    /// A worker was added.
    fn worker_added(&mut self, added: &Added);

    /// A worker was to be added, but the system refused: the load goes on without.
    fn worker_refused(&mut self, why: &io::Error);
}

/// The instant after connecting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// Time from the first connection's begin to the last one's end.
    pub connecting: Nanos,
    /// First transaction's instant.
    pub origin: Nanos,
    /// Start of measuring, after the warm-up.
    pub measure: Nanos,
    /// `epoll` or `io_uring`
    pub io: &'static str,
}

/// Why there is no report.
#[derive(Debug)]
pub enum RunError {
    /// A client could not connect; nothing was run.
    Connect {
        /// Its number.
        client: usize,
        /// In libpq's words.
        error: Box<ConnectError>,
    },
    /// A statement is too long for the protocol.
    Statement(EncodeError),
    /// The system refused a thread, a descriptor or the poller.
    System(io::Error),
    /// The word to begin could not be followed.
    Start(String),
    /// Stopped before the load began.
    Interrupted,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect { client, error } => write!(
                f,
                "{error}\ncould not create connection for client {client}"
            ),
            Self::Statement(error) => write!(f, "could not send a statement: {error}"),
            Self::System(error) => write!(f, "could not run the load: {error}"),
            Self::Start(why) => f.write_str(why),
            Self::Interrupted => f.write_str("interrupted while connecting"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect { error, .. } => Some(error),
            Self::Statement(error) => Some(error),
            Self::System(error) => Some(error),
            Self::Start(_) | Self::Interrupted => None,
        }
    }
}

/// How a worker's connecting went.
enum Ready {
    /// From, to.
    Connected(Nanos, Nanos),
    Failed(RunError),
}

/// Runs `spec` to its end or until `stop` is set.
///
/// # Errors
/// When the load could not begin. What happens later is in the report.
pub fn run(
    spec: &Spec,
    clock: Clock,
    stop: &AtomicBool,
    observer: &mut impl Observer,
) -> Result<Report, RunError> {
    let templates = templates(&spec.programs, spec.mode).map_err(RunError::Statement)?;
    let connections = capacity(spec, spec.clients.div_ceil(spec.workers));
    let kind = poller::choose(spec.io, connections).map_err(RunError::System)?;
    let (work, hired, io): (Work, Hired, _) = match kind {
        poller::Kind::Epoll => (work::<Epoll>, hired::<Epoll>, Epoll::NAME),
        poller::Kind::IoUring => (work::<Uring>, hired::<Uring>, Uring::NAME),
    };
    let late = AtomicU64::new(0);
    let stage = Stage {
        spec,
        templates: &templates,
        clock,
        stop,
        late: &late,
    };
    let returning = returning(spec);
    let (words, heard) = sync_channel(WORDS_IN_FLIGHT);
    let (ready, readiness) = channel();
    thread::scope(|scope| {
        let mut starts = Vec::new();
        let mut workers = Vec::new();
        for number in 0..spec.workers {
            let (start, started) = channel();
            let (links, channels) = links(&words, returning.clone());
            starts.push(start);
            if spec.phases.is_some() {
                // records of all phases are many: made in the midst of the load, they would delay it
                let records = spec.programs.len() * spec.phase_count();
                (0..SPARE_RECORDS).for_each(|_| channels.spare(records));
            }
            workers.push(channels);
            let ready = ready.clone();
            let body = move || work(number, stage, &ready, &started, links);
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn_scoped(scope, body)
                .map_err(RunError::System)?;
        }
        drop(ready);
        let connecting = await_all(&readiness, spec.workers, stop)?;
        let timetable = timetable(spec, observer.ready(clock, connecting)?);
        for start in &starts {
            // a worker that is gone has said why
            let _ = start.send(timetable.clone());
        }
        observer.connected(&Connected {
            connecting,
            origin: timetable.origin,
            measure: timetable.measure,
            io,
        });
        let begun = Begun {
            timetable: timetable.clone(),
            connecting,
            clock,
            late: &late,
            outages: returning.as_ref().map(|r| Arc::clone(&r.outages)),
        };
        let beginning = Beginning {
            stage,
            timetable,
            hired,
            words: (words, heard),
        };
        let crew = Crew::new(scope, beginning, workers);
        listen(spec, &begun, crew, stop, observer)
    })
}

fn returning(spec: &Spec) -> Option<Returning> {
    (spec.on_loss != OnLoss::Abort).then(|| Returning {
        outages: Arc::new(OutageTracker::new(spec.clients)),
        connector: Arc::new(Connector::new(&spec.params)),
    })
}

/// Connections that a worker's poller has room for, when it begins with so many clients: theirs, those
/// that other workers may give it, and the connector's bell.
fn capacity(spec: &Spec, clients: usize) -> usize {
    match spec.scaling {
        Scaling::Fixed => clients + usize::from(spec.on_loss != OnLoss::Abort),
        Scaling::Automatic(_) => spec.clients,
    }
}

fn timetable(spec: &Spec, origin: Nanos) -> Timetable {
    let measure = origin + spec.warmup.as_nanos() as Nanos;
    let deadline = match spec.limit {
        Limit::Transactions(_) => None,
        Limit::Duration(duration) => Some(measure + duration.as_nanos() as Nanos),
    };
    let planned = spec.phases.as_ref().map_or_else(Vec::new, |phases| {
        let numbered = phases.specs().iter().enumerate();
        numbered
            .map(|(number, phase)| {
                let (from, to) = phases.bounds(number);
                Planned {
                    from: origin + from,
                    to: origin + to,
                    result: phase.result,
                }
            })
            .collect()
    });
    Timetable {
        origin,
        measure,
        deadline,
        planned,
    }
}

/// [`work`] with one of the pollers.
type Work = fn(usize, Stage<'_>, &Sender<Ready>, &Receiver<Timetable>, Links);

/// A worker's thread.
fn work<P: Poller>(
    number: usize,
    stage: Stage<'_>,
    ready: &Sender<Ready>,
    started: &Receiver<Timetable>,
    links: Links,
) {
    let _last_word = LastWord::of(number, &links);
    let Stage {
        spec,
        templates,
        clock,
        stop,
        late,
    } = stage;
    let share = spec.clients_of(number);
    let from = clock.now();
    let connections: Connections<P> = match connect_all(spec, &share, clock, stop) {
        Ok(connections) => connections,
        Err(error) => {
            let _ = ready.send(Ready::Failed(error));
            return;
        }
    };
    let _ = ready.send(Ready::Connected(from, clock.now()));
    // without a word the run does not begin
    let Ok(timetable) = started.recv() else {
        return;
    };
    let shared = Shared::new(number, spec, templates, clock, stop);
    let clients = share.iter().map(|id| Client::new(*id, &shared)).collect();
    let origin = timetable.origin;
    let worker = Worker::new(number, clients, connections, shared, timetable, links);
    late.fetch_max(await_instant(origin, clock, stop), Ordering::Relaxed);
    worker.run();
}

/// Sleeps until `instant`, or until the load is to stop; how late it woke.
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
    spec: &Spec,
    share: &[usize],
    clock: Clock,
    stop: &AtomicBool,
) -> Result<Connections<P>, RunError> {
    let room = capacity(spec, share.len());
    let mut connections = Connections::new(room, clock).map_err(RunError::System)?;
    let share = match spec.sessions {
        Sessions::Kept => share,
        // every transaction makes its own
        Sessions::PerTransaction => &[],
    };
    connect_clients(&spec.params, share, stop, |token, transport| {
        connections.add(token, transport)
    })?;
    Ok(connections)
}

/// Waits until every worker is connected; the time that took.
fn await_all(
    readiness: &Receiver<Ready>,
    workers: usize,
    stop: &AtomicBool,
) -> Result<Nanos, RunError> {
    let (mut first, mut last) = (Nanos::MAX, 0);
    let mut failure = None;
    // every worker says one thing, and then waits for the start with its sender in hand
    for ready in readiness.iter().take(workers) {
        match ready {
            Ready::Connected(from, to) => {
                first = first.min(from);
                last = last.max(to);
            }
            Ready::Failed(error) => {
                // the others need not go on connecting
                stop.store(true, Ordering::Relaxed);
                failure.get_or_insert(error);
            }
        }
    }
    failure.map_or(Ok(last.saturating_sub(first)), Err)
}

struct Begun<'a> {
    timetable: Timetable,
    connecting: Nanos,
    clock: Clock,
    /// How much later than meant a worker began, at most.
    late: &'a AtomicU64,
    outages: Option<Arc<OutageTracker>>,
}

/// Merges what workers say until the last of them has ended.
fn listen(
    spec: &Spec,
    begun: &Begun<'_>,
    mut crew: Crew<'_, '_>,
    stop: &AtomicBool,
    observer: &mut impl Observer,
) -> Result<Report, RunError> {
    let mut merger = Merger::new(spec.workers, begun.timetable.origin);
    let mut totals = Totals::new(spec.programs.len(), spec.phases.as_ref());
    let mut ends: Vec<WorkerEnd> = Vec::new();
    while let Some(word) = crew.next() {
        let Some(word) = word else {
            match crew.tune() {
                Ok(choice) => choice.iter().for_each(|one| observer.workers_chosen(one)),
                Err(error) => observer.worker_refused(&error),
            }
            continue;
        };
        match word {
            Word::Error(note) => {
                if begun.timetable.counts(&note) {
                    totals.error(&note);
                }
                observer.error(&note);
            }
            Word::Interval(interval) => {
                let worker = interval.worker;
                if let Some(used) = merger.add(interval) {
                    crew.recycle(worker, used);
                }
            }
            // it is asked below, after every word
            Word::Outage => {}
            Word::Ended(mut end) => {
                crew.ended(end.worker);
                merger.ended(end.worker);
                totals.commands(std::mem::take(&mut end.commands));
                ends.push(end);
            }
            Word::Hired(result) => match crew.hired(result, &mut merger) {
                Ok(added) => added.iter().for_each(|added| observer.worker_added(added)),
                Err(error) => observer.worker_refused(&error),
            },
        }
        while let Some(mut merged) = merger.take_whole() {
            totals.interval(&merged);
            let mut of_phases = merged.fold_phases(spec.programs.len());
            observer.interval(&merged);
            merged.scripts.append(&mut of_phases);
            merged.scripts.iter_mut().for_each(ScriptRecord::clear);
            if let Err(error) = crew.look(&merged) {
                observer.worker_refused(&error);
            }
            crew.recycle(0, merged.scripts);
        }
        if let Some(outages) = &begun.outages {
            while let Some(note) = outages.take_note(begun.clock.now()) {
                tell(&note, begun, &mut totals, observer);
            }
        }
    }
    if let Some(failure) = ends.iter_mut().find_map(|end| end.failure.take()) {
        return Err(RunError::System(failure));
    }
    let outages = begun.outages.as_ref().map(|outages| {
        let (notes, outages) = outages.finish(begun.clock.now(), begun.timetable.measure);
        for note in &notes {
            tell(note, begun, &mut totals, observer);
        }
        outages
    });
    let phases = phases_end(spec, &ends, begun, begun.clock.now());
    let mut report = totals.into_report(outcome(&ends, stop), &sum_up(&ends, begun), &phases);
    report.outages = outages;
    report.ledger = spec.ledger.as_ref().map(|_| pages(&mut ends));
    // those that were only tried are no workers of the load
    report.health.workers.truncate(crew.workers());
    Ok(report)
}

/// All clients' parts of the ledger.
fn pages(ends: &mut [WorkerEnd]) -> Vec<Page> {
    let pages = ends
        .iter_mut()
        .flat_map(|end| std::mem::take(&mut end.pages));
    let mut pages: Vec<Page> = pages.collect();
    pages.sort_by_key(|page| page.client);
    pages
}

/// What the tracker of outages has to tell; losses count as errors, too.
fn tell(note: &OutageNote, begun: &Begun<'_>, totals: &mut Totals, observer: &mut impl Observer) {
    if let OutageNote::Lost { note, clients } = note
        && begun.timetable.counts(note)
    {
        totals.errors(note, *clients);
    }
    observer.outage(note);
}

/// What is known of each phase only now, `now` being the end of the run.
fn phases_end(spec: &Spec, ends: &[WorkerEnd], begun: &Begun<'_>, now: Nanos) -> Vec<PhaseEnd> {
    let scripts = spec.programs.len();
    let numbered = begun.timetable.planned.iter().enumerate();
    numbered
        .map(|(number, planned)| {
            let last_end = ends.iter().map(|end| end.phase_ends[number]).max();
            let records = ends.iter().flat_map(|end| &end.in_flight);
            PhaseEnd {
                from: planned.from,
                // a phase lasts as long as it was to, and until its last transaction has ended
                to: planned.to.min(now).max(last_end.unwrap_or(0)),
                unstarted: ends.iter().map(|end| end.unstarted[number]).sum(),
                in_flight: records.filter(|record| *record / scripts == number).count() as u64,
            }
        })
        .collect()
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

fn sum_up(ends: &[WorkerEnd], begun: &Begun<'_>) -> End {
    let until = ends.iter().map(|end| end.measured_until).max().unwrap_or(0);
    let mut fairness = Moments::default();
    for ended in ends.iter().flat_map(|end| &end.ended) {
        fairness.record(*ended);
    }
    End {
        fairness,
        in_flight: ends.iter().map(|end| end.in_flight.len() as u64).sum(),
        unstarted: ends.iter().flat_map(|end| &end.unstarted).sum(),
        clients_aborted: ends.iter().map(|end| end.aborted as u64).sum(),
        left_running: ends.iter().map(|end| end.left_running as u64).sum(),
        measured: until.saturating_sub(begun.timetable.measure),
        connecting: begun.connecting,
        start_late: begun.late.load(Ordering::Relaxed),
    }
}
