//! TLS with libpq's behaviour, on rustls.
//!
//! [`TlsSettings`] is what the parameters say. [`TlsConfig`] is created from it once, with the
//! files read; [`negotiate`] encrypts a connected socket. [`TlsChannel`] is an established session
//! without its socket, for code that moves bytes itself.

mod acceptor;
mod certificate;
mod certificate_files;
mod certificate_hash;
mod certificate_names;
mod channel;
mod client_key;
mod config;
mod manual_recipes;
mod negotiation;
#[cfg(test)]
mod tests;
mod tls_error;
mod tls_settings;
mod tls_stream;
mod trust;
mod verifier;

pub use acceptor::Acceptor;
pub use channel::TlsChannel;
pub(crate) use config::{TlsConfig, TlsConfigCell};
pub(crate) use negotiation::{Negotiated, negotiate};
pub use tls_error::TlsError;
pub use tls_settings::{FilePlace, RootSource, TlsSettings, TlsVersion};
pub use tls_stream::TlsStream;
