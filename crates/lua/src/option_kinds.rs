//! Types of options, as in sysbench, and their values.

use mlua::{IntoLua, Lua, Value};

#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    List(Vec<String>),
}

/// The type of an option: sysbench's `sb_arg_type_t`, which scripts name as `sysbench.cmdline.ARG_…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    /// A 32-bit integer.
    Int,
    /// An integer with a suffix for powers of 1024.
    Size,
    /// A number; the type of options for which the script does not name any.
    Double,
    Text,
    List,
}

impl Kind {
    /// The type with this number in sysbench.
    pub fn numbered(number: i64) -> Option<Self> {
        Some(match number {
            1 => Self::Bool,
            2 => Self::Int,
            3 => Self::Size,
            4 => Self::Double,
            5 => Self::Text,
            6 => Self::List,
            _ => return None,
        })
    }

    /// How sysbench shows that an option takes a value.
    pub fn form(self) -> &'static str {
        match self {
            Self::Bool => "[=on|off]",
            Self::Int | Self::Double => "=N",
            Self::Size => "=SIZE",
            Self::Text => "=STRING",
            Self::List => "=[LIST,...]",
        }
    }

    /// The value of an option without a default that was not given. A flag is on: sysbench treats
    /// it like one that was given without a value.
    pub fn without_default(self) -> OptionValue {
        match self {
            Self::Bool => OptionValue::Bool(true),
            Self::Int | Self::Size | Self::Double => OptionValue::Int(0),
            Self::Text => OptionValue::Text(String::new()),
            Self::List => OptionValue::List(Vec::new()),
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The text is not a value of this type; the error says what is expected.
    pub fn parse(self, text: &str) -> Result<OptionValue, &'static str> {
        Ok(match self {
            Self::Bool => OptionValue::Bool(match text {
                "on" | "true" | "1" | "yes" | "" => true,
                "off" | "false" | "0" | "no" => false,
                _ => return Err("on or off"),
            }),
            Self::Int => {
                let number: i32 = text.parse().map_err(|_| "a whole number of 32 bits")?;
                OptionValue::Int(number.into())
            }
            Self::Size => {
                let number = integer(text).filter(|number| *number >= 0);
                OptionValue::Int(number.ok_or("a size such as 4096 or 16K")?)
            }
            Self::Double => match integer(text) {
                Some(number) => OptionValue::Int(number),
                None => {
                    OptionValue::Double(text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or("a number")?)
                }
            },
            Self::Text => OptionValue::Text(text.to_owned()),
            Self::List => {
                let items = text.split(',').filter(|item| !item.is_empty());
                OptionValue::List(items.map(str::to_owned).collect())
            }
        })
    }
}

impl IntoLua for OptionValue {
    fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        match self {
            Self::Bool(value) => value.into_lua(lua),
            Self::Int(value) => value.into_lua(lua),
            Self::Double(value) => value.into_lua(lua),
            Self::Text(value) => value.into_lua(lua),
            Self::List(values) => values.into_lua(lua),
        }
    }
}

/// An integer, with sysbench's suffixes K, M, G and T for powers of 1024.
fn integer(text: &str) -> Option<i64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    digits.parse::<i64>().ok()?.checked_mul(1 << shift)
}

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
