//! A client: the first one runs the power run, then all run their streams at the same time, and
//! the first one the refresh functions after them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pgdyno_connect::Session;
use pgdyno_dataset::dataset_stamp::Reading;
use pgdyno_dataset::tpch::VERSION;
use pgdyno_dataset::{Stamp, Tpch};
use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::{Answer, Driver, Drivers, Event, Outgoing, Refused, Request};

use super::parameters::of_stream;
use super::queries::QUERIES;
use super::refresh::{self, PAIRS};
use crate::messages::Failure;

/// How often a client that waits for others looks whether they have finished.
const LOOK_EVERY: Duration = Duration::from_millis(1);

const LOAD_IT: &str = "Load it by \"pgdrive -i --dataset=tpch --scale-factor=NUM\".";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A query, by its number from 1.
    Query(usize),
    Rf1,
    Rf2,
}

impl Step {
    /// All steps, in the order of their statements in events.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=QUERIES).map(Self::Query).chain([Self::Rf1, Self::Rf2])
    }

    pub fn name(self) -> String {
        match self {
            Self::Query(number) => format!("Q{number}"),
            Self::Rf1 => "RF1".to_owned(),
            Self::Rf2 => "RF2".to_owned(),
        }
    }

    /// The number of its statement in events.
    fn command(self) -> usize {
        match self {
            Self::Query(number) => number - 1,
            Self::Rf1 => QUERIES,
            Self::Rf2 => QUERIES + 1,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// 0 for the power run; a refresh function of the throughput run has the number of its pair's stream.
    pub stream: usize,
    pub step: Step,
    pub from: Nanos,
    pub until: Nanos,
}

#[derive(Debug)]
pub struct Streams {
    pub tpch: Tpch,
    pub seed: u64,
    /// Number of streams of the throughput run: one for each client.
    pub streams: usize,
    timings: Mutex<Vec<Timing>>,
    /// How many parts of the run are complete: the power run, then each stream.
    complete: AtomicUsize,
}

impl Streams {
    pub fn new(tpch: Tpch, seed: u64, streams: usize) -> Self {
        Self { tpch, seed, streams, timings: Mutex::default(), complete: AtomicUsize::new(0) }
    }

    /// The streams of a run with as many of them as there are clients, on a database with a stamp.
    pub fn open(session: &mut Session, clients: usize, seed: u64) -> Result<Arc<Self>, Failure> {
        if clients >= PAIRS {
            let message = format!("--workload=tpch runs at most {} clients", PAIRS - 1);
            return Err(Failure::new(message).hint("Each stream refreshes orders of its own."));
        }
        let reading = Stamp::read(session).map_err(|error| Failure::from(&error))?;
        let stamp = match reading {
            Reading::Stamped(stamp) if stamp.dataset == "tpch" => stamp,
            Reading::Refused(why) => {
                let message = format!("the database has no usable dataset stamp of tpch: {why}");
                return Err(Failure::new(message).hint(LOAD_IT));
            }
            _ => return Err(Failure::new("the database has no dataset stamp of tpch").hint(LOAD_IT)),
        };
        if stamp.version != VERSION {
            let message =
                format!("the database was loaded by another version of the dataset: {}, not {VERSION}", stamp.version);
            return Err(Failure::new(message).hint(LOAD_IT));
        }
        let tpch = Tpch::of_stamp(stamp.scale)
            .ok_or_else(|| Failure::new("the dataset stamp has no scale factor").hint(LOAD_IT))?;
        Ok(Arc::new(Self::new(tpch, seed, clients)))
    }

    /// What has run, in the order in which it ended.
    pub fn timings(&self) -> MutexGuard<'_, Vec<Timing>> {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queries(&self, stream: usize) -> Vec<Action> {
        let queries = of_stream(stream, self.tpch.scale_factor(), self.seed).into_iter();
        let action =
            |query: super::parameters::Query| Action::Run { stream, step: Step::Query(query.number), sql: query.sql };
        queries.map(action).chain([Action::Complete]).collect()
    }

    fn refresh(&self, stream: usize) -> [Action; 2] {
        let pair = stream + 1;
        let run = |step, sql| Action::Run { stream, step, sql };
        [run(Step::Rf1, refresh::rf1(self.tpch, pair)), run(Step::Rf2, refresh::rf2(self.tpch, pair))]
    }

    fn actions(&self, client: usize) -> Vec<Action> {
        let own = [vec![Action::Await(1)], self.queries(client + 1)].concat();
        if client > 0 {
            return own;
        }
        let [rf1, rf2] = self.refresh(0);
        let mut power = vec![rf1];
        power.extend(self.queries(0));
        // RF2 is a part of the power run
        let end = power.len() - 1;
        power.insert(end, rf2);
        let refreshes = (1..=self.streams).flat_map(|stream| self.refresh(stream));
        let after = [Action::Await(1 + self.streams)].into_iter().chain(refreshes);
        [power, own, after.collect()].concat()
    }
}

#[derive(Debug)]
pub struct Clients(Arc<Streams>);

impl Clients {
    pub fn of(streams: &Arc<Streams>) -> Arc<dyn Drivers> {
        Arc::new(Self(Arc::clone(streams)))
    }
}

impl Drivers for Clients {
    fn driver(&self, _group: usize, client: usize) -> Box<dyn Driver> {
        Box::new(Client { actions: self.0.actions(client), streams: Arc::clone(&self.0), next: 0, sent_at: 0 })
    }
}

#[derive(Debug, Clone)]
enum Action {
    Run { stream: usize, step: Step, sql: String },
    Await(usize),
    Complete,
}

struct Client {
    streams: Arc<Streams>,
    actions: Vec<Action>,
    next: usize,
    sent_at: Nanos,
}

impl Driver for Client {
    fn resume(&mut self, event: Event<'_>, now: Nanos, out: &mut Outgoing<'_>) -> Request {
        match event {
            Event::Begin { .. } | Event::Woken => self.go_on(now, out),
            Event::Answered(answer) => match self.take_answer(answer, now) {
                None => self.go_on(now, out),
                Some(request) => request,
            },
            Event::Connected | Event::Changed(_) | Event::Ending => Request::Done,
        }
    }
}

impl Client {
    fn go_on(&mut self, now: Nanos, out: &mut Outgoing<'_>) -> Request {
        let complete = &self.streams.complete;
        while let Some(action) = self.actions.get(self.next) {
            match action {
                Action::Run { step, sql, .. } => {
                    self.sent_at = now;
                    out.command(step.command());
                    return match out.query(sql) {
                        Ok(()) => Request::Await,
                        Err(error) => Request::Abort(format!("could not send a query: {error}")),
                    };
                }
                Action::Await(parts) if complete.load(Ordering::Acquire) < *parts => {
                    return Request::Sleep(LOOK_EVERY);
                }
                Action::Await(_) => {}
                Action::Complete => {
                    complete.fetch_add(1, Ordering::Release);
                }
            }
            self.next += 1;
        }
        Request::Done
    }

    /// Notes the time of the answer; returns what to do unless the client continues.
    fn take_answer(&mut self, answer: &Answer, now: Nanos) -> Option<Request> {
        if answer.error().is_some() {
            return Some(Request::Refused(Refused::default()));
        }
        let Some(Action::Run { stream, step, .. }) = self.actions.get(self.next) else {
            return None;
        };
        let (stream, step) = (*stream, *step);
        if !matches!(step, Step::Query(_)) {
            let wanted = refresh::orders(self.streams.tpch);
            // begin, lineitem, orders, commit
            let orders = answer.results().get(2).and_then(|result| result.affected);
            if orders != Some(wanted) {
                return Some(Request::Abort(format!(
                    "{} of stream {stream} changed {} orders, not {wanted}: a run has refreshed this database before; \
                     load it again, or restore it",
                    step.name(),
                    orders.unwrap_or(0)
                )));
            }
        }
        self.streams.timings().push(Timing { stream, step, from: self.sent_at, until: now });
        self.next += 1;
        None
    }
}
