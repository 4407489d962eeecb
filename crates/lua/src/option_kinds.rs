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
