//! Runs programs without a server.

#![allow(dead_code)] // each test file uses only a part

pub mod generate;

use std::sync::Arc;

use pgdyno_script::{EvalError, Op, Program, QueryMode, Rng, Source, Symbols, Value, Vars, compile, parse};

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

/// The effects of a script.
#[derive(Debug, Default, PartialEq)]
pub struct Trace {
    /// The lines that `debug()` printed.
    pub debug: Vec<String>,
    /// Statements as the simple protocol sends them.
    pub sql: Vec<String>,
    /// The error that ended it.
    pub error: Option<String>,
    /// Number of steps that were run.
    pub steps: usize,
}

/// The function state of client 0 under `--random-seed=5432`.
pub fn client_0() -> Rng {
    Rng::seed(5432).derive()
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
    run_program(&program, &mut vars, &mut client_0())
}

pub fn run_program(program: &Program, vars: &mut Vars, rng: &mut Rng) -> Trace {
    let mut trace = Trace::default();
    let mut next = 0;
    while next < program.ops.len() {
        trace.steps += 1;
        match step(program, next, vars, rng, &mut trace) {
            Ok(after) => next = after,
            Err(error) => {
                trace.error = Some(error);
                break;
            }
        }
    }
    trace
}

fn step(program: &Program, op: usize, vars: &mut Vars, rng: &mut Rng, trace: &mut Trace) -> Result<usize, String> {
    let mut shown = Vec::new();
    let mut show = |value: Value| shown.push(value);
    let text = |e: Box<EvalError>| e.to_string();
    let mut after = op + 1;
    let outcome = match &program.ops[op] {
        Op::Sql { statement, .. } => {
            let mut sql = Vec::new();
            program.statements[*statement].write_simple(vars, &mut sql);
            trace.sql.push(String::from_utf8(sql).unwrap());
            Ok(())
        }
        Op::Set { target, expr } => program
            .eval(expr, vars, rng, &mut show)
            .map_err(text)
            .and_then(|value| vars.assign(target, "set", value).map_err(|e| e.to_string())),
        Op::Jump(target) => {
            after = *target;
            Ok(())
        }
        Op::JumpUnless { expr, target } => program.eval(expr, vars, rng, &mut show).map_err(text).map(|value| {
            if !value.truth() {
                after = *target;
            }
        }),
        Op::Sleep { amount, unit_us } => program.sleep_us(op, amount, *unit_us, vars).map_err(text).map(|_| ()),
        Op::Shell { args } | Op::SetShell { args, .. } => {
            program.shell_command(args, vars, &mut Vec::new()).map_err(text)
        }
        Op::StartPipeline | Op::SyncPipeline | Op::EndPipeline => Ok(()),
    };
    for value in shown {
        trace.debug.push(program.debug_line(0, op, value));
    }
    outcome.map(|()| after)
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
