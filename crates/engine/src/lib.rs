//! The load engine: clients that run compiled scripts over PostgreSQL's protocol, on as few
//! threads as carry the load, with every latency counted from its intended start.
//!
//! ```text
//! Spec + Programs → run → N × Worker
//!   Worker     = Poller + Clock + Schedule + Recorder + [Client]      one thread, no locks
//!   Client     = Exchange + program counter + variable slots + Rng + state
//! Recorder → Interval (bounded channel) → run → Observer, Report
//! ```

mod abort;
mod answer;
mod cancels;
mod client;
#[cfg(test)]
mod client_tests;
pub mod clock;
mod connecting;
mod crew;
pub mod driver;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handover;
pub mod health;
pub mod interval;
pub mod ledger;
pub mod log;
mod log_interval;
pub mod lull;
mod message;
pub mod outage;
pub mod pacing;
pub mod part;
pub mod phase_report;
pub mod phases;
pub mod poller;
mod reconnect;
pub mod recorder;
pub mod report;
mod roster;
mod rows;
pub mod run;
mod run_queue;
pub mod scaling;
pub mod schedule;
mod shared;
mod shell;
pub mod spec;
mod timetable;
mod tls;
pub mod tuning;
mod worker;

pub use run::{Connected, Observer, RunError, run};
pub use spec::Spec;
