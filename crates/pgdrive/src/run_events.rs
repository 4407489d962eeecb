//! The events at the start and the end of a run: `start` and `end`.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use pgdyno_engine::RunError;
use pgdyno_engine::clock::{Clock, SECOND};
use pgdyno_engine::connect_record::ConnectRecord;
use pgdyno_engine::latencies::{Latencies, Moments};
use pgdyno_engine::pacing::{Pacing, Pause};
use pgdyno_engine::phase_report::PhaseReport;
use pgdyno_engine::phases::{Phases, Ramp};
use pgdyno_engine::recorder::ScriptRecord;
use pgdyno_engine::report::{Outcome, Report};
use pgdyno_engine::schedule::{Arrivals, Spacing};
use pgdyno_engine::spec::{Limit, OnLoss, Pipelining, Spec, Tries, WeightedProgram};
use pgdyno_script::QueryMode;
use serde_json::{Value, json};

use crate::commit_ledger;
use crate::events::{self, Events};
use crate::exit::{Exit, Outputs, refuse};
use crate::generator_health::{self, Footprint};
use crate::lua;
use crate::messages::{Failure, Messages};
use crate::options::{Benchmark, EventSink};
use crate::outages;

pub fn start_event(
    options: &Benchmark, workers: usize, programs: &[WeightedProgram], pacing: &[Pacing], seed: u64, clock: Clock,
) -> Value {
    let scripts: Vec<Value> =
        programs.iter().zip(pacing).enumerate().map(|(id, (p, pacing))| script_event(id, p, pacing)).collect();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "v": events::VERSION,
        "epoch_us": (since.as_micros() as u64).saturating_sub(clock.now() / 1000),
        "pgdrive": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "clients": options.clients,
        "part": options.part.map(|part| json!({
            "number": part.number + 1,
            "of": part.of,
            "clients": part.clients,
        })),
        "workers": workers,
        "protocol": protocol(options.mode),
        "pipelining": pipelining_name(options.pipelining),
        "duration_s": match options.limit {
            Limit::Duration(duration) => Some(duration.as_secs_f64()),
            Limit::Transactions(_) | Limit::Driven => None,
        },
        "transactions": match options.limit {
            Limit::Duration(_) | Limit::Driven => None,
            Limit::Transactions(each) => Some(each),
        },
        "warmup_s": options.warmup.as_secs_f64(),
        "rate_per_s": rate_per_s(options.arrivals),
        "arrivals": arrivals(options.arrivals),
        "timer_tick_us": (!options.timer_tick.is_zero()).then_some(options.timer_tick.as_micros() as u64),
        "phases": planned_phases(options.phases.as_ref()),
        "latency_limit_ms": options.latency_limit.map(|limit| limit.as_secs_f64() * 1e3),
        "max_tries": match options.tries {
            Tries::AtMost(most) => most,
            Tries::Unlimited => 0,
        },
        "reconnect": options.on_loss.reconnects(),
        "reconnect_s": match options.on_loss {
            OnLoss::Reconnect { patience } => patience.map(|patience| patience.as_secs_f64()),
            OnLoss::Abort | OnLoss::Count => None,
        },
        "ledger": options.ledger,
        "seed": seed,
        "scripts": scripts,
    })
}

fn protocol(mode: QueryMode) -> &'static str {
    match mode {
        QueryMode::Simple => "simple",
        QueryMode::Extended => "extended",
        QueryMode::Prepared => "prepared",
    }
}

fn rate_per_s(arrivals: Arrivals) -> Option<f64> {
    match arrivals {
        Arrivals::Closed | Arrivals::Phased(_) | Arrivals::Driven => None,
        Arrivals::Regular { rate_per_s } | Arrivals::Poisson { rate_per_s } => Some(rate_per_s),
    }
}

fn arrivals(arrivals: Arrivals) -> &'static str {
    match arrivals {
        Arrivals::Closed => "closed",
        Arrivals::Driven => "captured",
        Arrivals::Regular { .. } | Arrivals::Phased(Spacing::Regular) => "regular",
        Arrivals::Poisson { .. } | Arrivals::Phased(Spacing::Poisson) => "poisson",
    }
}

fn pipelining_name(pipelining: Pipelining) -> &'static str {
    match pipelining {
        Pipelining::Explicit => "explicit",
        Pipelining::Auto => "auto",
    }
}

fn script_event(id: usize, script: &WeightedProgram, pacing: &Pacing) -> Value {
    let commands = script.program.commands.iter().enumerate();
    let statements: Vec<Value> = commands
        .filter(|(_, command)| command.statement.is_some() && command.line > 0)
        .map(|(id, command)| json!({ "id": id, "line": command.line, "text": command.text }))
        .collect();
    json!({
        "id": id,
        "name": script.program.name,
        "weight": script.weight,
        "keying_time": pause_event(pacing.keying, None),
        "think_time": pause_event(pacing.think, None),
        "statements": statements,
    })
}

/// The `end` event, which is also the content of --json.
pub fn end_event(spec: &Spec, report: &Report, exit: Exit, footprint: &Footprint, events: &mut Events) -> Value {
    let ScriptRecord { counts, latency, .. } = report.total();
    let scripts: Vec<Value> = (0..spec.programs.len()).map(|number| script_end(spec, report, number, events)).collect();
    let errors: Vec<Value> = report
        .errors
        .iter()
        .map(|error| {
            let mut fields = json!({ "sqlstate": error.sqlstate, "message": error.message, "count": error.count });
            if error.is_refusal {
                fields["refused"] = json!(true);
            }
            fields
        })
        .collect();
    let mut end = json!({
        "outcome": match report.outcome {
            Outcome::Finished => "finished",
            Outcome::Interrupted => "interrupted",
            Outcome::Aborted => "aborted",
        },
        "exit_code": exit.code(),
        "pipelining": pipelining_name(spec.pipelining),
        "message": report.errors.first().filter(|_| report.outcome == Outcome::Aborted).map(|error| &error.message),
        "measured_s": report.measured_s(),
        "scheduled": report.scheduled(),
        "succeeded": counts.succeeded,
        "failed": counts.failed(),
        "lost": counts.lost,
        "skipped": counts.skipped,
        "in_flight": report.in_flight,
        "unstarted": report.unstarted,
        "late": counts.late,
        "retried": counts.retried,
        "retries": counts.retries,
        "clients_aborted": report.clients_aborted,
        "tps": report.tps(),
        "latency_ns": events::latency(&latency),
        "histogram": (latency.moments.count > 0).then(|| events.histogram(&latency.histogram)),
        "scripts": scripts,
        "phases": ended_phases(report, events),
        "errors": errors,
        "connect": report.connects.as_deref().map(|connects| connect_field(connects, events)),
        "ledger": report.ledger.as_deref().map(commit_ledger::end_field),
        "start_late_us": report.start_late / 1000,
        "cpu_us": cpu_us(),
        "workers": generator_health::totals(&report.health),
        "steal_us": footprint.steal_us,
        "memory": footprint.memory(spec.clients),
    });
    let unreported = report.unreported_errors + events.unreported_errors();
    if unreported > 0 {
        end["unreported_errors"] = json!(unreported);
    }
    if report.left_running > 0 {
        end["left_running"] = json!(report.left_running);
    }
    if spec.drivers.is_some() {
        end["statements"] = lua::end_fields(report);
    }
    if let (Some(outages), Some(end)) = (&report.outages, end.as_object_mut())
        && let Value::Object(fields) = outages::end_fields(outages, events.origin())
    {
        end.extend(fields);
    }
    end
}

fn connect_field(connects: &ConnectRecord, events: &mut Events) -> Value {
    let mut field = |of: &Latencies| match of.moments.count {
        0 => Value::Null,
        _ => json!({ "latency_ns": events::latency(of), "histogram": events.histogram(&of.histogram) }),
    };
    let mut fields = json!({ "count": connects.total.moments.count, "total": field(&connects.total) });
    for (name, part) in connects.parts() {
        fields[name] = field(part);
    }
    fields
}

fn script_end(spec: &Spec, report: &Report, number: usize, events: &mut Events) -> Value {
    let program = &spec.programs[number].program;
    let record = &report.scripts[number];
    let mut script = script(number, record, events);
    let pacing = &spec.pacing[number];
    script["keying_time"] = pause_event(pacing.keying, Some(&record.keying));
    script["think_time"] = pause_event(pacing.think, Some(&record.think));
    let commands = program.commands.iter().zip(&report.commands[number]).enumerate();
    let statements: Vec<Value> = commands
        .filter(|(_, (command, _))| command.statement.is_some())
        .filter_map(|(id, (command, record))| {
            let record = record.as_ref()?;
            let latencies = record.latencies();
            let mut statement = json!({
                "id": id,
                "executions": record.moments.count,
                "failures": record.failures,
                "retries": record.retries,
                "rows": (record.row_counts.results > 0).then_some(record.row_counts.rows),
                "latency_ns": events::latency(&latencies),
            });
            // percentiles of shares, and of several statements of one class, cannot be merged, but histograms can
            let may_merge = spec.share.is_some() || spec.programs.len() > 1 || spec.drivers.is_none();
            if may_merge && record.moments.count > 0 {
                statement["histogram"] = json!(events.histogram(&latencies.histogram));
            }
            // a statement that was not known at the `start` event
            if command.line == 0 {
                statement["text"] = json!(command.text);
            }
            Some(statement)
        })
        .collect();
    script["statements"] = json!(statements);
    script
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    NotPrepared,
    NotConnected,
    NotStarted,
    Interrupted,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::NotPrepared => "not-prepared",
            Self::NotConnected => "not-connected",
            Self::NotStarted => "not-started",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<&RunError> for Reason {
    fn from(error: &RunError) -> Self {
        match error {
            RunError::Connect { .. } => Self::NotConnected,
            RunError::Statement(_) => Self::NotPrepared,
            RunError::System(_) | RunError::Start(_) => Self::NotStarted,
            RunError::Interrupted => Self::Interrupted,
        }
    }
}

pub fn end_without_report(events: &mut Events, reason: Reason, failure: &Failure) -> io::Result<()> {
    let fields = json!({
        "outcome": "failed",
        "exit_code": Exit::NotBegun.code(),
        "reason": reason.name(),
        "message": failure.message,
        "hint": failure.hint,
        "cpu_us": cpu_us(),
    });
    events.write("end", fields)
}

/// Runs what is no load (-i, --tpcc-check) with its events, and reports its failure.
pub fn run_with_events(
    sink: Option<&EventSink>, messages: &Messages, run: impl FnOnce(&mut Events) -> Result<Exit, Failure>,
) -> Exit {
    let mut events = match Events::open(sink, Clock::start()) {
        Ok(events) => events,
        Err(failure) => return refuse(&failure, messages),
    };
    let (exit, failure) = match run(&mut events) {
        Ok(exit) => (exit, None),
        Err(failure) => (refuse(&failure, messages), Some(failure)),
    };
    let fields = json!({
        "outcome": match exit {
            Exit::Well | Exit::Refused => "finished",
            Exit::Signalled(_) => "interrupted",
            Exit::NotBegun | Exit::Aborted | Exit::Unwritten => "failed",
        },
        "exit_code": exit.code(),
        "message": failure.as_ref().map(|failure| &failure.message),
        "hint": failure.as_ref().and_then(|failure| failure.hint.as_ref()),
        "cpu_us": cpu_us(),
    });
    // Events keeps a failure, which is reported below
    let _ = events.write("end", fields);
    let mut outputs = Outputs::new(messages);
    if let Some(error) = events.failure() {
        outputs.report(events.name(), error);
    }
    outputs.exit(exit)
}

/// CPU time of the process so far, in microseconds.
fn cpu_us() -> Value {
    let ticks = |text: &str| text.parse::<u64>().unwrap_or(0) * 1_000_000 / rustix::param::clock_ticks_per_second();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // the name in parentheses may contain blanks; utime and stime are fields 14 and 15
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    match (fields.get(11), fields.get(12)) {
        (Some(user), Some(system)) => json!({ "user": ticks(user), "system": ticks(system) }),
        _ => Value::Null,
    }
}

fn planned_phases(phases: Option<&Phases>) -> Value {
    let ramp = |ramp: Ramp| json!({ "from": ramp.from, "to": ramp.to });
    phases.map_or(Value::Null, |phases| {
        let specs = phases.specs().iter();
        specs
            .map(|spec| {
                json!({
                    "name": spec.name,
                    "duration_s": spec.duration.as_secs_f64(),
                    "rate_per_s": spec.rate_per_s.map(ramp),
                    "clients": ramp(spec.clients),
                    "weights": spec.weights,
                    "result": spec.result,
                })
            })
            .collect()
    })
}

fn ended_phases(report: &Report, events: &mut Events) -> Value {
    if report.phases.is_empty() {
        return Value::Null;
    }
    let origin = report.phases[0].from;
    let phases = report.phases.iter();
    phases
        .map(|phase| {
            let mut value = phase_field(phase, events);
            value["from_us"] = json!((phase.from - origin) / 1000);
            value
        })
        .collect()
}

fn phase_field(phase: &PhaseReport, events: &mut Events) -> Value {
    let ScriptRecord { counts, latency, lag, .. } = phase.total();
    let scripts: Vec<Value> = phase.scripts.iter().enumerate().map(|(id, record)| script(id, record, events)).collect();
    json!({
        "name": phase.name,
        "result": phase.result,
        "from_us": Value::Null,
        "duration_s": phase.duration as f64 / SECOND as f64,
        "measured_s": phase.measured_s(),
        "scheduled": phase.scheduled(),
        "succeeded": counts.succeeded,
        "failed": counts.failed(),
        "skipped": counts.skipped,
        "in_flight": phase.in_flight,
        "unstarted": phase.unstarted,
        "late": counts.late,
        "retried": counts.retried,
        "retries": counts.retries,
        "tps": phase.tps(),
        "lag_ns": generator_health::lag(&lag),
        "latency_ns": events::latency(&latency),
        "histogram": (latency.moments.count > 0).then(|| events.histogram(&latency.histogram)),
        "scripts": scripts,
    })
}

fn script(id: usize, record: &ScriptRecord, events: &mut Events) -> Value {
    let mut script = events::counts(record);
    script["script"] = json!(id);
    script["latency_ns"] = events::latency(&record.latency);
    if record.latency.moments.count > 0 {
        script["histogram"] = json!(events.histogram(&record.latency.histogram));
    }
    script
}

/// A pause for an event, with the time `spent` in it by the end; null without a pause.
fn pause_event(pause: Pause, spent: Option<&Moments>) -> Value {
    let (distribution, mean) = match pause {
        Pause::None => return Value::Null,
        Pause::Fixed(length) => ("fixed", length),
        Pause::Exponential { mean } => ("exponential", mean),
    };
    let mut event = json!({ "distribution": distribution, "mean_s": mean.as_secs_f64() });
    if let Some(spent) = spent {
        event["count"] = json!(spent.count);
        event["spent_ns"] = match spent.count {
            0 => Value::Null,
            _ => json!({ "mean": spent.mean(), "min": spent.min, "max": spent.max }),
        };
    }
    event
}
