//! `--replay`: a captured load.

use std::path::PathBuf;

use pgdyno_engine::schedule::Arrivals;
use pgdyno_replay::Pace;

use super::option_values::{Origin, ScriptChoice};
use crate::messages::Failure;

/// The highest factor of --pace; a larger one gives no load that a smaller one does not.
const MOST: f64 = 1e6;

#[derive(Debug, Clone, PartialEq)]
pub struct ReplayChoice {
    pub path: PathBuf,
    pub pace: Pace,
}

#[derive(Debug, Default)]
pub(super) struct ReplayOptions {
    pub path: Option<String>,
    pub pace: Option<Pace>,
}

impl ReplayOptions {
    pub fn resolve(&self) -> Result<Option<ReplayChoice>, Failure> {
        match (&self.path, self.pace) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Failure::new("--pace needs --replay=FILE")),
            (Some(path), pace) => Ok(Some(ReplayChoice { path: path.into(), pace: pace.unwrap_or(Pace::Factor(1.0)) })),
        }
    }
}

impl ReplayChoice {
    pub fn arrivals(&self) -> Arrivals {
        match self.pace {
            Pace::Factor(_) => Arrivals::Driven,
            Pace::Max => Arrivals::Closed,
        }
    }

    /// The load's only script; its statements are known when the file is read.
    pub fn script(&self) -> ScriptChoice {
        ScriptChoice { origin: Origin::Driven { name: "replay".to_owned(), commands: Vec::new() }, weight: 1 }
    }
}

pub(super) fn pace(text: &str) -> Result<Pace, Failure> {
    if text == "max" {
        return Ok(Pace::Max);
    }
    match text.parse::<f64>() {
        Ok(factor) if (1.0 / MOST..=MOST).contains(&factor) => Ok(Pace::Factor(factor)),
        _ => Err(Failure::new(format!("invalid argument of --pace: \"{text}\""))
            .hint("Give a factor, such as 2 for twice as fast as captured, or \"max\" for no pauses.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_a_factor_or_max() {
        assert_eq!((pace("0.5").ok(), pace("max").ok()), (Some(Pace::Factor(0.5)), Some(Pace::Max)));
        for text in ["0", "-1", "nan", "inf", "fast", ""] {
            assert!(pace(text).is_err(), "{text}");
        }
    }
}
