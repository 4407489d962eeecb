//! Values of the expression language and their coercions.

use crate::error::EvalError;
use crate::number::{parse_double, write_double, write_int};

/// An error of evaluation, boxed so that the result of an evaluation has two words.
pub(crate) type Fault = Box<EvalError>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The null constant; most functions of null are null.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A 64-bit integer; arithmetic that overflows is an error.
    Int(i64),
    /// A double; arithmetic follows IEEE 754.
    Double(f64),
}

/// Why a text is not a value (the caller knows the variable's name).
#[derive(Debug, PartialEq)]
pub(crate) enum TextFault {
    Empty,
    OutOfRange,
    NotAnInteger,
    Malformed,
}

impl Value {
    /// Name of the type in messages: `null`, `boolean`, `int` or `double`.
    pub fn type_name(self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "int",
            Value::Double(_) => "double",
        }
    }

    /// Truth of a condition of `\if` or `case`: null and zero are false.
    pub fn truth(self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(b) => b,
            Value::Int(i) => i != 0,
            Value::Double(d) => d != 0.0,
        }
    }

    /// Appends the value as SQL shows it: `NULL`, `true`, `-5`, `0.1`. Doubles have at most 15 significant digits.
    pub fn write_text(self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"NULL"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Int(i) => write_int(i, out),
            Value::Double(d) => write_double(d, out),
        }
    }

    /// The value as `debug()` shows it: `null`, `boolean true`, `int -5`, `double 0.1`.
    pub fn debug_text(self) -> String {
        if self == Value::Null {
            return "null".to_owned();
        }
        let mut text = Vec::new();
        self.write_text(&mut text);
        format!("{} {}", self.type_name(), String::from_utf8_lossy(&text))
    }

    #[inline]
    pub(crate) fn as_int(self) -> Result<i64, Fault> {
        match self {
            Value::Int(i) => Ok(i),
            Value::Double(d) => double_to_int(d),
            other => Err(cannot_coerce(other, "int")),
        }
    }

    #[inline]
    pub(crate) fn as_double(self) -> Result<f64, Fault> {
        match self {
            Value::Double(d) => Ok(d),
            Value::Int(i) => Ok(i as f64),
            other => Err(cannot_coerce(other, "double")),
        }
    }

    #[inline]
    pub(crate) fn as_bool(self) -> Result<bool, Fault> {
        match self {
            Value::Bool(b) => Ok(b),
            other => Err(cannot_coerce(other, "boolean")),
        }
    }

    /// Determines the type of a variable's text: null, then booleans (any prefix of true, yes,
    /// false, no; on, off, of), integers, doubles. Letter case does not matter.
    pub(crate) fn from_text(text: &[u8]) -> Result<Value, TextFault> {
        let prefix_of =
            |word: &str| text.len() <= word.len() && word.as_bytes()[..text.len()].eq_ignore_ascii_case(text);
        let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
        if text.is_empty() {
            Err(TextFault::Empty)
        } else if is("null") {
            Ok(Value::Null)
        } else if prefix_of("true") || prefix_of("yes") || is("on") {
            Ok(Value::Bool(true))
        } else if prefix_of("false") || prefix_of("no") || is("off") || is("of") {
            Ok(Value::Bool(false))
        } else if looks_like_int(text) {
            parse_int(text).map(Value::Int)
        } else {
            let double = parse_double(text).ok_or(TextFault::Malformed)?;
            Ok(Value::Double(double))
        }
    }
}

/// C's isspace in the C locale.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn split_space_and_sign(text: &[u8]) -> (bool, &[u8]) {
    let start = text.iter().take_while(|b| is_space(**b)).count();
    match text[start..] {
        [b'-', ref digits @ ..] => (true, digits),
        [b'+', ref digits @ ..] => (false, digits),
        ref digits => (false, digits),
    }
}

/// A lone sign or blank also looks like an integer here; pgbench then reports
/// it as invalid input for a bigint rather than as a malformed variable.
fn looks_like_int(text: &[u8]) -> bool {
    split_space_and_sign(text).1.iter().all(u8::is_ascii_digit)
}

fn parse_int(text: &[u8]) -> Result<i64, TextFault> {
    let (negative, digits) = split_space_and_sign(text);
    if digits.is_empty() {
        return Err(TextFault::NotAnInteger);
    }
    digits
        .iter()
        .try_fold(0i64, |sum, digit| {
            let digit = i64::from(digit - b'0');
            let shifted = sum.checked_mul(10)?;
            if negative { shifted.checked_sub(digit) } else { shifted.checked_add(digit) }
        })
        .ok_or(TextFault::OutOfRange)
}

/// C's atoi: blanks, a sign, digits; anything after them is ignored. Saturates.
pub(crate) fn leading_int(text: &[u8]) -> i64 {
    let (negative, digits) = split_space_and_sign(text);
    let magnitude = digits
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if negative { -magnitude } else { magnitude }
}

fn double_to_int(double: f64) -> Result<i64, Fault> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let rounded = double.round_ties_even();
    if (-LIMIT..LIMIT).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(Box::new(EvalError::DoubleToInt { value: rounded }))
    }
}

#[cold]
fn cannot_coerce(value: Value, to: &'static str) -> Fault {
    Box::new(EvalError::CannotCoerce { from: value.type_name(), to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_typed_as_pgbench_does() {
        let table: &[(&str, Result<Value, TextFault>)] = &[
            ("", Err(TextFault::Empty)),
            ("NULL", Ok(Value::Null)),
            ("nul", Err(TextFault::Malformed)),
            ("t", Ok(Value::Bool(true))),
            ("TRU", Ok(Value::Bool(true))),
            ("y", Ok(Value::Bool(true))),
            ("yes", Ok(Value::Bool(true))),
            ("on", Ok(Value::Bool(true))),
            ("o", Err(TextFault::Malformed)),
            ("n", Ok(Value::Bool(false))),
            ("fal", Ok(Value::Bool(false))),
            ("of", Ok(Value::Bool(false))),
            ("trueXXX", Err(TextFault::Malformed)),
            ("0", Ok(Value::Int(0))),
            (" +3", Ok(Value::Int(3))),
            ("-9223372036854775808", Ok(Value::Int(i64::MIN))),
            ("9223372036854775808", Err(TextFault::OutOfRange)),
            ("-", Err(TextFault::NotAnInteger)),
            ("3 ", Err(TextFault::Malformed)),
            ("-10.1", Ok(Value::Double(-10.1))),
            ("1e3", Ok(Value::Double(1000.0))),
            ("0x10", Ok(Value::Double(16.0))),
            ("1e400", Err(TextFault::Malformed)),
        ];
        for (text, expected) in table {
            assert_eq!(&Value::from_text(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn values_as_integers_and_as_truth() {
        for (double, int) in [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2)] {
            assert_eq!(Value::Double(double).as_int(), Ok(int));
        }
        assert_eq!(Value::Double(-9223372036854775808.0).as_int(), Ok(i64::MIN));
        let message = |d: f64| Value::Double(d).as_int().unwrap_err().to_string();
        assert_eq!(message(9223372036854775808.0), "double to int overflow for 9223372036854775808.000000");
        assert_eq!(message(f64::NAN), "double to int overflow for NaN");
        assert_eq!(message(f64::NEG_INFINITY), "double to int overflow for -Infinity");
        for (text, int) in [("12x", 12), (" -7", -7), ("x", 0), ("", 0), ("1.9", 1)] {
            assert_eq!(leading_int(text.as_bytes()), int, "{text:?}");
        }
        assert_eq!(leading_int(b"99999999999999999999"), i64::MAX);
        for (value, truth) in [
            (Value::Null, false),
            (Value::Bool(true), true),
            (Value::Int(0), false),
            (Value::Int(-1), true),
            (Value::Double(0.0), false),
            (Value::Double(f64::NAN), true),
        ] {
            assert_eq!(value.truth(), truth, "{value:?}");
        }
    }
}
