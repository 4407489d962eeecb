//! The functions and operators, by name and by operation.

use crate::error::EvalError;
use crate::value::{Fault, Value};

/// A function as the parser knows it: by the kind of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Unary(Unary),
    Binary(Binary),
    /// A binary function whose second argument defaults to `:default_seed`.
    Hash(Binary),
    Extreme(Extreme),
    Shaped(Shape),
    Random,
    Permute,
    Debug,
    Pi,
}

const FUNCTIONS: [(&str, Function); 21] = [
    ("abs", Function::Unary(Unary::Abs)),
    ("debug", Function::Debug),
    ("double", Function::Unary(Unary::Double)),
    ("exp", Function::Unary(Unary::Exp)),
    ("greatest", Function::Extreme(Extreme::Greatest)),
    ("hash", Function::Hash(Binary::Murmur2)),
    ("hash_fnv1a", Function::Hash(Binary::Fnv1a)),
    ("hash_murmur2", Function::Hash(Binary::Murmur2)),
    ("int", Function::Unary(Unary::Int)),
    ("least", Function::Extreme(Extreme::Least)),
    ("ln", Function::Unary(Unary::Ln)),
    ("mod", Function::Binary(Binary::Modulo)),
    ("permute", Function::Permute),
    ("pi", Function::Pi),
    ("pow", Function::Binary(Binary::Power)),
    ("power", Function::Binary(Binary::Power)),
    ("random", Function::Random),
    ("random_exponential", Function::Shaped(Shape::Exponential)),
    ("random_gaussian", Function::Shaped(Shape::Gaussian)),
    ("random_zipfian", Function::Shaped(Shape::Zipfian)),
    ("sqrt", Function::Unary(Unary::Sqrt)),
];

/// Finds a function by its name in any letter case; returns the name in lower case.
pub(crate) fn find(name: &str) -> Option<(&'static str, Function)> {
    FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

/// A function of two values and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Power,
    Fnv1a,
    Murmur2,
}

/// A function of one value and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Abs,
    Int,
    Double,
    Sqrt,
    Ln,
    Exp,
}

impl Binary {
    /// Null if an argument is null; double arithmetic if an argument is a double.
    #[inline]
    pub fn apply(self, left: Value, right: Value) -> Result<Value, Fault> {
        match (left, right) {
            (Value::Int(left), Value::Int(right)) => self.of_ints(left, right),
            (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
            (Value::Double(_), _) | (_, Value::Double(_)) if self.is_overloaded() => {
                self.of_doubles(left.as_double()?, right.as_double()?)
            }
            _ if self == Binary::Power => self.of_doubles(left.as_double()?, right.as_double()?),
            _ => self.of_ints(left.as_int()?, right.as_int()?),
        }
    }

    /// Whether a double among the arguments makes this an operation on doubles.
    fn is_overloaded(self) -> bool {
        use Binary::*;
        matches!(self, Add | Subtract | Multiply | Divide | Equal | NotEqual | Less | LessEqual)
    }

    #[inline]
    fn of_ints(self, left: i64, right: i64) -> Result<Value, Fault> {
        Ok(match self {
            Binary::Add => int(left.checked_add(right), "add")?,
            Binary::Subtract => int(left.checked_sub(right), "sub")?,
            Binary::Multiply => int(left.checked_mul(right), "mul")?,
            Binary::Divide | Binary::Modulo if right == 0 => {
                return Err(Box::new(EvalError::DivisionByZero));
            }
            Binary::Divide => int(left.checked_div(right), "div")?,
            Binary::Modulo => Value::Int(left.wrapping_rem(right)),
            Binary::Equal => Value::Bool(left == right),
            Binary::NotEqual => Value::Bool(left != right),
            Binary::Less => Value::Bool(left < right),
            Binary::LessEqual => Value::Bool(left <= right),
            Binary::BitAnd => Value::Int(left & right),
            Binary::BitOr => Value::Int(left | right),
            Binary::BitXor => Value::Int(left ^ right),
            // Only the six lowest bits of the distance count, as on the processor.
            Binary::ShiftLeft => Value::Int(left.wrapping_shl(right as u32)),
            Binary::ShiftRight => Value::Int(left.wrapping_shr(right as u32)),
            Binary::Power => Value::Double((left as f64).powf(right as f64)),
            Binary::Fnv1a => Value::Int(crate::hash::fnv1a(left, right)),
            Binary::Murmur2 => Value::Int(crate::hash::murmur2(left, right)),
        })
    }

    fn of_doubles(self, left: f64, right: f64) -> Result<Value, Fault> {
        Ok(match self {
            Binary::Add => Value::Double(left + right),
            Binary::Subtract => Value::Double(left - right),
            Binary::Multiply => Value::Double(left * right),
            Binary::Divide => Value::Double(left / right),
            Binary::Power => Value::Double(left.powf(right)),
            Binary::Equal => Value::Bool(left == right),
            Binary::NotEqual => Value::Bool(left != right),
            Binary::Less => Value::Bool(left < right),
            Binary::LessEqual => Value::Bool(left <= right),
            _ => self.of_ints(Value::Double(left).as_int()?, Value::Double(right).as_int()?)?,
        })
    }
}

#[inline]
fn int(result: Option<i64>, operation: &'static str) -> Result<Value, Fault> {
    match result {
        Some(int) => Ok(Value::Int(int)),
        None => Err(Box::new(EvalError::IntOverflow { operation })),
    }
}

impl Unary {
    /// Null if the argument is null.
    pub fn apply(self, value: Value) -> Result<Value, Fault> {
        if value == Value::Null {
            return Ok(Value::Null);
        }
        Ok(match (self, value) {
            (Unary::Not, _) => Value::Bool(!value.as_bool()?),
            (Unary::Int, _) => Value::Int(value.as_int()?),
            // The smallest integer has no positive counterpart and remains unchanged.
            (Unary::Abs, Value::Int(int)) => Value::Int(int.wrapping_abs()),
            (Unary::Abs, _) => {
                let double = value.as_double()?;
                Value::Double(if double < 0.0 { -double } else { double })
            }
            (Unary::Double, _) => Value::Double(value.as_double()?),
            (Unary::Sqrt, _) => Value::Double(value.as_double()?.sqrt()),
            (Unary::Ln, _) => Value::Double(value.as_double()?.ln()),
            (Unary::Exp, _) => Value::Double(value.as_double()?.exp()),
        })
    }
}

/// A random distribution with a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Exponential,
    Gaussian,
    Zipfian,
}

/// Which extreme `least` and `greatest` return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extreme {
    Least,
    Greatest,
}

impl Extreme {
    /// The extreme of values without nulls; a double if one of them is a double.
    pub fn apply(self, values: &[Value]) -> Result<Value, Fault> {
        if values.iter().any(|value| matches!(value, Value::Double(_))) {
            let doubles = values.iter().map(|value| value.as_double());
            self.of(doubles).map(Value::Double)
        } else {
            self.of(values.iter().map(|value| value.as_int())).map(Value::Int)
        }
    }

    /// A later value replaces the current one unless it is worse, so that NaN replaces any value.
    fn of<T: PartialOrd + Default>(self, mut values: impl Iterator<Item = Result<T, Fault>>) -> Result<T, Fault> {
        let Some(first) = values.next() else {
            return Ok(T::default());
        };
        let mut extreme = first?;
        for value in values {
            let value = value?;
            let keep = match self {
                Extreme::Least => extreme < value,
                Extreme::Greatest => extreme > value,
            };
            if !keep {
                extreme = value;
            }
        }
        Ok(extreme)
    }
}
