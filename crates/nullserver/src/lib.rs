//! A PostgreSQL server that answers immediately.
//!
//! It speaks protocol 3.0 and does nothing else: no tables, no locks, no disk. The throughput that a load generator
//! reaches with it is the generator's own ceiling. Its faults (stalls, delays, errors, closed connections) are known in
//! advance, so that a generator's report can be compared with what happened.
//!
//! - [`connection::Connection`]: the session of one client, bytes in and bytes out, without I/O;
//! - [`classify`]: determines the answer to a statement; [`answers`]: the encoded answers;
//! - [`faults`] and [`stall`]: the injected faults and their times;
//! - [`server`]: the event loop; [`listen`]: its sockets; [`stop`]: when it ends;
//! - [`options`]: the command line of `pgnull`.

pub mod alarm;
pub mod answer_times;
mod answers;
pub mod classify;
mod client;
pub mod connection;
mod encode;
mod extended_query;
pub mod faults;
mod held_answers;
pub mod listen;
pub mod options;
pub mod server;
mod server_state;
pub mod server_stop;
mod simple_query;
mod small_map;
mod sql;
mod startup_packet;
mod statement_error;
mod worker;

use std::io;

pub use options::{Options, Request};

#[derive(Debug, thiserror::Error)]
#[error("{doing} failed: {cause}")]
pub struct ServeError {
    doing: String,
    #[source]
    cause: io::Error,
}

impl ServeError {
    fn new(doing: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Self { doing: doing.into(), cause: cause.into() }
    }
}

/// Serves until a signal arrives or, with `--parent-lease`, standard input closes. Calls `ready`
/// with the addresses when clients can connect.
pub fn serve(options: &Options, ready: impl FnOnce(&str)) -> Result<(), ServeError> {
    let listeners = listen::open(options)?;
    listen::raise_descriptor_limit();
    let server = server::Server::new(options, &listeners)?;
    ready(&listeners.addresses());
    server.run()
}
