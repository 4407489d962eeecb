//! One option of a script: its kind, its default and the values that it takes.

use crate::option_kinds::{Kind, OptionValue};

/// An option and its value when none is given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OptionSpec {
    /// As it was declared.
    pub name: String,
    pub description: String,
    pub kind: Kind,
    /// The default as text, if there is one.
    pub shown: Option<String>,
    pub default: OptionValue,
    /// Smallest and largest number that it takes, where not every one is.
    pub range: Option<(f64, f64)>,
}

impl OptionSpec {
    /// One whose default, if it has one, is a text of its kind.
    pub fn new(name: &str, description: &str, kind: Kind, default: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            kind,
            shown: default.map(str::to_owned),
            default: default
                .and_then(|text| kind.parse(text).ok())
                .unwrap_or_else(|| kind.without_default()),
            range: None,
        }
    }

    /// The same for numbers from `least` to `most`.
    pub fn within(mut self, least: f64, most: f64) -> Self {
        self.range = Some((least, most));
        self
    }

    /// Reads a value.
    ///
    /// # Errors
    /// What it should be.
    pub fn parse(&self, text: &str) -> Result<OptionValue, String> {
        let value = self.kind.parse(text).map_err(str::to_owned)?;
        let number = match value {
            OptionValue::Int(number) => number as f64,
            OptionValue::Double(number) => number,
            _ => return Ok(value),
        };
        match self.range {
            // what is not a number is in no range
            Some((least, most)) if !(least..=most).contains(&number) => {
                Err(format!("a number from {least} to {most}"))
            }
            _ => Ok(value),
        }
    }

    /// The name in `sysbench.opt`.
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The name in messages.
    pub fn dashed(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// A name as it may be given, as `sysbench.opt` has it.
pub(crate) fn key(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_")
}
