//! Phases in the events `start` and `end`: the contract is `docs/reference/events.md`.

use pgdyno_engine::clock::SECOND;
use pgdyno_engine::phase_report::PhaseReport;
use pgdyno_engine::phases::{Phases, Ramp};
use pgdyno_engine::recorder::ScriptRecord;
use pgdyno_engine::report::Report;
use serde_json::{Value, json};

use crate::events::{self, Events};
use crate::generator_health;

/// The planned phases; null for a load without phases.
pub fn planned(phases: Option<&Phases>) -> Value {
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

/// The results of each phase; null for a load without phases.
pub fn ended(report: &Report, events: &mut Events) -> Value {
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
    let (counts, latency) = (phase.counts(), phase.latency());
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
        "lag_ns": generator_health::lag(&phase.lag()),
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
