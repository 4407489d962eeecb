//! Loads that repeat a captured one: `--replay`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use pgdyno_connect::{Params, Session};
use pgdyno_engine::latencies::{Latencies, Moments};
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::Spec;
use pgdyno_replay::{Divergence, KINDS, Outcome, Pace, Replay, ReplayError, ReplayFile};
use serde_json::{Value, json};

use crate::events::{self, Events};
use crate::generator_health;
use crate::messages::Failure;
use crate::options::{Benchmark, Origin, ReplayChoice, WorkloadChoice};
use crate::results::{Place, Results};

/// Classes of statements that the `end` event names.
const MOST_SHOWN: usize = 10;

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        Self { hint: error.hint.map(|hint| hint.to_string()), ..Self::new(&error) }
    }
}

pub fn check(choice: &ReplayChoice) -> Result<(), Failure> {
    Ok(pgdyno_replay::check(&choice.path)?)
}

/// Opens the replay of `options`, if any, and adds to them the clients and statements that its file says.
pub fn open(options: &mut Benchmark) -> Result<Option<Arc<Replay>>, Failure> {
    let WorkloadChoice::Replay(choice) = &options.workload else {
        return Ok(None);
    };
    let file = ReplayFile::open(&choice.path)?;
    options.clients = file.clients;
    for script in &mut options.scripts {
        if let Origin::Driven { commands, .. } = &mut script.origin {
            commands.clone_from(&file.classes);
        }
    }
    Ok(Some(Arc::new(Replay::new(file, choice.pace))))
}

/// Has the server read statements as UTF-8, which a replay file is, unless the user chose another
/// encoding. A server that does not know its own encoding converts nothing, and would only check.
pub fn encode(params: &mut Params, session: &mut Session) -> Result<(), Failure> {
    if params.client_encoding.is_none() {
        let encoding = session.query_one_value("show server_encoding");
        let encoding =
            encoding.map_err(|error| Failure::new(format!("could not read the server's encoding: {error}")))?;
        let is_known = encoding.is_some_and(|name| name != "SQL_ASCII");
        params.client_encoding = is_known.then(|| "UTF8".to_owned());
    }
    Ok(())
}

/// The pace, in events: null for no pauses.
fn pace(pace: Pace) -> Option<f64> {
    match pace {
        Pace::Factor(factor) => Some(factor),
        Pace::Max => None,
    }
}

pub fn start_field(replay: &Replay) -> Value {
    let header = &replay.file().header;
    json!({
        "file": replay.file().path().display().to_string(),
        "pace": pace(replay.pace()),
        "sessions": header.sessions,
        "statements": header.statements,
        "span_s": header.span_us as f64 / 1e6,
    })
}

pub struct ReplayResults {
    pub outcome: Outcome,
    pub pace: Pace,
}

impl Results for ReplayResults {
    fn add_end_fields(&self, end: &mut Value, _spec: &Spec, report: &Report, _events: &mut Events) {
        end["replay"] = end_field(&self.outcome, self.pace, &report.total().connecting);
    }

    fn write(&self, place: Place, _report: &Report, out: &mut dyn Write) -> io::Result<()> {
        match place {
            Place::AfterLength => summary(out, &self.outcome, self.pace),
            _ => Ok(()),
        }
    }
}

/// The field of the `end` event; `connecting` are the times to connect sessions during the load.
fn end_field(outcome: &Outcome, pace_of_load: Pace, connecting: &Moments) -> Value {
    let tally = &outcome.tally;
    json!({
        "pace": pace(pace_of_load),
        "connect_ns": generator_health::lag(connecting),
        "sessions": outcome.sessions,
        "sessions_begun": tally.sessions_begun,
        "sessions_lost": tally.sessions_lost,
        "statements": outcome.statements,
        "done": tally.done,
        "not_started": outcome.not_started(),
        "disagreements": kinds(&tally.disagreements, true),
        "worst": worst(&tally.by_class),
        "ids": {
            "mapped": tally.mapped,
            "not_mapped": tally.not_mapped,
            "ambiguous": outcome.ambiguous,
        },
        "copies_without_data": tally.copies_without_data,
        "lateness_ns": events::latency(&tally.lateness),
        "within_1ms": tally.exact_share(),
        "delayed_by_answer": tally.delayed_by_answer,
    })
}

/// Counts by kind, also those that are 0 if `all`.
fn kinds(counts: &[u64; KINDS.len()], all: bool) -> Value {
    let some = KINDS.iter().zip(counts).filter(|(_, count)| all || **count > 0);
    some.map(|((name, _), count)| ((*name).to_owned(), Value::from(*count))).collect::<serde_json::Map<_, _>>().into()
}

fn worst(by_class: &BTreeMap<u32, Divergence>) -> Vec<Value> {
    let mut classes: Vec<_> = by_class.iter().collect();
    classes.sort_by_key(|(_, one)| Reverse(one.total()));
    let shown = classes.iter().take(MOST_SHOWN).map(|(class, one)| {
        let (sqlstate, message) = one.error.clone().unzip();
        json!({"id": class, "disagreements": kinds(&one.counts, false), "sqlstate": sqlstate, "message": message})
    });
    shown.collect()
}

fn summary(out: &mut dyn Write, outcome: &Outcome, pace_of_load: Pace) -> io::Result<()> {
    let tally = &outcome.tally;
    match pace(pace_of_load) {
        Some(factor) => writeln!(out, "pace: {factor}")?,
        None => writeln!(out, "pace: max")?,
    }
    writeln!(out, "number of sessions: {}/{} ({} lost)", tally.sessions_begun, outcome.sessions, tally.sessions_lost)?;
    writeln!(
        out,
        "number of statements: {}/{} ({} not started)",
        tally.done,
        outcome.statements,
        outcome.not_started()
    )?;
    writeln!(out, "number of disagreements with the capture: {}", tally.disagreed())?;
    for ((_, what), count) in KINDS.iter().zip(&tally.disagreements).filter(|(_, count)| **count > 0) {
        writeln!(out, " - number of {what}: {count}")?;
    }
    if tally.mapped + tally.not_mapped > 0 {
        let (mapped, not_mapped) = (tally.mapped, tally.not_mapped);
        writeln!(out, "number of values replaced by those that the server made: {mapped} ({not_mapped} not made)")?;
    }
    if tally.copies_without_data > 0 {
        writeln!(out, "number of COPY FROM STDIN without data: {}", tally.copies_without_data)?;
    }
    match tally.exact_share() {
        Some(share) => lateness(out, &tally.lateness, share),
        None => Ok(()),
    }
}

/// Writes how late statements started, `exact` of them within a millisecond.
fn lateness(out: &mut dyn Write, lateness: &Latencies, exact: f64) -> io::Result<()> {
    let ms = |quantile| lateness.at_quantile(quantile) as f64 / 1e6;
    writeln!(
        out,
        "statement lateness: p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms; {:.2}% within 1 ms",
        ms(0.5),
        ms(0.99),
        ms(1.0),
        100.0 * exact
    )
}
