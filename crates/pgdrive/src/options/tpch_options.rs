//! Options of the load derived from TPC-H, and of its dataset.

use pgdyno_dataset::Tpch;
use pgdyno_dataset::tpch::MOST_SCALE;
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::Limit;

use super::benchmark_options::{Benchmark, WorkloadChoice};
use super::option_row::Row;
use super::option_values::{Origin, ScriptChoice, Seed};
use super::query_choice::{TpchQueries, TpchSelection};
use crate::messages::Failure;
use crate::tpch::queries::QUERIES;
use crate::tpch::refresh::PAIRS;
use crate::tpch::stream::Step;

const fn row(long: &'static str, help: &'static str) -> Row<TpchOptions> {
    Row::new(long, help).not_in_pgbench()
}

pub(super) const ROWS: &[Row<TpchOptions>] = &[
    row("scale-factor", "with -i: size of dataset tpch, 0.01 to 1000: about 1 GB of text each (default: 1)")
        .takes("NUM")
        .set(|given, value| scale(value.text).map(|it| given.scale = Some(it))),
    row(
        "tpch-queries",
        "print the queries of a stream (0: the power run), or those of the specification's validation, or one of \
         them, and exit; with --workload=queries: run them",
    )
    .takes("STREAM|validation|Q1...")
    .set(|given, value| selection(value.text).map(|it| given.queries = Some(it))),
];

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct TpchOptions {
    pub scale: Option<Tpch>,
    pub queries: Option<TpchSelection>,
}

impl TpchOptions {
    pub fn dataset(&self) -> Tpch {
        self.scale.unwrap_or_default()
    }

    /// The queries of --tpch-queries; None if it was not given. Refuses --scale-factor elsewhere.
    pub fn queries(&self, initialize: bool, seed: Seed) -> Result<Option<TpchQueries>, Failure> {
        let Some(selection) = self.queries else {
            if self.scale.is_some() && !initialize {
                let message = "--scale-factor can only be used with -i or --tpch-queries";
                return Err(Failure::new(message).hint("A run uses all of the database."));
            }
            return Ok(None);
        };
        let seed = seed.number("--tpch-queries")?;
        Ok(Some(TpchQueries { selection, scale_factor: self.dataset().scale_factor(), seed }))
    }
}

/// Makes `load` one of --workload=tpch: each client runs its stream once.
pub(super) fn shape(load: &mut Benchmark) {
    load.workload = WorkloadChoice::Tpch;
    load.scripts.push(ScriptChoice {
        origin: Origin::Driven { name: "TPC-H".to_owned(), commands: Step::all().map(Step::name).collect() },
        weight: 1,
    });
    load.limit = Limit::Transactions(1);
    load.arrivals = Arrivals::Closed;
    // the other clients would wait for the parts of one that has ended
    load.exit_on_abort = true;
}

fn scale(text: &str) -> Result<Tpch, Failure> {
    let scale = text.parse().ok().and_then(Tpch::new);
    scale.ok_or_else(|| {
        Failure::new(format!("invalid scale factor \"{text}\""))
            .hint(format!("It is a number from 0.01 to {MOST_SCALE} with at most two decimals."))
    })
}

fn selection(text: &str) -> Result<TpchSelection, Failure> {
    let number = |text: &str| text.parse().ok();
    let found = match text.strip_prefix('Q') {
        _ if text == "validation" => Some(TpchSelection::Validation),
        Some(query) => number(query).filter(|query| (1..=QUERIES).contains(query)).map(TpchSelection::One),
        None => number(text).filter(|stream| *stream < PAIRS).map(TpchSelection::Stream),
    };
    found.ok_or_else(|| {
        Failure::new(format!("invalid stream \"{text}\""))
            .hint(format!("Give a number from 0 to {}, \"validation\", or a query from Q1 to Q{QUERIES}.", PAIRS - 1))
    })
}
