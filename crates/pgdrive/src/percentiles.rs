//! `--percentiles`: latency percentiles of all transactions.

use std::io::{self, Write};

use pgdyno_engine::latencies::Latencies;

use crate::messages::Failure;

const DEFAULT: &[f64] = &[50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Percentages above 0 and up to 100, in the order in which they are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentiles(Vec<f64>);

/// Whether `word` is a list of percentiles, and so not a database's name.
pub fn is_list(word: &str) -> bool {
    !word.is_empty() && Percentiles::parse(word).is_ok()
}

impl Percentiles {
    /// Parses `50,99.9`; an empty text stands for the default list.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if text.is_empty() {
            return Ok(Self(DEFAULT.to_vec()));
        }
        let percent = |part: &str| match part.trim().parse::<f64>() {
            Ok(value) if value > 0.0 && value <= 100.0 => Ok(value),
            _ => Err(Failure::new(format!("invalid percentile: \"{part}\""))
                .hint("Percentiles are numbers above 0 and up to 100, separated by commas.")),
        };
        text.split(',').map(percent).collect::<Result<_, _>>().map(Self)
    }

    /// Writes a line for each; nothing without latencies.
    pub fn write(&self, out: &mut impl Write, prefix: &str, latencies: &Latencies) -> io::Result<()> {
        if latencies.moments.count == 0 {
            return Ok(());
        }
        self.0.iter().try_for_each(|percent| {
            let value_ms = at_ms(latencies, *percent);
            writeln!(out, "{prefix}latency percentile {percent} = {value_ms:.3} ms")
        })
    }

    pub fn names(&self) -> String {
        let names: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        names.join(", ")
    }

    /// Writes them as columns, without the end of the line.
    pub fn write_columns(&self, out: &mut impl Write, latencies: &Latencies) -> io::Result<()> {
        self.0.iter().try_for_each(|percent| {
            let value_ms = if latencies.moments.count == 0 { 0.0 } else { at_ms(latencies, *percent) };
            write!(out, "   {value_ms:11.3}")
        })
    }
}

fn at_ms(latencies: &Latencies, percent: f64) -> f64 {
    latencies.at_quantile(percent / 100.0) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_a_line_a_percentile() {
        assert_eq!(Percentiles::parse("").map(|p| p.0.len()), Ok(6));
        assert_eq!(Percentiles::parse("50, 99.9,100"), Ok(Percentiles(vec![50.0, 99.9, 100.0])));
        for wrong in ["0", "101", "x", "50,", "nan"] {
            assert!(Percentiles::parse(wrong).is_err(), "{wrong}");
        }
        // a line a percentile
        let mut latencies = Latencies::default();
        (1..=100u64).for_each(|ms| latencies.record(ms * 1_000_000));
        let mut out = Vec::new();
        let percentiles = Percentiles(vec![50.0, 99.9]);
        percentiles.write(&mut out, " - ", &latencies).expect("a Vec takes everything");
        let text = String::from_utf8(out).expect("it is UTF-8");
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with(" - latency percentile 50 = 50.0"), "{text}");
        assert!(lines[1].starts_with(" - latency percentile 99.9 = 100."), "{text}");
    }
}
