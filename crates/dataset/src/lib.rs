//! Datasets made by the engine: tables created, filled by COPY, indexed, vacuumed and stamped.
//!
//! [`Dataset`] describes a dataset. [`load`] creates it, over one connection as pgbench does, or
//! over several in chunks that are committed one by one, so that an interrupted load can be
//! resumed. [`dataset_stamp`] is the dataset stamp that a complete load leaves in the database.

mod chunk;
mod dataset;
pub mod dataset_stamp;
mod load;
mod load_error;
mod load_ledger;
mod load_order;
mod load_step;
mod load_watcher;
mod parallel_jobs;
pub mod pgbench;
mod random_values;
pub mod sbtest;
mod table_filling;
mod table_guard;
pub mod tpcc;
pub mod tpch;

pub use dataset::{Dataset, Description, Manner, Part, RowSource, Stages, Table};
pub use dataset_stamp::Stamp;
pub use load::load;
pub use load_error::LoadError;
pub use load_order::{Beginning, Chunks, Connect, LoadMode, Order, Pieces};
pub use load_step::{STEPS, Step};
pub use load_watcher::{Rows, Watcher};
pub use sbtest::Sbtest;
pub use tpcc::Tpcc;
pub use tpch::Tpch;
