//! Datasets made by the engine: tables created, filled by COPY, indexed, vacuumed and marked.
//!
//! [`Dataset`] says what a dataset is; [`load`] makes it, over one connection as pgbench does or
//! over several, in chunks that are committed one by one, so that a load that was broken off can
//! go on; [`mark`] is what a whole load leaves in the database for those who come later.

mod chunk;
mod dataset;
mod draw;
mod fill;
mod job;
mod ledger;
mod load;
mod load_error;
pub mod mark;
mod order;
pub mod pgbench;
pub mod sbtest;
mod step;
pub mod tpcc;
mod undo;
mod watcher;

pub use dataset::{Dataset, Manner, Part, RowSource, Stages, Table};
pub use load::load;
pub use load_error::LoadError;
pub use mark::Mark;
pub use order::{Beginning, Chunks, Connect, Order, Pieces, Way};
pub use sbtest::Sbtest;
pub use step::{STEPS, Step};
pub use tpcc::Tpcc;
pub use watcher::{Rows, Watcher};
