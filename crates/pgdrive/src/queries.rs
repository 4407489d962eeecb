//! Queries of SQL files, each measured by itself: a client runs all of them in rounds, each round in an order of its own.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::{Driver, Drivers, Event, Outgoing, Refused, Request};
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::Spec;
use pgdyno_script::Rng;
use serde_json::{Value, json};

use crate::events::Events;
use crate::messages::Failure;
use crate::options::Benchmark;
use crate::results::{Place, Results};
use crate::scripts::read;

#[derive(Debug)]
pub struct Queries {
    names: Vec<String>,
    texts: Vec<String>,
    seed: u64,
    timings: Mutex<Vec<Timing>>,
}

/// One execution of a query.
#[derive(Debug, Clone, Copy)]
struct Timing {
    client: usize,
    query: usize,
    /// 0 for the first execution in the session.
    round: usize,
    took: Nanos,
    rows: u64,
}

impl Queries {
    pub fn open(options: &Benchmark, seed: u64) -> Result<Arc<Self>, Failure> {
        let names = options.query_files.clone();
        let texts = names.iter().map(|name| read(name)).collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { names, texts, seed, timings: Mutex::default() }))
    }

    fn note(&self, timing: Timing) {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).push(timing);
    }
}

/// Creates the drivers of a run.
#[derive(Debug)]
pub struct Clients(pub Arc<Queries>);

impl Drivers for Clients {
    fn driver(&self, _worker: usize, client: usize) -> Box<dyn Driver> {
        let rng = Rng::seed(self.0.seed.wrapping_add(client as u64));
        Box::new(Client {
            queries: Arc::clone(&self.0),
            client,
            rng,
            left: Vec::new(),
            round: 0,
            current: 0,
            sent_at: 0,
        })
    }
}

struct Client {
    queries: Arc<Queries>,
    client: usize,
    rng: Rng,
    /// What is left of the round.
    left: Vec<usize>,
    /// The number of the next round.
    round: usize,
    current: usize,
    sent_at: Nanos,
}

impl Driver for Client {
    fn resume(&mut self, event: Event<'_>, now: Nanos, out: &mut Outgoing<'_>) -> Request {
        match event {
            Event::Begin { .. } => {
                self.current = self.draw();
                self.sent_at = now;
                out.command(self.current);
                match out.query(&self.queries.texts[self.current]) {
                    Ok(()) => Request::Await,
                    Err(error) => {
                        Request::Abort(format!("could not send {}: {error}", self.queries.names[self.current]))
                    }
                }
            }
            Event::Answered(answer) if answer.error().is_some() => Request::Refused(Refused::default()),
            Event::Answered(answer) => {
                let rows = answer.results().iter().filter_map(|result| result.affected).sum();
                let (client, query, round) = (self.client, self.current, self.round - 1);
                self.queries.note(Timing { client, query, round, took: now - self.sent_at, rows });
                Request::Done
            }
            Event::Connected | Event::Woken | Event::Changed(_) | Event::Ending => Request::Done,
        }
    }
}

impl Client {
    /// The next query of the round, by chance.
    fn draw(&mut self) -> usize {
        if self.left.is_empty() {
            self.left = (0..self.queries.texts.len()).collect();
            self.round += 1;
        }
        let last = self.left.len() as u64 - 1;
        self.left.swap_remove(self.rng.range_u64(0, last) as usize)
    }
}

pub struct Times(pub Arc<Queries>);

impl Results for Times {
    fn add_end_fields(&self, end: &mut Value, _spec: &Spec, _report: &Report, _events: &mut Events) {
        end["queries"] = self
            .0
            .timings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|each| {
                json!({
                    "query": self.0.names[each.query],
                    "client": each.client,
                    "round": each.round,
                    "seconds": each.took as f64 / 1e9,
                    "rows": each.rows,
                })
            })
            .collect();
    }

    fn write(&self, place: Place, _report: &Report, out: &mut dyn Write) -> io::Result<()> {
        if place != Place::Last {
            return Ok(());
        }
        let timings = self.0.timings.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(out, "seconds of each query: first execution, then median and longest of the others")?;
        for (query, name) in self.0.names.iter().enumerate() {
            let of = |is_first: bool| {
                let all = timings.iter().filter(|each| each.query == query && (each.round == 0) == is_first);
                let mut found: Vec<f64> = all.map(|each| each.took as f64 / 1e9).collect();
                found.sort_by(f64::total_cmp);
                found
            };
            let shown = |value: Option<&f64>| value.map_or_else(|| "-".to_owned(), |each| format!("{each:.6}"));
            let others = of(false);
            let (first, median) = (of(true), others.get(others.len() / 2));
            writeln!(out, "{} {} {}  {name}", shown(first.last()), shown(median), shown(others.last()))?;
        }
        Ok(())
    }
}
