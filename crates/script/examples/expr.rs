//! Evaluates an expression of the script language, as client 0 of pgbench would:
//!
//! ```text
//! cargo run -p pgdyno-script --example expr -- 'random(1, 100000 * :scale)' scale=10
//! cargo run --release -p pgdyno-script --example expr -- --repeat 10000000 'random(1, 10)'
//! ```
//!
//! `--repeat N` evaluates it N times and prints the time of one evaluation.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use pgdyno_script::{Op, QueryMode, Rng, Source, Symbols, Vars, compile, parse};

fn main() -> ExitCode {
    match evaluate(std::env::args().skip(1).collect()) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn evaluate(mut args: Vec<String>) -> Result<String, String> {
    let mut repeat = 1u32;
    if args.len() >= 2 && args[0] == "--repeat" {
        repeat = args[1].parse().map_err(|e| format!("reading --repeat {}: {e}", args[1]))?;
        args.drain(..2);
    }
    let [expr, defines @ ..] = args.as_slice() else {
        return Err("usage: expr [--repeat N] EXPRESSION [NAME=VALUE ...]".to_owned());
    };
    let source = Source { name: "expression".to_owned(), text: format!("\\set result {expr}") };
    let script = parse(&source).map_err(|e| e.to_string())?;
    let mut symbols = Symbols::new();
    let program = compile(&script, QueryMode::Simple, &mut symbols).map_err(|e| e.to_string())?;
    let pairs: Vec<(&str, &str)> = defines.iter().filter_map(|d| d.split_once('=')).collect();
    let slots: Vec<_> = pairs.iter().map(|(name, _)| symbols.slot(name)).collect();
    let mut vars = Vars::new(Arc::new(symbols));
    for (slot, (_, value)) in slots.into_iter().zip(&pairs) {
        vars.set_text(slot, value.as_bytes());
    }
    let Some(Op::Set { target, expr }) = program.ops.first() else {
        return Err("reading the expression: it is not one command".to_owned());
    };
    let mut rng = Rng::seed(5432).derive();
    let mut show = |value| eprintln!("{}", program.debug_line(0, 0, value));
    let start = Instant::now();
    for _ in 0..repeat {
        let value = program.eval(expr, &mut vars, &mut rng, &mut show).map_err(|e| e.to_string())?;
        vars.assign(target, "set", value).map_err(|e| e.to_string())?;
    }
    let each_ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(repeat.max(1));
    let result = vars.symbols().lookup("result").map(|slot| vars.get(slot));
    let text = match result {
        Some(Ok(value)) => value.debug_text(),
        Some(Err(error)) => return Err(error.to_string()),
        None => String::new(),
    };
    Ok(if repeat > 1 { format!("{text}\n{each_ns:.1} ns") } else { text })
}
