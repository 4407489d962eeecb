//! Invariants for every script. The fuzz target calls it with fuzzed bytes, and the test below with
//! every file of its corpus.

#[path = "../tests/common/trace.rs"]
mod trace;

use std::sync::Arc;

use crate::{EvalError, Op, ParseError, Program, QueryMode, Rng, Source, Symbols, Value, Vars};
use crate::{compile, parse};
use trace::run_program;

const NAME: &str = "fuzz.sql";

/// Parses, compiles and runs a script.
pub fn script(data: &[u8]) {
    let source = Source { name: NAME.to_owned(), text: String::from_utf8_lossy(data).into_owned() };
    let parsed = match parse(&source) {
        Ok(parsed) => parsed,
        Err(error) => return check_error(&error, &source.text),
    };
    for mode in [QueryMode::Simple, QueryMode::Extended, QueryMode::Prepared] {
        let mut symbols = Symbols::new();
        match compile(&parsed, mode, &mut symbols) {
            Ok(program) => {
                assert_eq!(program.commands.len(), parsed.commands.len());
                for op in 0..program.ops.len() {
                    assert!(program.command_number(op) < program.commands.len());
                }
                let run =
                    || run_program(&program, &mut Vars::new(Arc::new(symbols.clone())), &mut Rng::seed(5432).derive());
                assert_eq!(run(), run(), "it is not the same again");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Checks that an error contains its position.
fn check_error(error: &ParseError, text: &str) {
    let words = error.to_string();
    assert!(words.contains(NAME), "{words}");
    let lines = text.split('\n').count();
    match error {
        ParseError::Syntax(error) => {
            assert!((1..=lines).contains(&(error.line as usize)), "{words}");
            assert!(words.starts_with(&format!("{NAME}:{}: ", error.line)));
        }
        ParseError::Condition { command, .. } => {
            assert!(*command <= lines.max(text.len()), "{words}");
        }
        ParseError::Empty { .. } => {}
    }
}

#[cfg(test)]
#[path = "../../../fuzz/corpus.rs"]
mod corpus;

#[test]
fn the_corpus() {
    corpus::replay("script", script);
}
