//! PostgreSQL's frontend/backend protocol, version 3, without I/O.
//!
//! Bytes in, messages out; messages in, bytes out. Nothing here owns a socket, waits or reads a
//! clock, so everything can be tested and fuzzed without a server.
//!
//! - [`frontend`] appends messages to a buffer;
//! - [`Exchange`] scans what the server answers, in chunks of any size;
//! - [`startup::Startup`] starts a session, up to the first ReadyForQuery;
//! - [`ServerError`] and [`SqlState`] are the server's errors.

mod assembler;
mod backend;
mod bind_template;
pub mod binding;
mod error;
mod error_position;
mod exchange;
pub mod frontend;
#[cfg(any(test, fuzzing))]
pub mod fuzz_tests;
pub mod md5;
mod message_limits;
mod parts;
mod printable;
pub mod require_auth;
pub mod scram;
mod sqlstate;
pub mod startup;
mod startup_error;

pub use backend::{CommandTag, Field, Row, RowDescription, TxStatus};
pub use bind_template::{BindTemplate, Columns};
pub use error::{EncodeError, ProtocolError, ServerError};
pub use exchange::{Capture, Exchange, Reply};
pub use parts::Parts;
pub use printable::printable;
pub use sqlstate::SqlState;
pub use startup::{Progress, Startup, StartupParams};
pub use startup_error::{AuthMethod, StartupError};
