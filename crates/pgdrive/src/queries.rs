//! Queries of SQL files, each measured by itself: a client runs all of them in rounds, each round in an order of its own.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::{Driver, Drivers, Event, Outgoing, Refused, Request};
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::Spec;
use pgdyno_script::{Rng, first_word_at};
use serde_json::{Value, json};

use crate::events::Events;
use crate::messages::Failure;
use crate::options::QueriesChoice;
use crate::results::{Place, Results};
use crate::scripts::read;
use crate::tpch;

#[derive(Debug)]
pub struct Queries {
    names: Vec<String>,
    texts: Vec<String>,
    rounds: u64,
    changes_texts: bool,
    seed: u64,
    timings: Mutex<Vec<Timing>>,
}

#[derive(Debug, Clone, Copy)]
struct Timing {
    client: usize,
    query: usize,
    /// How many times the client had run the query as it is.
    round: u64,
    is_changed: bool,
    took: Nanos,
    rows: u64,
}

impl Queries {
    pub fn open(choice: &QueriesChoice, seed: u64) -> Result<Arc<Self>, Failure> {
        let texts = match &choice.tpch {
            Some(wanted) => tpch::queries_of(wanted).into_iter().map(|query| query.sql).collect(),
            None => choice.names.iter().map(|name| read(name)).collect::<Result<_, _>>()?,
        };
        let &QueriesChoice { ref names, rounds, changes_texts, .. } = choice;
        let (names, timings) = (names.clone(), Mutex::default());
        Ok(Arc::new(Self { names, texts, rounds, changes_texts, seed, timings }))
    }

    fn note(&self, timing: Timing) {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).push(timing);
    }
}

#[derive(Debug)]
pub struct Clients(pub Arc<Queries>);

impl Drivers for Clients {
    fn driver(&self, _worker: usize, client: usize) -> Box<dyn Driver> {
        let mut rng = Rng::seed(self.0.seed.wrapping_add(client as u64));
        let changed_round = self.0.changes_texts.then(|| rng.range_u64(1, self.0.rounds));
        Box::new(Client {
            queries: Arc::clone(&self.0),
            client,
            rng,
            left: Vec::new(),
            round: 0,
            changed_round,
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
    /// The number of the next round, with that of changed texts.
    round: u64,
    /// The number of the round with changed texts.
    changed_round: Option<u64>,
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
                match out.query(self.text().as_bytes()) {
                    Ok(()) => Request::Await,
                    Err(error) => {
                        Request::Abort(format!("could not send {}: {error}", self.queries.names[self.current]))
                    }
                }
            }
            Event::Answered(answer) if answer.error().is_some() => Request::Refused(Refused::default()),
            Event::Answered(answer) if answer.in_block() => {
                let name = &self.queries.names[self.current];
                Request::Abort(format!("{name} leaves a transaction open: end it with COMMIT or ROLLBACK"))
            }
            Event::Answered(answer) => {
                let rows = answer.results().iter().filter_map(|result| result.affected).sum();
                let (client, query) = (self.client, self.current);
                let (round, is_changed) = (self.rounds_before(), self.is_changed());
                self.queries.note(Timing { client, query, round, is_changed, took: now - self.sent_at, rows });
                Request::Done
            }
            Event::Connected | Event::Woken | Event::Changed(_) | Event::Ending => Request::Done,
        }
    }
}

impl Client {
    fn draw(&mut self) -> usize {
        if self.left.is_empty() {
            self.left = (0..self.queries.texts.len()).collect();
            self.round += 1;
        }
        let last = self.left.len() as u64 - 1;
        self.left.swap_remove(self.rng.range_u64(0, last) as usize)
    }

    fn text(&self) -> Cow<'_, str> {
        let text = &self.queries.texts[self.current];
        if !self.is_changed() {
            return text.into();
        }
        // differs from that of every earlier run, too
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        with_constant(text, since.as_nanos() + self.client as u128).into()
    }

    fn is_changed(&self) -> bool {
        self.changed_round == Some(self.round - 1)
    }

    fn rounds_before(&self) -> u64 {
        self.round - 1 - u64::from(self.changed_round.is_some_and(|changed| changed < self.round - 1))
    }
}

/// The same query with another constant. Its plan is the same: the server drops a WITH query that nothing refers to.
fn with_constant(text: &str, constant: u128) -> String {
    let (before, query) = text.split_at(first_word_at(text));
    let unused = format!("pgdyno_{constant} AS (SELECT {constant})");
    let word = |text: &str| text.split(|each: char| !each.is_ascii_alphabetic()).next().unwrap_or("").to_lowercase();
    match word(query).as_str() {
        "with" => {
            let (with, rest) = query.split_at("with".len());
            let (blank, rest) = rest.split_at(first_word_at(rest));
            let recursive = if word(rest) == "recursive" { "recursive".len() } else { 0 };
            let (recursive, rest) = rest.split_at(recursive);
            format!("{before}{with}{blank}{recursive} {unused}, {rest}")
        }
        "select" | "values" | "table" => format!("{before}WITH {unused} {query}"),
        _ if query.starts_with('(') => format!("{before}WITH {unused} {query}"),
        // a comment is all that can change
        _ => format!("/* {constant} */ {text}"),
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
                    "changed": each.is_changed,
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
                let all = timings.iter().filter(|each| each.query == query && !each.is_changed);
                let all = all.filter(|each| (each.round == 0) == is_first);
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

#[cfg(test)]
mod tests {
    use super::with_constant;

    #[test]
    fn another_constant_changes_no_query() {
        for (text, changed) in [
            ("-- a\nSELECT 1", "-- a\nWITH pgdyno_7 AS (SELECT 7) SELECT 1"),
            (" (TABLE t)", " WITH pgdyno_7 AS (SELECT 7) (TABLE t)"),
            (
                "/*+ SeqScan(t) */ with a as (select 1) table a",
                "/*+ SeqScan(t) */ with  pgdyno_7 AS (SELECT 7), a as (select 1) table a",
            ),
            (
                "WITH /* b */ RECURSIVE\na AS (SELECT 1) TABLE a",
                "WITH /* b */ RECURSIVE pgdyno_7 AS (SELECT 7), \na AS (SELECT 1) TABLE a",
            ),
            ("VALUES (1); SELECT 2", "WITH pgdyno_7 AS (SELECT 7) VALUES (1); SELECT 2"),
            ("BEGIN; SELECT 1; COMMIT", "/* 7 */ BEGIN; SELECT 1; COMMIT"),
            ("", "/* 7 */ "),
        ] {
            assert_eq!(with_constant(text, 7), changed);
        }
    }
}
