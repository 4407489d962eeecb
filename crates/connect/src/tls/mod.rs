//! TLS as libpq has it, on rustls.
//!
//! [`TlsSettings`] is what the parameters say. [`TlsConfig`] is made of it once, with the files
//! read; [`negotiate`] makes a connected socket an encrypted one. [`TlsChannel`] is an established
//! session without its socket, for those who move bytes themselves.

mod chain;
mod channel;
mod client_key;
mod config;
mod end_point;
mod error;
mod files;
mod names;
mod negotiation;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod verifier;

pub use channel::TlsChannel;
pub(crate) use config::{TlsConfig, TlsConfigCell};
pub use error::TlsError;
pub(crate) use negotiation::{Negotiated, negotiate};
pub use settings::{FilePlace, RootSource, TlsSettings, TlsVersion};
pub use stream::TlsStream;
