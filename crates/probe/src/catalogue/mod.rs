//! Every source and metric of the probe: name, kind, unit and meaning, in one table.
//!
//! `docs/reference/probe.md` is made of it, and a test holds the two equal.

mod describe;
mod host;
mod process;
mod replication;
mod server;
mod tables;

pub use describe::markdown;

/// What becomes of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As it was at the sample's instant.
    Gauge,
    /// What a counter gained since the sample before.
    Amount,
    /// What a counter of microseconds gained, over the microseconds since the sample before.
    Average,
    /// What a counter gained, over what the named one gained; absent where that is nothing.
    Mean(&'static str),
}

impl Kind {
    /// What the reference page calls it.
    #[must_use]
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
    /// As in samples.
    pub name: &'static str,
    pub kind: Kind,
    /// Its unit: bytes, count, us, ms, share, sessions, MHz.
    pub unit: &'static str,
    pub meaning: &'static str,
}

/// Who can give a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The host on which the probe runs.
    Host,
    /// The server, over SQL.
    Server,
    /// The probe itself.
    Probe,
}

/// Figures that are read together.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// As in samples.
    pub name: &'static str,
    /// Who gives it.
    pub side: Side,
    /// Files or views.
    pub read_from: &'static str,
    /// Names of labels, and what they say.
    pub labels: &'static [(&'static str, &'static str)],
    /// Whether amounts and averages of 0 are left out.
    pub sparse: bool,
    /// Whether the counters of a row that was not there before began at 0.
    pub from_zero: bool,
    /// Its figures, in their order.
    pub metrics: &'static [Metric],
}

#[must_use]
pub fn sources() -> Vec<&'static Source> {
    [
        host::SOURCES,
        process::SOURCES,
        server::SOURCES,
        tables::SOURCES,
        replication::SOURCES,
    ]
    .concat()
}

/// The source of this name.
///
/// # Panics
/// When the table has none: every name in the code is a constant.
#[must_use]
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

const fn mean(
    name: &'static str,
    of: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> Metric {
    metric(name, Kind::Mean(of), unit, meaning)
}

const fn metric(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    meaning: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        unit,
        meaning,
    }
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
