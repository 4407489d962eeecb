//! `--workload=queries`: `-f` names SQL files, and `-t` counts rounds.

use pgdyno_engine::spec::Limit;

use super::benchmark_options::{Benchmark, BenchmarkOptions, WorkloadChoice};
use super::option_values::{Origin, ScriptChoice};
use crate::messages::Failure;

const ROUNDS: u64 = 10;

pub(super) fn shape(given: &BenchmarkOptions, load: &mut Benchmark) -> Result<(), Failure> {
    for (is_given, options) in [
        (given.duration.is_some(), "-T"),
        (given.rate_per_s.is_some(), "a rate (-R/--rate)"),
        (load.phases_file.is_some(), "--phases"),
        (given.part.is_some(), "--part"),
    ] {
        if is_given {
            let message = format!("{options} cannot be used with --workload=queries");
            return Err(Failure::new(message).hint("Each client runs all queries as many times as -t says."));
        }
    }
    for script in std::mem::take(&mut load.scripts) {
        match script.origin {
            Origin::File(path) => load.query_files.push(path),
            _ => {
                let message = "built-in scripts cannot be used with --workload=queries";
                return Err(Failure::new(message).hint("Name SQL files: -f FILE."));
            }
        }
    }
    if load.query_files.is_empty() {
        return Err(Failure::new("--workload=queries needs SQL files").hint("Name them: -f FILE."));
    }
    load.workload = WorkloadChoice::Queries;
    load.scripts.push(ScriptChoice {
        origin: Origin::Driven { name: "queries".to_owned(), commands: load.query_files.clone() },
        weight: 1,
    });
    load.limit = Limit::Transactions(given.transactions.unwrap_or(ROUNDS) * load.query_files.len() as u64);
    Ok(())
}
