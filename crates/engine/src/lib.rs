//! The load engine: clients that run compiled scripts over PostgreSQL's protocol, on as few threads
//! as the load needs, with every latency counted from its intended start.
//!
//! ```text
//! Spec + Programs → run → N × Worker
//!   Worker     = Poller + Clock + Schedule + Recorder + [Client]      one thread, no locks
//!   Client     = Session + Transaction + State + variable slots + random sequences
//! Recorder → Interval (bounded channel) → run → Observer, Report
//! ```

mod answer;
mod by_token;
mod client;
mod client_abort;
#[cfg(test)]
mod client_tests;
pub mod clock;
pub mod command_record;
pub mod commit_ledger;
pub mod connect_record;
mod connections;
pub mod driver;
mod error_counts;
#[cfg(any(test, fuzzing))]
pub mod fuzz_tests;
pub mod health;
pub mod interval;
pub mod latencies;
mod listener;
pub mod load_share;
mod log;
pub mod log_spec;
mod observer;
pub mod outage;
pub mod pacing;
pub mod phase_report;
mod phase_state;
pub mod phases;
pub mod poller;
mod reconnect;
pub mod recorder;
pub mod report;
mod row_reader;
pub mod run;
mod run_queue;
pub mod schedule;
mod session;
mod shared;
mod shell;
pub mod spec;
pub mod stall;
mod statement_template;
mod timetable;
mod tls;
mod transaction;
mod worker;
mod worker_channel;

pub use observer::{Connected, Observer, RunError};
pub use run::run;
pub use spec::Spec;
