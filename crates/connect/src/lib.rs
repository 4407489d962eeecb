//! Finds PostgreSQL servers and connects to them.
//!
//! [`Params::resolve`] takes the parameters of a connection from the same places as libpq: options, a connection
//! string, a service file, the environment, built-in defaults. [`Session::connect`] tries the hosts in turn and returns
//! a small blocking session, for set-up queries and COPY, whose socket can be handed on to a load engine.

mod attempt;
mod blocking_session;
mod cancel;
mod cancel_token;
mod connect_error;
mod connect_times;
mod conninfo;
mod copy;
mod dialer;
mod direct_session;
mod encryption;
mod env;
#[cfg(any(test, fuzzing))]
pub mod fuzz_tests;
mod hosts;
mod keyword;
mod message_stream;
pub mod notice;
pub mod param_error;
mod params;
pub mod parent_process;
mod patience;
mod pgpass;
mod pooler;
mod secret;
mod service;
mod session_error;
mod stream;
pub mod tls;
mod uri;
mod watch;
mod word_options;

pub use attempt::reach;
pub use blocking_session::{ResultSet, Session};
pub use cancel::cancel_all;
pub use cancel_token::CancelToken;
pub use connect_error::{Attempt, Cause, ConnectError};
pub use connect_times::ConnectTimes;
pub use copy::CopyIn;
pub use dialer::{AT_ONCE, Dialed, Dialer};
pub use env::Env;
pub use hosts::{Host, Place};
pub use param_error::ParamError;
pub use params::{FullQueue, Params, Sources};
pub use patience::{Interrupt, Patience};
pub use pooler::{Pooler, Poolers};
pub use secret::Secret;
pub use session_error::SessionError;
pub use stream::{Stream, Transport};
pub use tls::{Acceptor, TlsChannel, TlsError};
pub use word_options::{LoadBalance, SslMode, TargetSessionAttrs};
