//! Errors in scripts, in pgbench's words.

use std::fmt;

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
    /// The error message.
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

/// Why a script was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// An error in a backslash command. (Boxed, because it is large and rare.)
    Syntax(Box<SyntaxError>),
    /// `\if`, `\elif`, `\else` and `\endif` do not match.
    Condition {
        /// Name of the script.
        script: String,
        /// Command number, from 1.
        command: usize,
        /// The error message.
        message: &'static str,
    },
    /// The script has no command.
    Empty {
        /// Name of the script.
        script: String,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Syntax(error) => error.fmt(f),
            ParseError::Condition { script, command, message } => {
                write!(f, "condition error in script \"{script}\" command {command}: {message}")
            }
            ParseError::Empty { script } => {
                write!(f, "empty command list for script \"{script}\"")
            }
        }
    }
}

impl std::error::Error for ParseError {}

/// Why a script cannot be compiled for a query mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// More than 255 variables in a statement of the extended protocol.
    TooManyArguments {
        /// The statement.
        sql: String,
    },
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::TooManyArguments { sql } => {
                write!(f, "statement has too many arguments (maximum is 255): {sql}")
            }
        }
    }
}

impl std::error::Error for CompileError {}

/// A name that a variable cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidName {
    /// The command that assigns: `set`, `gset`, `aset`, `setshell`, `startup`, ...
    pub context: &'static str,
    /// The name.
    pub name: String,
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: invalid variable name: \"{}\"", self.context, self.name)
    }
}

impl std::error::Error for InvalidName {}

/// Why a command failed while a client ran it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the messages below explain the fields
pub enum EvalError {
    UndefinedVariable { name: String },
    MalformedVariable { name: String, text: String },
    BigintOutOfRange { text: String },
    NotABigint { text: String },
    CannotCoerce { from: &'static str, to: &'static str },
    DoubleToInt { value: f64 },
    IntOverflow { operation: &'static str },
    DivisionByZero,
    TooManyArguments,
    EmptyRange,
    RangeTooLarge,
    GaussianParameter { value: f64 },
    ZipfianParameter { value: f64 },
    ExponentialParameter { value: f64 },
    PermuteSize,
    SleepUndefined { command: String, name: String },
    SleepInvalid { command: String, text: String, name: String },
    ShellUndefined { program: String, argument: String },
    ShellTooLong { program: String },
    ShellNotAnInteger { program: String, output: String },
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UndefinedVariable { name } => write!(f, "undefined variable \"{name}\""),
            Self::MalformedVariable { name, text } => {
                write!(f, "malformed variable \"{name}\" value: \"{text}\"")
            }
            Self::BigintOutOfRange { text } => {
                write!(f, "value \"{text}\" is out of range for type bigint")
            }
            Self::NotABigint { text } => {
                write!(f, "invalid input syntax for type bigint: \"{text}\"")
            }
            Self::CannotCoerce { from, to } => write!(f, "cannot coerce {from} to {to}"),
            Self::DoubleToInt { value } => {
                write!(f, "double to int overflow for {}", fixed(*value))
            }
            Self::IntOverflow { operation } => write!(f, "bigint {operation} out of range"),
            Self::DivisionByZero => f.write_str("division by zero"),
            Self::TooManyArguments => f.write_str("too many function arguments, maximum is 16"),
            Self::EmptyRange => f.write_str("empty range given to random"),
            Self::RangeTooLarge => f.write_str("random range is too large"),
            Self::GaussianParameter { value } => {
                write!(f, "gaussian parameter must be at least 2.000000 (not {})", fixed(*value))
            }
            Self::ZipfianParameter { value } => {
                write!(f, "zipfian parameter must be in range [1.001, 1000] (not {})", fixed(*value))
            }
            Self::ExponentialParameter { value } => {
                write!(f, "exponential parameter must be greater than zero (not {})", fixed(*value))
            }
            Self::PermuteSize => f.write_str("permute size parameter must be greater than zero"),
            Self::SleepUndefined { command, name } => {
                write!(f, "{command}: undefined variable \"{name}\"")
            }
            Self::SleepInvalid { command, text, name } => {
                write!(f, "{command}: invalid sleep time \"{text}\" for variable \"{name}\"")
            }
            Self::ShellUndefined { program, argument } => {
                write!(f, "{program}: undefined variable \"{argument}\"")
            }
            Self::ShellTooLong { program } => write!(f, "{program}: shell command is too long"),
            Self::ShellNotAnInteger { program, output } => {
                write!(f, "{program}: shell command must return an integer (not \"{output}\")")
            }
        }
    }
}

impl std::error::Error for EvalError {}
