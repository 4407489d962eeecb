//! Queries of the user, each in a read-only session of its own: one number becomes a series.

use std::time::{Duration, Instant};

use pgdyno_connect::{Params, Session, SessionError};

use super::AGAIN_AFTER;
use crate::catalogue::source;
use crate::output::Output;
use crate::probe_cost::Queries;
use crate::probe_stop::Stop;
use crate::sample::{Differ, Reading};
use crate::ticks::Ticks;

#[derive(Debug, Clone, PartialEq)]
pub struct OwnQuery {
    pub name: String,
    pub every: Duration,
    pub sql: String,
}

const SOURCE: &str = "queries";
const SETTINGS: &str = "SET default_transaction_read_only = on; SET statement_timeout = '5s'; SET lock_timeout = '1s'";
/// Shares of the time, in percent, of which the largest exceeded one is reported: similar trials have one note.
const COSTLY: [f64; 6] = [50.0, 20.0, 10.0, 5.0, 2.0, 1.0];
/// Answers that show the cost.
const FEWEST: u32 = 3;

pub fn run(params: &Params, own: &OwnQuery, output: &Output, queries: &Queries, stop: &Stop) {
    let mut differ = Differ::new(source(SOURCE));
    let mut ticks = Ticks::new(output.clock().at(Duration::ZERO), own.every);
    let mut session = None;
    let mut next_attempt = Instant::now();
    let (mut answers, mut spent, began) = (0, Duration::ZERO, Instant::now());
    let warn = |problem: String| {
        if !stop.is_set() {
            output.warning(SOURCE, &format!("{}: {problem}", own.name), None);
        }
    };
    while let Some(tick) = ticks.wait(stop) {
        if session.is_some() {
            output.missed(SOURCE, tick.missed);
        }
        if session.is_none() && Instant::now() >= next_attempt {
            next_attempt = Instant::now() + AGAIN_AFTER;
            session = connect(params).map_err(warn).ok();
        }
        let Some(open) = &mut session else { continue };
        let (at, asked) = (output.clock().now(), Instant::now());
        let answer = ask(open, &own.sql);
        let took = asked.elapsed();
        queries.add(took);
        (answers, spent) = (answers + 1, spent + took);
        match answer {
            Ok(Some(value)) => {
                let took_ms = took.as_secs_f64() * 1e3;
                let key = vec![("query", own.name.clone())];
                let reading = Reading::labelled(key, &[("value", Some(value)), ("took", Some(took_ms))]);
                output.sample(&differ.sample(at, vec![reading]));
            }
            Ok(None) => {}
            Err(Failure::Lost(problem)) => {
                warn(problem);
                session = None;
            }
            Err(Failure::Answer(problem)) => warn(problem),
        }
    }
    let percent = 100.0 * spent.as_secs_f64() / began.elapsed().max(own.every * answers).as_secs_f64().max(1e-9);
    let exceeded = COSTLY.into_iter().find(|most| percent > *most && answers >= FEWEST);
    if let Some(most) = exceeded {
        let message = format!("{}: takes more than {most:.0} % of the time: query it less often", own.name);
        output.warning(SOURCE, &message, None);
    }
}

enum Failure {
    /// The session cannot be used any more.
    Lost(String),
    /// The server refused the query, or its answer is no number.
    Answer(String),
}

fn connect(params: &Params) -> Result<Session, String> {
    let mut session = Session::connect(params).map_err(|error| error.to_string())?;
    session.simple_query(SETTINGS).map_err(|error| error.to_string())?;
    Ok(session)
}

/// The first column of the first row; None if that is NULL, or if there is no row.
fn ask(session: &mut Session, sql: &str) -> Result<Option<f64>, Failure> {
    let answer = session.simple_query(sql).map_err(|error| match error {
        SessionError::Server(error) => Failure::Answer(error.to_string()),
        other => Failure::Lost(other.to_string()),
    })?;
    let first = answer.last().and_then(|last| last.rows.first()).and_then(|row| row.first());
    let Some(text) = first.and_then(Option::as_deref) else {
        return Ok(None);
    };
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    value.map(Some).ok_or_else(|| Failure::Answer(format!("\"{text}\" is not a number")))
}
