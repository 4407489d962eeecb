//! The script language of pgbench 18, compiled.
//!
//! ```text
//! Source ─parse▶ Script ─compile▶ Program (immutable, shared by all clients)
//!                                   + Vars, Rng (one of each a client) ─▶ values, SQL text
//! ```
//!
//! [`parse`] reads a whole file and reports every syntax error in pgbench's own
//! words. [`compile`] resolves variable names to slots and conditions to jumps,
//! so that nothing is looked up by name while a program runs. A [`Program`] does
//! no I/O: the engine walks its [`Op`]s and asks it for values and SQL text.

mod ast;
mod builtin;
mod compile;
mod compile_expression;
mod error;
mod expr;
mod expr_parser;
mod functions;
#[cfg(any(test, fuzzing))]
pub mod fuzz_tests;
mod hash;
mod lexer;
mod number;
mod parser;
mod permute;
mod program;
mod random;
mod shell;
mod sql_scanner;
mod statement_effect;
mod substitute;
mod value;
mod vars;

pub use ast::{Script, Source};
pub use builtin::{BUILTINS, Builtin, BuiltinError, builtin, builtin_list};
pub use compile::compile;
pub use error::{CompileError, EvalError, InvalidName, ParseError, SyntaxError};
pub use expr::Expr;
pub use parser::parse;
pub use program::{Capture, Command, Op, Piece, Program, QueryMode, SleepAmount, Sql, Statement};
pub use random::Rng;
pub use shell::{ShellArg, shell_result};
pub use statement_effect::{Sequel, first_word_at};
pub use value::Value;
pub use vars::{SlotId, Symbols, Target, Vars, valid_name};
