//! The rows of a load's options: those that pgbench has too, and those that only pgdrive has.

mod own_rows;
mod pgbench_rows;

use super::benchmark_options::BenchmarkOptions;
use super::option_row::Row;

pub(super) fn all() -> impl Iterator<Item = &'static Row<BenchmarkOptions>> {
    pgbench_rows::ROWS.iter().chain(own_rows::ROWS)
}
