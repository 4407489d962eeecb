//! Compiled expressions: variables are slots, and constants are folded.

use crate::error::EvalError;
use crate::functions::{Binary, Extreme, Shape, Unary};
use crate::permute::permute;
use crate::random::{MIN_GAUSSIAN, Rng, ZIPFIAN};
use crate::value::{Fault, Value};
use crate::vars::{SlotId, Vars};

/// Most arguments that `least` and `greatest` accept, checked while running.
const MAX_ARGUMENTS: usize = 16;

/// A compiled expression; see [`Program::eval`](crate::Program::eval).
#[derive(Clone, Debug, PartialEq)]
pub struct Expr(pub(crate) Node);

/// A tree of operations on variables `V`: slots, or names before compiling.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<V = SlotId> {
    Constant(Value),
    Variable(V),
    Binary(Binary, Box<[Node<V>; 2]>),
    Unary(Unary, Box<Node<V>>),
    /// Whether the operand is exactly this constant.
    Is(Box<Node<V>>, Value),
    And(Box<[Node<V>; 2]>),
    Or(Box<[Node<V>; 2]>),
    Case(Box<Case<V>>),
    Extreme(Extreme, Box<[Node<V>]>),
    Random(Box<[Node<V>; 2]>),
    Shaped(Shape, Box<[Node<V>; 3]>),
    Permute(Box<[Node<V>; 3]>),
    Debug(Box<Node<V>>),
}

/// `case when ... then ... else ... end`: conditions and results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case<V = SlotId> {
    pub branches: Vec<[Node<V>; 2]>,
    pub otherwise: Node<V>,
}

/// The state that an expression may use.
pub(crate) struct Env<'a> {
    pub vars: &'a mut Vars,
    pub rng: &'a mut Rng,
    /// Receives the values that `debug()` displays.
    pub debug: &'a mut dyn FnMut(Value),
}

impl Node {
    pub fn eval(&self, env: &mut Env<'_>) -> Result<Value, Fault> {
        match self {
            Node::Constant(value) => Ok(*value),
            Node::Variable(slot) => env.vars.get(*slot),
            Node::Binary(function, args) => {
                let [left, right] = &**args;
                let left = left.eval(env)?;
                let right = right.eval(env)?;
                function.apply(left, right)
            }
            Node::Random(args) => {
                let Some((min, max)) = range(&args[0], &args[1], env)?.nonempty_bounds()? else {
                    return Ok(Value::Null);
                };
                Ok(Value::Int(env.rng.range_i64(min, max)))
            }
            Node::Unary(function, arg) => function.apply(arg.eval(env)?),
            Node::Is(operand, constant) => Ok(Value::Bool(operand.eval(env)? == *constant)),
            Node::And(both) => logical(both, env, false),
            Node::Or(both) => logical(both, env, true),
            Node::Case(case) => case.eval(env),
            Node::Extreme(extreme, args) => extreme_of(*extreme, args, env),
            Node::Shaped(shape, args) => draw_shaped(*shape, args, env),
            Node::Permute(args) => permute_value(args, env),
            Node::Debug(arg) => {
                let value = arg.eval(env)?;
                (env.debug)(value);
                Ok(value)
            }
        }
    }
}

/// The evaluated limits of a random range.
struct Limits(Value, Value);

#[inline]
fn range(min: &Node, max: &Node, env: &mut Env<'_>) -> Result<Limits, Fault> {
    let min = min.eval(env)?;
    let max = max.eval(env)?;
    Ok(Limits(min, max))
}

impl Limits {
    /// The limits as integers, None if one is null; checks that the range is not empty and its size fits an integer.
    #[inline]
    fn nonempty_bounds(self) -> Result<Option<(i64, i64)>, Fault> {
        if self.0 == Value::Null || self.1 == Value::Null {
            return Ok(None);
        }
        let (min, max) = (self.0.as_int()?, self.1.as_int()?);
        if min > max {
            return Err(Box::new(EvalError::EmptyRange));
        }
        if max.checked_sub(min).is_none_or(|width| width == i64::MAX) {
            return Err(Box::new(EvalError::RangeTooLarge));
        }
        Ok(Some((min, max)))
    }
}

/// AND (`decides` = false) and OR (`decides` = true): the left side alone may decide; null on the
/// left gives null whatever the right side is.
fn logical(both: &[Node; 2], env: &mut Env<'_>, decides: bool) -> Result<Value, Fault> {
    let left = both[0].eval(env)?;
    if left == Value::Null || left.as_bool()? == decides {
        return Ok(left);
    }
    let right = both[1].eval(env)?;
    if right != Value::Null {
        right.as_bool()?;
    }
    Ok(right)
}

impl Case {
    fn eval(&self, env: &mut Env<'_>) -> Result<Value, Fault> {
        for [condition, result] in &self.branches {
            if condition.eval(env)?.truth() {
                return result.eval(env);
            }
        }
        self.otherwise.eval(env)
    }
}

fn extreme_of(extreme: Extreme, args: &[Node], env: &mut Env<'_>) -> Result<Value, Fault> {
    let mut values = [Value::Null; MAX_ARGUMENTS];
    for (value, arg) in values.iter_mut().zip(args) {
        *value = arg.eval(env)?;
    }
    let Some(values) = values.get(..args.len()) else {
        return Err(Box::new(EvalError::TooManyArguments));
    };
    if values.contains(&Value::Null) {
        return Ok(Value::Null);
    }
    extreme.apply(values)
}

fn draw_shaped(shape: Shape, args: &[Node; 3], env: &mut Env<'_>) -> Result<Value, Fault> {
    let limits = range(&args[0], &args[1], env)?;
    let parameter = args[2].eval(env)?;
    if parameter == Value::Null {
        return Ok(Value::Null);
    }
    let Some((min, max)) = limits.nonempty_bounds()? else {
        return Ok(Value::Null);
    };
    let value = parameter.as_double()?;
    // NaN is in no range: pgbench would draw forever.
    let drawn = match shape {
        Shape::Gaussian if value >= MIN_GAUSSIAN => env.rng.gaussian(min, max, value),
        Shape::Gaussian => return Err(Box::new(EvalError::GaussianParameter { value })),
        Shape::Zipfian if ZIPFIAN.contains(&value) => env.rng.zipfian(min, max, value),
        Shape::Zipfian => return Err(Box::new(EvalError::ZipfianParameter { value })),
        Shape::Exponential if value > 0.0 => env.rng.exponential(min, max, value),
        Shape::Exponential => return Err(Box::new(EvalError::ExponentialParameter { value })),
    };
    Ok(Value::Int(drawn))
}

fn permute_value(args: &[Node; 3], env: &mut Env<'_>) -> Result<Value, Fault> {
    let mut values = [Value::Null; 3];
    for (value, arg) in values.iter_mut().zip(args) {
        *value = arg.eval(env)?;
    }
    if values.contains(&Value::Null) {
        return Ok(Value::Null);
    }
    let (value, size, seed) = (values[0].as_int()?, values[1].as_int()?, values[2].as_int()?);
    if size <= 0 {
        return Err(Box::new(EvalError::PermuteSize));
    }
    Ok(Value::Int(permute(value, size, seed)))
}
