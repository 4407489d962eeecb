//! Where a PostgreSQL server is, and how to reach it.
//!
//! [`Params::resolve`] finds the parameters of a connection where libpq finds them: options, a
//! connection string, a service file, the environment, built-in defaults. [`Session::connect`]
//! tries the hosts in turn and gives a small blocking session, for set-up queries and COPY, whose
//! socket can be handed on to a load engine.

mod attempt;
pub mod cancel;
pub mod connect_error;
pub mod conninfo;
pub mod copy;
mod encryption;
pub mod env;
pub mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod hosts;
pub mod keyword;
mod link;
pub mod modes;
pub mod notice;
pub mod params;
pub mod patience;
pub mod pgpass;
pub mod secret;
pub mod service;
pub mod session;
pub mod session_error;
pub mod stream;
pub mod tls;
pub mod uri;

pub use cancel::{CancelToken, cancel_all};
pub use connect_error::{Attempt, Cause, ConnectError};
pub use copy::CopyIn;
pub use env::Env;
pub use error::ParamError;
pub use hosts::{Host, Place};
pub use modes::{LoadBalance, SslMode, TargetSessionAttrs};
pub use params::{Params, Sources};
pub use patience::{Interrupt, Patience};
pub use secret::Secret;
pub use session::{ResultSet, Session, SessionParts};
pub use session_error::SessionError;
pub use stream::{Stream, Transport};
pub use tls::{TlsChannel, TlsError};
