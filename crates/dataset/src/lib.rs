//! Datasets made by the engine: tables created, filled by COPY, indexed and vacuumed.

mod load;
pub mod pgbench;

pub use load::{LoadError, Rows, Step, Watcher, initialize};

/// Letters of the steps that can be asked for, in pgbench's default order first.
pub const STEPS: &str = "dtgGvpf";
