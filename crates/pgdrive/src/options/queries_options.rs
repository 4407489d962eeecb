//! `--workload=queries`: `-f` names SQL files, or `--tpch-queries` those of TPC-H, and `-t` counts rounds.

use pgdyno_engine::spec::Limit;

use super::benchmark_options::{Benchmark, BenchmarkOptions, WorkloadChoice};
use super::option_values::{Origin, ScriptChoice};
use super::query_choice::{QueriesChoice, TpchQueries};
use crate::messages::Failure;
use crate::tpch;

const ROUNDS: u64 = 10;

pub(super) fn shape(given: &BenchmarkOptions, tpch: Option<TpchQueries>, load: &mut Benchmark) -> Result<(), Failure> {
    let mut names = Vec::new();
    for script in std::mem::take(&mut load.scripts) {
        match script.origin {
            Origin::File(path) => names.push(path),
            _ => {
                let message = "built-in scripts cannot be used with --workload=queries";
                return Err(Failure::new(message).hint("Name SQL files: -f FILE."));
            }
        }
    }
    if names.is_empty() == tpch.is_none() {
        let message = "--workload=queries needs SQL files or --tpch-queries, one of them";
        return Err(Failure::new(message).hint("Name them: -f FILE."));
    }
    names.extend(tpch.iter().flat_map(tpch::queries_of).map(|query| query.name()));
    load.scripts.push(ScriptChoice {
        origin: Origin::Driven { name: "queries".to_owned(), commands: names.clone() },
        weight: 1,
    });
    let (rounds, changes_texts) = (given.transactions.unwrap_or(ROUNDS), given.changed_texts);
    load.limit = Limit::Transactions((rounds + u64::from(changes_texts)) * names.len() as u64);
    load.workload = WorkloadChoice::Queries(QueriesChoice { names, tpch, rounds, changes_texts });
    Ok(())
}
