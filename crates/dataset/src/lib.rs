//! Datasets made by the engine: tables created, filled by COPY, indexed and vacuumed.

mod load;
mod load_error;
pub mod pgbench;
mod step;

pub use load::{Rows, Watcher, initialize};
pub use load_error::LoadError;
pub use step::{STEPS, Step};
