//! Runs programs without a server.

#![allow(dead_code)] // each test file uses only a part

pub mod generate;
mod trace;

use std::sync::Arc;

use pgdyno_script::{EvalError, Op, Program, QueryMode, Rng, Source, Symbols, Value, Vars, compile, parse};
use trace::{Trace, run_program};

/// A script to parse, called `f.sql`.
pub fn source(text: &str) -> Source {
    Source { name: "f.sql".to_owned(), text: text.to_owned() }
}

/// Compiles a correct script.
pub fn compiled(text: &str, mode: QueryMode) -> (Program, Symbols) {
    let script = parse(&source(text)).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut symbols = Symbols::new();
    let program = compile(&script, mode, &mut symbols).unwrap();
    (program, symbols)
}

/// Runs a script as client 0 under `--random-seed=5432`, without sending SQL.
pub fn run(text: &str, defines: &[(&str, &str)]) -> Trace {
    let (program, mut symbols) = compiled(text, QueryMode::Simple);
    for (name, _) in defines {
        symbols.slot(name);
    }
    let mut vars = Vars::new(Arc::new(symbols));
    for (name, value) in defines {
        let slot = vars.symbols().lookup(name).unwrap();
        vars.set_text(slot, value.as_bytes());
    }
    run_program(&program, &mut vars, &mut Rng::seed(5432).derive())
}

/// The value of an expression as `debug()` displays it, or the error.
pub fn evaluated(expr: &str, defines: &[(&str, &str)]) -> String {
    let mut trace = run(&format!("\\set x debug({expr})\n"), defines);
    match (trace.error.take(), trace.debug.pop()) {
        (Some(error), _) => error,
        (None, Some(line)) => line.split_once(": ").unwrap().1.to_owned(),
        (None, None) => panic!("no value: {expr}"),
    }
}
