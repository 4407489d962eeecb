//! The command line, resolved into a complete value.

mod benchmark_options;
mod benchmark_rows;
#[cfg(test)]
mod command_line_tests;
mod common_options;
mod conflicts;
mod initialize_options;
mod log_options;
mod lua_options;
mod option_row;
mod option_sections;
mod option_values;
mod pause_options;
mod proxy_options;
mod queries_options;
mod query_choice;
mod reconnect_option;
mod replay_options;
mod request;
mod resolve;
mod tpcc_options;
mod tpch_options;

use std::ffi::OsString;

use crate::called_as::CalledAs;
use crate::getopt::{Found, parse};
use crate::messages::Failure;
pub use benchmark_options::{Benchmark, WorkloadChoice};
pub use initialize_options::Initialize;
pub use lua_options::{Check, LuaChoice, LuaSource};
pub use option_sections::sections;
use option_sections::{GivenOptions, syntax};
use option_values::seed;
pub use option_values::{Connection, EventSink, Information, Origin, ScramKeys, ScriptChoice, Seed, Vacuum};
pub use pause_options::PacingChoice;
pub use proxy_options::{ProxyChoice, ProxyTls};
pub use query_choice::{QueriesChoice, TpchQueries, TpchSelection};
pub use replay_options::ReplayChoice;
pub use request::{Request, UsageError};
use resolve::resolve;
pub use tpcc_options::{TpccCheck, TpccLoad};

/// The words of the command line as text.
pub fn words(args: impl Iterator<Item = OsString>) -> Result<Vec<String>, UsageError> {
    let word = |word: OsString| {
        word.into_string().map_err(|word| {
            let shown = word.display();
            Failure::new(format!("command-line argument \"{shown}\" is not UTF-8")).into()
        })
    };
    args.map(word).collect()
}

/// Parses the command line (without the program's name).
///
/// # Errors
/// The first error in the command line; in pgbench's words.
pub fn read(args: Vec<String>, environment_seed: Option<String>, called_as: CalledAs) -> Result<Request, UsageError> {
    match args.first().map(String::as_str) {
        Some("--help" | "-?") => return Ok(Request::Information(Information::Help)),
        Some("--version" | "-V") => return Ok(Request::Information(Information::Version)),
        _ => {}
    }
    let mut given = GivenOptions::new(called_as);
    if let Some(text) = environment_seed {
        let source = "PGBENCH_RANDOM_SEED environment variable";
        given.load.load.seed = seed(&text, source)?;
    }
    let (found, complaint) = parse(&syntax(called_as), args);
    let mut operands = Vec::new();
    for one in found {
        match one {
            Found::Option(name, text) => given.take(name, &text)?,
            Found::Operand(text) => operands.push(text),
        }
        if let Some(information) = given.information() {
            return Ok(Request::Information(information));
        }
    }
    if let Some(complaint) = complaint {
        return Err(UsageError::Getopt(complaint.to_string()));
    }
    resolve(given, operands)
}
