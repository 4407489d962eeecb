//! A PostgreSQL server that answers at once.
//!
//! It speaks protocol 3.0 and does nothing else: no tables, no locks, no disk. What a load
//! generator reaches against it is the generator's own ceiling, and its faults (stalls, delays,
//! errors, closed connections) are known beforehand, so that what a generator reports can be held
//! against what happened.
//!
//! - [`connection::Connection`]: bytes in, bytes out, for one client; no input or output;
//! - [`classify`]: what a statement's text means; [`answers`]: the bytes that answer it;
//! - [`faults`] and [`stall`]: what goes wrong, and when;
//! - [`server`]: the event loop; [`listen`]: its sockets; [`stop`]: when it ends;
//! - [`options`]: the command line of `pgnull`.

pub mod alarm;
mod answers;
pub mod classify;
mod client;
pub mod connection;
mod delayed_answers;
mod encode;
mod extended_query;
pub mod faults;
pub mod listen;
pub mod options;
pub mod server;
mod server_state;
pub mod server_stop;
mod simple_query;
mod small_map;
mod sql;
pub mod stall;
mod startup_packet;
mod statement_error;
mod worker;

use std::fmt;
use std::io;

pub use options::{Options, Request};

/// Why the server could not begin or go on.
#[derive(Debug)]
pub struct ServeError {
    doing: String,
    cause: io::Error,
}

impl ServeError {
    fn new(doing: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Self {
            doing: doing.into(),
            cause: cause.into(),
        }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.doing, self.cause)
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// Serves until a signal or, with `--parent-lease`, the end of standard input. `ready` is called
/// with the addresses once clients can connect.
///
/// # Errors
/// When an address cannot be listened on, or the kernel refuses what the server needs.
pub fn serve(options: &Options, ready: impl FnOnce(&str)) -> Result<(), ServeError> {
    let listeners = listen::open(options)?;
    listen::raise_descriptor_limit();
    let server = server::Server::new(options, &listeners)?;
    ready(&listeners.addresses());
    server.run()
}
