//! Counters of the server's views, once a second.

use std::collections::HashMap;

use pgdyno_connect::ResultSet;

use super::query::Query;
use crate::catalogue::{Source, source};
use crate::clock::Stamp;
use crate::sample::{Differ, Labels, Reading, Sample};

/// Remembers the last sample of each source.
#[derive(Debug, Default)]
pub struct Counters {
    differs: HashMap<&'static str, Differ>,
}

impl Counters {
    /// Forgets all samples, because the server may have been restarted, which resets its counters.
    pub fn forget(&mut self) {
        self.differs.clear();
    }

    pub fn sample(&mut self, query: &Query, at: Stamp, answer: &ResultSet) -> Sample {
        let of = source(query.source);
        let differ = self.differs.entry(of.name).or_insert_with(|| Differ::new(of));
        differ.sample(at, readings(of, answer))
    }
}

/// Reads columns with the names of labels or metrics; others are ignored.
pub(super) fn readings(source: &'static Source, answer: &ResultSet) -> Vec<Reading> {
    let rows = answer.rows.iter().map(|row| {
        let cells = || answer.columns.iter().zip(row);
        let labels: Labels = source
            .labels
            .iter()
            .filter_map(|(name, _)| {
                let (_, value) = cells().find(|(column, _)| column == name)?;
                Some((*name, value.clone()?))
            })
            .collect();
        let values = source.metrics.iter().filter_map(|metric| {
            let (_, value) = cells().find(|(column, _)| *column == metric.name)?;
            Some((metric.name, value.as_deref()?.parse().ok()?))
        });
        Reading { key: labels, more: Vec::new(), values: values.collect() }
    });
    rows.collect()
}
