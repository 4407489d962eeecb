//! A load derived from TPC-H: a power run, then a throughput run of several streams, both with refresh functions.

pub mod figures;
pub mod parameters;
pub mod queries;
pub mod query_order;
pub mod refresh;
pub mod stream;

use crate::exit::Exit;
use crate::options::{TpchQueries, TpchSelection};

pub fn queries_of(wanted: &TpchQueries) -> Vec<parameters::Query> {
    match wanted.selection {
        TpchSelection::Stream(stream) => parameters::of_stream(stream, wanted.scale_factor, wanted.seed),
        TpchSelection::Validation => parameters::of_validation(wanted.scale_factor),
        TpchSelection::One(number) => vec![parameters::of_validation(wanted.scale_factor).swap_remove(number - 1)],
    }
}

pub fn show(wanted: &TpchQueries) -> Exit {
    let texts = queries_of(wanted).into_iter().map(|query| format!("-- {}\n{};\n", query.name(), query.sql));
    crate::print(&texts.collect::<String>())
}
