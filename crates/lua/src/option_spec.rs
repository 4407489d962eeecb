//! One option of a script: its type, its default and the values that it accepts.

use crate::option_kinds::{Kind, OptionValue};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OptionSpec {
    pub name: String,
    pub description: String,
    pub kind: Kind,
    /// The default as text, if there is one.
    pub shown: Option<String>,
    pub default: OptionValue,
    /// The least and the greatest accepted number, if the range is limited.
    pub range: Option<(f64, f64)>,
}

impl OptionSpec {
    /// An option whose default, if it has one, is a text of its type.
    pub fn new(name: &str, description: &str, kind: Kind, default: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            kind,
            shown: default.map(str::to_owned),
            default: default.and_then(|text| kind.parse(text).ok()).unwrap_or_else(|| kind.without_default()),
            range: None,
        }
    }

    pub fn within(mut self, least: f64, most: f64) -> Self {
        self.range = Some((least, most));
        self
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The value is not accepted; the error says what is expected.
    pub fn parse(&self, text: &str) -> Result<OptionValue, String> {
        let value = self.kind.parse(text).map_err(str::to_owned)?;
        let number = match value {
            OptionValue::Int(number) => number as f64,
            OptionValue::Double(number) => number,
            _ => return Ok(value),
        };
        match self.range {
            // NaN is in no range
            Some((least, most)) if !(least..=most).contains(&number) => Err(format!("a number from {least} to {most}")),
            _ => Ok(value),
        }
    }

    /// The name of its field in `sysbench.opt`.
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    pub fn dashed(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// The field of `sysbench.opt` for a name in any spelling.
pub(crate) fn key(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_")
}
