//! What a program does, without a server.

use super::{EvalError, Op, Program, Rng, Value, Vars};

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

/// Runs a program without sending SQL.
pub fn run_program(program: &Program, vars: &mut Vars, rng: &mut Rng) -> Trace {
    let mut trace = Trace::default();
    let mut next = 0;
    while next < program.ops.len() {
        trace.steps += 1;
        assert!(trace.steps <= program.ops.len(), "jumps go forward, so a script ends");
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
