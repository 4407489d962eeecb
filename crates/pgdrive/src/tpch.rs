//! A load derived from TPC-H: a power run, then a throughput run of several streams, both with refresh functions.

pub mod figures;
pub mod parameters;
pub mod queries;
pub mod query_order;
pub mod refresh;
pub mod stream;
pub mod tpch_load;

use crate::exit::Exit;
use crate::options::TpchQueries;

/// Prints the queries of a stream, or those of the validation.
pub fn show(wanted: &TpchQueries) -> Exit {
    let queries = match wanted.stream {
        Some(stream) => parameters::of_stream(stream, wanted.scale_factor, wanted.seed),
        None => parameters::of_validation(wanted.scale_factor),
    };
    let text: String = queries.iter().map(|query| format!("-- Q{}\n{};\n", query.number, query.sql)).collect();
    crate::print(&text)
}
