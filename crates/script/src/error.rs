//! Errors in scripts, in pgbench's words.

use std::fmt;

use thiserror::Error;

use crate::number::fixed;

/// A syntax error at a line of a script; displayed as pgbench does, in three lines:
///
/// ```text
/// f.sql:3: unexpected function name (nosuch) in command "set"
/// \set i nosuch()
///             ^ error found here
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Name of the script as given.
    pub script: String,
    /// Line of the command, from 1.
    pub line: u32,
    pub message: &'static str,
    /// The offending text, where there is one.
    pub detail: Option<String>,
    /// The backslash command's name as typed.
    pub command: Option<String>,
    /// The whole command, with its continuation lines.
    pub text: Option<String>,
    /// Position within `text` in bytes, from 0.
    pub column: Option<usize>,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.script, self.line, self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        if let Some(command) = &self.command {
            write!(f, " in command \"{command}\"")?;
        }
        if let Some(text) = &self.text {
            write!(f, "\n{text}")?;
            if let Some(column) = self.column {
                write!(f, "\n{:>width$} error found here", '^', width = column + 1)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// An error in a backslash command. (Boxed, because it is large and rare.)
    #[error("{0}")]
    Syntax(Box<SyntaxError>),
    /// `\if`, `\elif`, `\else` and `\endif` do not match.
    #[error("condition error in script \"{script}\" command {command}: {message}")]
    Condition {
        script: String,
        /// From 1.
        command: usize,
        message: &'static str,
    },
    #[error("empty command list for script \"{script}\"")]
    Empty { script: String },
}

/// Why a script cannot be compiled for a query mode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompileError {
    /// More than 255 variables in a statement of the extended protocol.
    #[error("statement has too many arguments (maximum is 255): {sql}")]
    TooManyArguments { sql: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{context}: invalid variable name: \"{name}\"")]
pub struct InvalidName {
    /// The command that assigns: `set`, `gset`, `aset`, `setshell`, `startup`, ...
    pub context: &'static str,
    pub name: String,
}

/// Why a command failed while a client ran it.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum EvalError {
    #[error("undefined variable \"{name}\"")]
    UndefinedVariable { name: String },
    #[error("malformed variable \"{name}\" value: \"{text}\"")]
    MalformedVariable { name: String, text: String },
    #[error("value \"{text}\" is out of range for type bigint")]
    BigintOutOfRange { text: String },
    #[error("invalid input syntax for type bigint: \"{text}\"")]
    NotABigint { text: String },
    #[error("cannot coerce {from} to {to}")]
    CannotCoerce { from: &'static str, to: &'static str },
    #[error("double to int overflow for {}", fixed(*value))]
    DoubleToInt { value: f64 },
    #[error("bigint {operation} out of range")]
    IntOverflow { operation: &'static str },
    #[error("division by zero")]
    DivisionByZero,
    #[error("too many function arguments, maximum is 16")]
    TooManyArguments,
    #[error("empty range given to random")]
    EmptyRange,
    #[error("random range is too large")]
    RangeTooLarge,
    #[error("gaussian parameter must be at least 2.000000 (not {})", fixed(*value))]
    GaussianParameter { value: f64 },
    #[error("zipfian parameter must be in range [1.001, 1000] (not {})", fixed(*value))]
    ZipfianParameter { value: f64 },
    #[error("exponential parameter must be greater than zero (not {})", fixed(*value))]
    ExponentialParameter { value: f64 },
    #[error("permute size parameter must be greater than zero")]
    PermuteSize,
    #[error("{command}: undefined variable \"{name}\"")]
    SleepUndefined { command: String, name: String },
    #[error("{command}: invalid sleep time \"{text}\" for variable \"{name}\"")]
    SleepInvalid { command: String, text: String, name: String },
    #[error("{program}: undefined variable \"{argument}\"")]
    ShellUndefined { program: String, argument: String },
    #[error("{program}: shell command is too long")]
    ShellTooLong { program: String },
    #[error("{program}: shell command must return an integer (not \"{output}\")")]
    ShellNotAnInteger { program: String, output: String },
}
