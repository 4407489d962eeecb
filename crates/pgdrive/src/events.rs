//! Writes events as JSON Lines; the contract is `docs/reference/events.md`, version 1.

use std::fs::File;
use std::io::{self, Write};

use hdrhistogram::Histogram;
use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::interval::{Consequence, ErrorNote, Merged, Phase};
use pgdyno_engine::latencies::Latencies;
use pgdyno_engine::recorder::ScriptRecord;
use pgdyno_engine::stall::Stretch;
use serde_json::{Value, json};

use crate::generator_health::{self, Steal};
use crate::histogram_log::HistogramEncoder;
use crate::messages::Failure;
use crate::options::EventSink;

pub const VERSION: u32 = 1;

/// How many errors a second are written; all of them are counted.
const ERRORS_A_SECOND: u32 = 20;

/// Writes events; each line is flushed.
pub struct Events {
    sink: Option<Box<dyn Write + Send>>,
    name: String,
    failure: Option<io::Error>,
    clock: Clock,
    origin: Nanos,
    sequence: u64,
    encoder: HistogramEncoder,
    second_of_errors: (u64, u32),
    unreported_errors: u64,
    phase_names: Vec<String>,
    steal: Steal,
}

impl Events {
    /// Opens the sink; None writes nothing.
    pub fn open(sink: Option<&EventSink>, clock: Clock) -> Result<Self, Failure> {
        let name = match sink {
            Some(EventSink::File(path)) => format!("events to \"{path}\""),
            _ => "events to standard output".to_owned(),
        };
        let sink: Option<Box<dyn Write + Send>> = match sink {
            None => None,
            Some(EventSink::Stdout) => Some(Box::new(io::stdout())),
            Some(EventSink::File(path)) => {
                let file = File::create(path);
                let file = file.map_err(|error| Failure::new(format!("could not create the events file: {error}")));
                Some(Box::new(file?))
            }
        };
        Ok(Self {
            sink,
            name,
            failure: None,
            clock,
            origin: 0,
            sequence: 0,
            encoder: HistogramEncoder::new(),
            second_of_errors: (0, 0),
            unreported_errors: 0,
            phase_names: Vec::new(),
            steal: Steal::default(),
        })
    }

    pub fn wanted(&self) -> bool {
        self.sink.is_some()
    }

    /// The clock for `t_us`.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why the stream ended early: the reader has ended, or the disk is full. None if it is complete.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Writes one event of kind `event`; `fields` is an object. After a failure nothing more is
    /// written, and the last line may be incomplete.
    ///
    /// # Errors
    /// The reader has ended or the disk is full; returned once, after which the run has to stop.
    /// See [`Self::failure`].
    pub fn write(&mut self, event: &str, fields: Value) -> io::Result<()> {
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let mut line = json!({ "event": event, "t_us": self.clock.now() / 1000 });
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), fields) {
            line.extend(fields);
        }
        let mut text = line.to_string();
        text.push('\n');
        let written = sink.write_all(text.as_bytes()).and_then(|()| sink.flush());
        written.map_err(|error| {
            let kind = error.kind();
            self.sink = None;
            self.failure = Some(error);
            kind.into()
        })
    }

    /// Sets the instant of the first transaction, from which intervals count.
    pub fn set_origin(&mut self, origin: Nanos) {
        self.origin = origin;
        self.steal.begin();
    }

    /// The instant of the first transaction, from which intervals count.
    pub fn origin(&self) -> Nanos {
        self.origin
    }

    /// CPU time stolen from the host since that instant, in microseconds; None if the host does not report it.
    pub fn steal_us(&self) -> Option<u64> {
        self.steal.since_begun()
    }

    pub fn set_phases(&mut self, names: Vec<String>) {
        self.phase_names = names;
    }

    pub fn interval(&mut self, merged: &Merged) -> io::Result<()> {
        if !self.wanted() {
            return Ok(());
        }
        let scripts: Vec<Value> = merged
            .scripts
            .iter()
            .enumerate()
            .filter(|(_, script)| script.counts.ended() > 0)
            .map(|(id, script)| self.script(id, script))
            .collect();
        let fields = json!({
            "seq": self.sequence,
            "from_us": (merged.from - self.origin) / 1000,
            "to_us": (merged.to - self.origin) / 1000,
            "phase": phase(merged.phase),
            "phase_name": merged.planned.and_then(|number| self.phase_names.get(number)),
            "clients": merged.clients,
            "in_flight": merged.in_flight,
            "workers": generator_health::workers(&merged.workers),
            "lulls_us": self.stall_times(&merged.stalls),
            "steal_us": self.steal.since_last(),
            "scripts": scripts,
        });
        self.sequence += 1;
        self.write("interval", fields)
    }

    fn stall_times(&self, stalls: &[Stretch]) -> Value {
        let since_origin = |at: Nanos| at.saturating_sub(self.origin) / 1000;
        stalls.iter().map(|(from, to)| [since_origin(*from), since_origin(*to)]).collect()
    }

    fn script(&mut self, id: usize, record: &ScriptRecord) -> Value {
        let mut script = counts(record);
        script["script"] = json!(id);
        if record.latency.moments.count > 0 {
            script["latency_ns"] = interval_latency(&record.latency);
            script["histogram"] = json!(self.histogram(&record.latency.histogram));
        }
        script
    }

    /// A histogram in the format that all HDR tools read.
    pub fn histogram(&mut self, histogram: &Histogram<u64>) -> String {
        // every reader refuses an empty text
        self.encoder.encode(histogram).unwrap_or_default()
    }

    /// How many `error` events were left out.
    pub fn unreported_errors(&self) -> u64 {
        self.unreported_errors
    }

    /// Writes an `error` event that affected this many clients, unless there were too many in this second.
    pub fn error(&mut self, note: &ErrorNote, clients: u64) -> io::Result<()> {
        let second = note.at / pgdyno_engine::clock::SECOND;
        if self.second_of_errors.0 != second {
            self.second_of_errors = (second, 0);
        }
        self.second_of_errors.1 += 1;
        if self.second_of_errors.1 > ERRORS_A_SECOND {
            self.unreported_errors += 1;
            return Ok(());
        }
        let mut fields = json!({
            "client": note.client,
            "script": note.script,
            "command": note.command,
            "line": note.line,
            "sqlstate": note.sqlstate,
            "severity": note.severity,
            "message": note.message,
            "detail": note.detail,
            "hint": note.hint,
            "consequence": consequence(note.consequence),
        });
        if note.consequence == Consequence::Reconnecting {
            fields["clients"] = json!(clients);
        }
        self.write("error", fields)
    }
}

/// Where texts are written: on standard error if events go to standard output.
pub fn text_out(sink: Option<&EventSink>) -> Box<dyn Write> {
    match sink {
        Some(EventSink::Stdout) => Box::new(io::stderr()),
        _ => Box::new(io::stdout()),
    }
}

pub fn counts(record: &ScriptRecord) -> Value {
    json!({
        "succeeded": record.counts.succeeded,
        "failed": record.counts.failed(),
        "lost": record.counts.lost,
        "skipped": record.counts.skipped,
        "late": record.counts.late,
        "retried": record.counts.retried,
        "retries": record.counts.retries,
        "lag_ns": generator_health::lag(&record.lag),
    })
}

fn interval_latency(latencies: &Latencies) -> Value {
    let Latencies { moments, .. } = latencies;
    json!({
        "sum": moments.sum,
        "sum_of_squares": moments.sum_of_squares,
        "min": moments.min,
        "p50": latencies.at_quantile(0.50),
        "p95": latencies.at_quantile(0.95),
        "p99": latencies.at_quantile(0.99),
        "p999": latencies.at_quantile(0.999),
        "max": moments.max,
    })
}

/// The latency of a whole run, for the `end` event; null if no transaction succeeded.
pub fn latency(latencies: &Latencies) -> Value {
    let Latencies { moments, .. } = latencies;
    if moments.count == 0 {
        return Value::Null;
    }
    let at = |quantile| latencies.at_quantile(quantile);
    json!({
        "mean": moments.mean(),
        "stddev": moments.stddev(),
        "sum": moments.sum,
        "sum_of_squares": moments.sum_of_squares,
        "min": moments.min,
        "p50": at(0.50),
        "p75": at(0.75),
        "p90": at(0.90),
        "p95": at(0.95),
        "p99": at(0.99),
        "p999": at(0.999),
        "p9999": at(0.9999),
        "max": moments.max,
    })
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::WarmUp => "warm-up",
        Phase::Measure => "measure",
        Phase::Drain => "drain",
    }
}

fn consequence(consequence: Consequence) -> &'static str {
    match consequence {
        Consequence::Failed => "failed",
        Consequence::Retried => "retried",
        Consequence::ClientAborted => "client-aborted",
        Consequence::ConnectionLost => "connection-lost",
        Consequence::Reconnecting => "reconnecting",
        Consequence::Unprepared => "unprepared",
    }
}
