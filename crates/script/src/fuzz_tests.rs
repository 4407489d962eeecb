//! Invariants for every script. The fuzz target calls it with fuzzed bytes, and the test below with
//! every file of its corpus.

use std::sync::Arc;

use crate::{EvalError, Op, ParseError, Program, QueryMode, Rng, Source, Symbols, Vars};
use crate::{compile, parse};

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
                let walked = walk(&program, symbols.clone());
                assert_eq!(walked, walk(&program, symbols), "it is not the same again");
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

/// Runs a program without a server; returns what it sent, or the error that ended it.
fn walk(program: &Program, symbols: Symbols) -> Vec<u8> {
    let mut vars = Vars::new(Arc::new(symbols));
    let mut rng = Rng::seed(5432).derive();
    let mut trace = Vec::new();
    let mut at = 0;
    let mut steps = 0;
    while let Some(op) = program.ops.get(at) {
        assert!(program.command_number(at) < program.commands.len());
        steps += 1;
        assert!(steps <= program.ops.len(), "jumps go forward, so a script ends");
        match step(program, at, op, &mut vars, &mut rng, &mut trace) {
            Ok(next) => at = next,
            Err(error) => {
                trace.extend_from_slice(error.to_string().as_bytes());
                break;
            }
        }
    }
    trace
}

fn step(
    program: &Program, at: usize, op: &Op, vars: &mut Vars, rng: &mut Rng, trace: &mut Vec<u8>,
) -> Result<usize, Box<EvalError>> {
    let mut shown = Vec::new();
    let mut show = |value| shown.push(value);
    let mut next = at + 1;
    match op {
        Op::Sql { statement, .. } => program.statements[*statement].write_simple(vars, trace),
        Op::Set { target, expr } => {
            let value = program.eval(expr, vars, rng, &mut show)?;
            if let Err(error) = vars.assign(target, "set", value) {
                trace.extend_from_slice(error.to_string().as_bytes());
            }
        }
        Op::Jump(target) => next = *target,
        Op::JumpUnless { expr, target } => {
            if !program.eval(expr, vars, rng, &mut show)?.truth() {
                next = *target;
            }
        }
        Op::Sleep { amount, unit_us } => {
            let us = program.sleep_us(at, amount, *unit_us, vars)?;
            trace.extend_from_slice(&us.to_be_bytes());
        }
        Op::Shell { args } | Op::SetShell { args, .. } => {
            program.shell_command(args, vars, trace)?;
        }
        Op::StartPipeline | Op::SyncPipeline | Op::EndPipeline => {}
    }
    for value in shown {
        trace.extend_from_slice(program.debug_line(0, at, value).as_bytes());
    }
    Ok(next)
}

#[cfg(test)]
#[path = "../../../fuzz/corpus.rs"]
mod corpus;

#[test]
fn the_corpus() {
    corpus::replay("script", script);
}
