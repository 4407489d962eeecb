//! The figures of a run (clause 5.4): power, throughput, and their composite.

use std::io::{self, Write};
use std::sync::Arc;

use pgdyno_engine::clock::Nanos;
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::Spec;
use serde_json::{Value, json};

use super::queries::QUERIES;
use super::stream::{Step, Streams, Timing};
use crate::events::Events;
use crate::results::{Place, Results};

/// What the figures must not be taken for.
const DERIVED: &str = "derived from TPC-H, not comparable with published TPC-H results";

const SECONDS_AN_HOUR: f64 = 3600.0;

/// The figures of a run, each None if its part is not complete.
#[derive(Debug)]
pub struct Figures {
    streams: Arc<Streams>,
    /// Queries per hour times the scale factor, by the geometric mean of the power run's steps.
    power: Option<f64>,
    /// Queries per hour times the scale factor, while all streams run.
    throughput: Option<f64>,
    throughput_s: Option<f64>,
}

impl Results for Figures {
    fn add_end_fields(&self, end: &mut Value, _spec: &Spec, _report: &Report, _events: &mut Events) {
        end["tpch"] = self.event();
    }

    fn write(&self, place: Place, _report: &Report, out: &mut dyn Write) -> io::Result<()> {
        match place {
            Place::Last => self.write_lines(out),
            _ => Ok(()),
        }
    }
}

impl Figures {
    pub fn new(streams: Arc<Streams>) -> Self {
        let (power, throughput_s) = {
            let timings = streams.timings();
            let (of_power, others): (Vec<&Timing>, Vec<&Timing>) =
                timings.iter().partition(|timing| timing.stream == 0);
            let is_complete = of_power.len() == Step::all().count();
            let power_s = is_complete.then(|| geometric_mean(&of_power));
            let is_complete = others.len() == streams.streams * Step::all().count();
            let from = others.iter().map(|timing| timing.from).min();
            let until = others.iter().map(|timing| timing.until).max();
            let span = from.zip(until).filter(|_| is_complete);
            (power_s, span.map(|(from, until)| seconds(until - from)))
        };
        let scale_factor = streams.tpch.scale_factor();
        let queries = (streams.streams * QUERIES) as f64;
        Self {
            power: power.map(|mean_s| SECONDS_AN_HOUR / mean_s * scale_factor),
            throughput: throughput_s.map(|span_s| queries * SECONDS_AN_HOUR / span_s * scale_factor),
            throughput_s,
            streams,
        }
    }

    fn composite(&self) -> Option<f64> {
        let both = self.power.zip(self.throughput);
        both.map(|(power, throughput)| (power * throughput).sqrt())
    }

    fn write_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        let scale_factor = self.streams.tpch.scale_factor();
        let streams = self.streams.streams;
        writeln!(out, "scale factor {scale_factor}, {streams} streams; {DERIVED}")?;
        let shown =
            |figure: Option<f64>| figure.map_or_else(|| "not complete".to_owned(), |value| format!("{value:.1}"));
        writeln!(out, "power = {} queries/h x scale factor", shown(self.power))?;
        writeln!(out, "throughput = {} queries/h x scale factor", shown(self.throughput))?;
        writeln!(out, "composite = {}", shown(self.composite()))?;
        let timings = self.streams.timings();
        for step in Step::all() {
            let of = |is_power: bool| {
                let mut one = timings.iter();
                let found = one.find(|timing| timing.step == step && (timing.stream == 0) == is_power);
                found.map_or_else(|| "-".to_owned(), |timing| format!("{:.3}", timing.seconds()))
            };
            writeln!(out, "{:4} power run {:>10} s, stream 1 {:>10} s", step.name(), of(true), of(false))?;
        }
        Ok(())
    }

    fn event(&self) -> Value {
        let timing = |one: &Timing| {
            json!({
                "stream": one.stream,
                "query": one.step.name(),
                "seconds": one.seconds(),
            })
        };
        json!({
            "scale_factor": self.streams.tpch.scale_factor(),
            "streams": self.streams.streams,
            "power": self.power,
            "throughput": self.throughput,
            "throughput_s": self.throughput_s,
            "composite": self.composite(),
            "timings": self.streams.timings().iter().map(timing).collect::<Vec<_>>(),
        })
    }
}

impl Timing {
    fn seconds(&self) -> f64 {
        seconds(self.until - self.from)
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

/// In seconds. Clause 5.4.1.4: no interval counts as less than a thousandth of the longest one.
fn geometric_mean(timings: &[&Timing]) -> f64 {
    let all = timings.iter().map(|timing| timing.seconds());
    let longest = all.clone().fold(0.0, f64::max);
    let logs = all.map(|one| one.max(longest / 1_000.0).ln());
    (logs.sum::<f64>() / timings.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use pgdyno_dataset::Tpch;

    use super::*;

    fn figures(timings: &[(usize, u64, u64)]) -> Figures {
        let tpch = Tpch::new(0.5).expect("a scale factor");
        let streams = Arc::new(Streams::new(tpch, 1, 1));
        for (stream, from_s, until_s) in timings {
            let steps = Step::all().map(|step| Timing {
                stream: *stream,
                step,
                from: from_s * 1_000_000_000,
                until: until_s * 1_000_000_000,
            });
            streams.timings().extend(steps);
        }
        Figures::new(streams)
    }

    #[test]
    fn the_composite_is_the_geometric_mean_of_power_and_throughput() {
        let whole = figures(&[(0, 0, 2), (1, 10, 110)]);
        // 24 steps of 2 s, and 22 queries in 100 s
        assert!((whole.power.expect("power") - 900.0).abs() < 1e-6);
        assert!((whole.throughput.expect("throughput") - 396.0).abs() < 1e-6);
        let composite = whole.composite().expect("a composite");
        assert!((composite * composite - 900.0 * 396.0).abs() < 1e-3);
        // a run that ended early has no figures
        let figures = figures(&[(0, 0, 2)]);
        assert!(figures.power.is_some());
        assert_eq!((figures.throughput, figures.composite()), (None, None));
    }
}
