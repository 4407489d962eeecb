//! Which connections are encrypted: the attempts that `sslmode` allows, and their order.

use pgdyno_wire::binding::Channel;
use pgdyno_wire::{SqlState, Startup, StartupError};

use crate::connect_error::Cause;
use crate::hosts::Host;
use crate::params::Params;
use crate::patience::Patience;
use crate::stream::Stream;
use crate::tls::{Negotiated, TlsError, negotiate};
use crate::word_options::{SslCertMode, SslMode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    Plain,
    /// With TLS if the server supports it.
    TlsIfSupported,
    Tls,
}

pub(crate) struct Failure {
    pub cause: Cause,
    /// Whether an attempt with another encryption may succeed at the same address.
    pub depends_on_encryption: bool,
}

impl Failure {
    pub fn last(cause: Cause) -> Self {
        Failure { cause, depends_on_encryption: false }
    }
}

/// The encryptions to try, in order.
pub(crate) fn allowed(mode: SslMode, unix: bool) -> &'static [Encryption] {
    match mode {
        _ if unix => &[Encryption::Plain],
        SslMode::Disable => &[Encryption::Plain],
        SslMode::Allow => &[Encryption::Plain, Encryption::TlsIfSupported],
        SslMode::Prefer => &[Encryption::TlsIfSupported, Encryption::Plain],
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[Encryption::Tls],
    }
}

/// Encrypts a connection as required; returns the stream for messages, and its kind.
pub(crate) async fn take(
    params: &Params, host: &Host, stream: Stream, encryption: Encryption, patience: &Patience,
) -> Result<(Stream, Channel), Failure> {
    if encryption == Encryption::Plain {
        return Ok((stream, Channel::Plain));
    }
    match negotiate(params, host, stream, patience).await {
        Ok(Negotiated::Encrypted(stream, channel)) => Ok((stream, channel)),
        Ok(Negotiated::Refused(stream)) if encryption == Encryption::TlsIfSupported => Ok((stream, Channel::Plain)),
        Ok(Negotiated::Refused(_)) => Err(Failure::last(TlsError::Unsupported.into())),
        Err(cause) => Err(Failure { depends_on_encryption: is_of_tls(&cause), cause }),
    }
}

fn is_of_tls(cause: &Cause) -> bool {
    match cause {
        Cause::Tls(TlsError::ErrorResponse | TlsError::InvalidResponse(_)) => false,
        Cause::Tls(_) => true,
        _ => false,
    }
}

/// Whether the server might have answered differently with another encryption. It might before it
/// knew the user, because pg_hba.conf may have a line for one kind of connection only.
pub(crate) fn may_matter(error: &StartupError, startup: &Startup) -> bool {
    match error {
        StartupError::Server(error) => error.sqlstate() != SqlState::CANNOT_CONNECT_NOW && !startup.is_authenticated(),
        StartupError::Refused(_) => true,
        _ => false,
    }
}

/// With `sslcertmode=require`, the server must ask for our certificate, which it cannot do without TLS.
pub(crate) fn check_certificate_mode(params: &Params, stream: &Stream) -> Result<(), Cause> {
    if params.tls.certificate_mode == SslCertMode::Require && !stream.is_encrypted() {
        let text = "server did not request an SSL certificate";
        return Err(TlsError::ClientCertificate(text).into());
    }
    Ok(())
}

/// Encrypts an additional connection to a session's host, with the parameters of the session.
pub(crate) async fn encrypt(
    params: &Params, host: &Host, stream: Stream, patience: &Patience,
) -> Result<Stream, Cause> {
    let taken = take(params, host, stream, Encryption::Tls, patience).await;
    taken.map(|(stream, _)| stream).map_err(|failure| failure.cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_sockets_are_never_encrypted() {
        for mode in [SslMode::Prefer, SslMode::Require, SslMode::VerifyFull] {
            assert_eq!(allowed(mode, true), [Encryption::Plain]);
            assert_ne!(allowed(mode, false), [Encryption::Plain]);
        }
        assert_eq!(allowed(SslMode::Disable, false), [Encryption::Plain]);
    }
}
