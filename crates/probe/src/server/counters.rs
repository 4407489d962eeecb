//! Counters of the server's views.

use pgdyno_connect::ResultSet;

use crate::catalogue::source;
use crate::sample::{Labels, Reading};

/// Reads columns with the names of labels or metrics; others are ignored.
pub fn readings(source_name: &str, answer: &ResultSet) -> Vec<Reading> {
    let source = source(source_name);
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
        Reading { key: labels, values: values.collect(), ..Reading::default() }
    });
    rows.collect()
}
