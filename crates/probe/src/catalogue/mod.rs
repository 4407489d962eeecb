//! Every source and metric of the probe: name, kind, unit and meaning, in one table.
//!
//! The reference of sources and metrics is generated from it.

mod describe;
mod host;
mod process;
mod replication;
mod server;
mod tables;

pub use describe::markdown;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The value at the sample's instant.
    Gauge,
    /// The increase of a counter since the last sample.
    Amount,
    /// The increase of a counter of microseconds, divided by the microseconds since the last sample.
    Average,
    /// The increase of a counter, divided by that of the named one; absent if that is zero.
    Mean(&'static str),
}

impl Kind {
    /// Name of the kind in the reference page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Amount => "amount",
            Self::Average => "average",
            Self::Mean(_) => "mean",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    /// Unit: bytes, count, us, ms, share, sessions or MHz; empty if the user knows it.
    pub unit: &'static str,
    pub meaning: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Host,
    Server,
    Probe,
}

/// Figures that are read together.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    pub name: &'static str,
    /// Where the source comes from.
    pub side: Side,
    /// The files or views that are read.
    pub read_from: &'static str,
    /// Names and meanings of the labels.
    pub labels: &'static [(&'static str, &'static str)],
    /// Whether amounts and averages of 0 are omitted.
    pub sparse: bool,
    /// Whether the counters of a new row began at 0.
    pub from_zero: bool,
    pub metrics: &'static [Metric],
}

impl Source {
    const fn host(name: &'static str, read_from: &'static str) -> Self {
        Self { name, side: Side::Host, read_from, labels: &[], sparse: false, from_zero: false, metrics: &[] }
    }

    const fn server(name: &'static str, read_from: &'static str) -> Self {
        Self { side: Side::Server, ..Self::host(name, read_from) }
    }

    const fn probe(name: &'static str, read_from: &'static str) -> Self {
        Self { side: Side::Probe, ..Self::host(name, read_from) }
    }

    const fn labels(self, labels: &'static [(&'static str, &'static str)]) -> Self {
        Self { labels, ..self }
    }

    const fn sparse(self) -> Self {
        Self { sparse: true, ..self }
    }

    const fn counted_from_zero(self) -> Self {
        Self { from_zero: true, ..self }
    }

    const fn metrics(self, metrics: &'static [Metric]) -> Self {
        Self { metrics, ..self }
    }
}

pub fn sources() -> Vec<&'static Source> {
    [host::SOURCES, process::SOURCES, server::SOURCES, tables::SOURCES, replication::SOURCES].concat()
}

/// The source with this name.
///
/// # Panics
/// There is no such source, which cannot happen because every name in the code is a constant.
pub fn source(name: &str) -> &'static Source {
    let found = sources().into_iter().find(|source| source.name == name);
    found.unwrap_or_else(|| panic!("the catalogue has no source {name}"))
}

const fn gauge(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    metric(name, Kind::Gauge, unit, meaning)
}

const fn amount(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    metric(name, Kind::Amount, unit, meaning)
}

const fn average(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    metric(name, Kind::Average, unit, meaning)
}

const fn mean(name: &'static str, of: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    metric(name, Kind::Mean(of), unit, meaning)
}

const fn metric(name: &'static str, kind: Kind, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, kind, unit, meaning }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_means_have_what_they_divide_by() {
        let mut known = HashSet::new();
        for source in sources() {
            assert!(known.insert(source.name), "{}", source.name);
            let names: HashSet<_> = source.metrics.iter().map(|metric| metric.name).collect();
            assert_eq!(names.len(), source.metrics.len(), "{}", source.name);
            for metric in source.metrics {
                if let Kind::Mean(of) = metric.kind {
                    assert!(names.contains(of), "{}.{}", source.name, metric.name);
                }
            }
        }
    }
}
