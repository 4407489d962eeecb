//! A parsed script: pgbench's list of commands, with names that are not yet resolved.

use crate::expr::Node;
use crate::program::Capture;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path as given, or the description of a built-in script.
    pub name: String,
    /// The whole text. As in pgbench, it ends at the first NUL character.
    pub text: String,
}

/// A script that is free of syntax errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    pub name: String,
    pub(crate) commands: Vec<Command>,
}

impl Script {}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    /// Line where the command begins, from 1.
    pub line: u32,
    /// Name of a backslash command as typed; `SQL` for SQL.
    pub word: String,
    /// The text in reports: the first line of SQL, or a whole backslash command.
    pub text: String,
    pub kind: CommandKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CommandKind {
    Sql { sql: String, capture: Capture },
    Set { name: String, expr: Expr },
    SetShell { name: String, args: Vec<String> },
    Shell { args: Vec<String> },
    Sleep { amount: SleepText, unit_us: i64 },
    If(Expr),
    Elif(Expr),
    Else,
    Endif,
    StartPipeline,
    SyncPipeline,
    EndPipeline,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SleepText {
    Constant(i64),
    Variable(String),
}

/// An expression whose variables have names. Operators are functions: `a > b` is `b < a`, `-a` is `0 - a` and `~a` is
/// `-1 # a`, which fixes the order of evaluation too.
pub(crate) type Expr = Node<Box<str>>;
