//! Turns readings into samples: counters become increases.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::catalogue::{Kind, Metric, Side, Source, source};
use crate::clock::Stamp;

/// Names and values that identify a row of a source or describe it further.
pub type Labels = Vec<(&'static str, String)>;

/// Values by metric.
pub type Values = Vec<(&'static str, f64)>;

/// A row as it was read, with the current values of counters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Distinguishes the row from others of its source.
    pub key: Labels,
    /// Further labels, which may change from sample to sample.
    pub more: Labels,
    /// Counters for averages are in microseconds.
    pub values: Values,
}

impl Reading {
    /// The row of a source that has no labels, without the values that could not be read.
    pub fn single(values: &[(&'static str, Option<f64>)]) -> Vec<Self> {
        vec![Self { values: present(values), ..Self::default() }]
    }

    /// A row with labels that identify it.
    pub fn labelled(key: Labels, values: &[(&'static str, Option<f64>)]) -> Self {
        Self { key, more: Labels::new(), values: present(values) }
    }
}

pub fn present(values: &[(&'static str, Option<f64>)]) -> Values {
    values.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect()
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// The key and the further labels.
    pub labels: Labels,
    /// In the catalogue's order.
    pub values: Values,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub source: &'static Source,
    pub at: Stamp,
    /// Time since the last sample; None for the first one.
    pub span_us: Option<u64>,
    pub rows: Vec<Row>,
    /// Whether a counter decreased, because the server was restarted or its statistics were reset.
    pub reset: bool,
}

/// Remembers the last sample of one source.
#[derive(Debug)]
pub struct Differ {
    source: &'static Source,
    before: HashMap<Labels, Values>,
    at: Option<Stamp>,
}

impl Differ {
    pub fn new(source: &'static Source) -> Self {
        Self { source, before: HashMap::new(), at: None }
    }

    /// The sample that follows from `readings` at this instant.
    pub fn sample(&mut self, at: Stamp, readings: Vec<Reading>) -> Sample {
        let span_us = self.at.map(|before| at.t_us.saturating_sub(before.t_us).max(1));
        let mut reset = false;
        let mut rows = Vec::with_capacity(readings.len());
        let mut seen = HashMap::with_capacity(readings.len());
        for reading in readings {
            let known = self.before.get(&reading.key);
            let before = match known {
                Some(values) => Before::Values(values),
                None if self.source.from_zero && span_us.is_some() => Before::Zero,
                None => Before::Nothing,
            };
            let growth = Growth { before, span_us, is_host: self.source.side == Side::Host };
            let values = growth.values(self.source, &reading.values, &mut reset);
            let mut labels = reading.key.clone();
            labels.extend(reading.more);
            seen.insert(reading.key, reading.values);
            if !values.is_empty() {
                rows.push(Row { labels, values });
            }
        }
        self.before = seen;
        self.at = Some(at);
        Sample { source: self.source, at, span_us, rows, reset }
    }
}

/// Remembers the last sample of each source.
#[derive(Debug, Default)]
pub struct Differs(HashMap<&'static str, Differ>);

impl Differs {
    pub fn sample(&mut self, name: &'static str, at: Stamp, readings: Vec<Reading>) -> Sample {
        self.0.entry(name).or_insert_with(|| Differ::new(source(name))).sample(at, readings)
    }
}

enum Before<'a> {
    Nothing,
    Zero,
    Values(&'a [(&'static str, f64)]),
}

struct Growth<'a> {
    before: Before<'a>,
    span_us: Option<u64>,
    is_host: bool,
}

impl Growth<'_> {
    fn values(&self, source: &Source, now: &[(&'static str, f64)], reset: &mut bool) -> Values {
        let mut values = Vec::with_capacity(now.len());
        for metric in source.metrics {
            let Some(&raw) = find(now, metric.name) else {
                continue;
            };
            let Some(value) = self.value(metric, raw, now, reset) else {
                continue;
            };
            let is_left_out = source.sparse && metric.kind != Kind::Gauge && value == 0.0;
            if !is_left_out {
                values.push((metric.name, value));
            }
        }
        values
    }

    fn value(&self, metric: &Metric, raw: f64, now: &[(&'static str, f64)], reset: &mut bool) -> Option<f64> {
        if metric.kind == Kind::Gauge {
            return Some(raw);
        }
        let mut gained = raw - self.counted_before(metric.name)?;
        if gained < 0.0 && self.is_host {
            // the kernel corrects its counters, so idle and iowait may decrease (proc(5))
            gained = 0.0;
        }
        if gained < 0.0 {
            *reset = true;
            return None;
        }
        match metric.kind {
            Kind::Gauge | Kind::Amount => Some(gained),
            Kind::Average => Some(gained / self.span_us? as f64),
            Kind::Mean(of) => {
                let number = find(now, of)? - self.counted_before(of)?;
                (number > 0.0).then(|| gained / number)
            }
        }
    }

    fn counted_before(&self, name: &str) -> Option<f64> {
        match self.before {
            Before::Nothing => None,
            Before::Zero => Some(0.0),
            Before::Values(values) => find(values, name).copied(),
        }
    }
}

pub fn find<'a, T>(all: &'a [(&'static str, T)], name: &str) -> Option<&'a T> {
    all.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

impl Sample {
    /// The fields of its line, except the times.
    pub fn fields(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({"source": self.source.name, "span_us": self.span_us, "rows": rows})
    }
}

impl Row {
    /// The fields `labels` and `values`.
    pub fn json(&self) -> Value {
        let mut row = json!({});
        if !self.labels.is_empty() {
            row["labels"] = self.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        }
        row["values"] = self.values.iter().map(|(name, value)| (*name, number(*value))).collect();
        row
    }
}

/// Integers without a decimal point, and others with six digits after it, because nothing is measured more precisely.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        (value as i64).into()
    } else {
        ((value * 1e6).round() / 1e6).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::source;

    fn at(t_us: u64) -> Stamp {
        Stamp { t_us, wall_us: 1_000_000_000 + t_us }
    }

    fn disk(device: &str, values: &[(&'static str, f64)]) -> Reading {
        Reading { key: vec![("device", device.to_owned())], more: Vec::new(), values: values.to_vec() }
    }

    #[test]
    fn counters_become_amounts_averages_and_means() {
        let mut differ = Differ::new(source("disk"));
        let counters = |busy_us, reads, ms, in_flight| {
            let values = [("utilisation", busy_us), ("reads", reads), ("read_await", ms), ("in_flight", in_flight)];
            vec![disk("vda", &values)]
        };
        let first = differ.sample(at(0), counters(1000.0, 10.0, 7.0, 3.0));
        assert_eq!(first.span_us, None);
        assert_eq!(first.rows[0].values, [("in_flight", 3.0)]);
        let second = differ.sample(at(2_000_000), counters(501_000.0, 30.0, 17.0, 0.0));
        assert_eq!(second.span_us, Some(2_000_000));
        let expected = [("utilisation", 0.25), ("in_flight", 0.0), ("reads", 20.0), ("read_await", 0.5)];
        assert_eq!(second.rows[0].values, expected);
        // nothing was read, so the mean is absent
        let third = differ.sample(at(3_000_000), counters(501_000.0, 30.0, 17.0, 0.0));
        let names: Vec<_> = third.rows[0].values.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["utilisation", "in_flight", "reads"]);
    }

    #[test]
    fn counters_may_go_back_a_little_and_figures_are_exact() {
        let mut differ = Differ::new(source("cpu"));
        let idle = |us| {
            let values = vec![("idle", us)];
            vec![Reading { values, ..Reading::default() }]
        };
        differ.sample(at(0), idle(100.0));
        let sample = differ.sample(at(1_000_000), idle(90.0));
        assert_eq!(sample.rows[0].values, [("idle", 0.0)]);
        assert!(!sample.reset);
        // figures are written as exactly as they are known
        let written = [3.0, 0.333_333_333_3, -2.5, 1e15].map(|value| number(value).to_string());
        assert_eq!(written, ["3", "0.333333", "-2.5", "1000000000000000"]);
    }

    #[test]
    fn a_new_process_counts_from_its_beginning_and_a_new_device_does_not() {
        let mut differ = Differ::new(source("process"));
        let process =
            |pid: &str, us| Reading { key: vec![("pid", pid.to_owned())], more: Vec::new(), values: vec![("cpu", us)] };
        assert!(differ.sample(at(0), vec![process("1", 500.0)]).rows.is_empty());
        let sample = differ.sample(at(1_000_000), vec![process("1", 500.0), process("2", 70.0)]);
        assert_eq!(sample.rows.len(), 1);
        assert_eq!(sample.rows[0].labels, [("pid", "2".to_owned())]);
        assert_eq!(sample.rows[0].values, [("cpu", 70.0)]);

        let mut differ = Differ::new(source("disk"));
        differ.sample(at(0), vec![disk("vda", &[("reads", 5.0)])]);
        let sample =
            differ.sample(at(1_000_000), vec![disk("vda", &[("reads", 6.0)]), disk("vdb", &[("reads", 900.0)])]);
        assert_eq!(sample.rows[0].values, [("reads", 1.0)]);
        assert_eq!(sample.rows.len(), 1);
    }
}
