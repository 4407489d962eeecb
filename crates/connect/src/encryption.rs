//! Which connections are encrypted: the ways that `sslmode` allows, and which comes after which.

use pgdyno_wire::binding::Channel;
use pgdyno_wire::{SqlState, Startup, StartupError};

use crate::connect_error::Cause;
use crate::hosts::Host;
use crate::modes::{SslCertMode, SslMode};
use crate::params::Params;
use crate::patience::Patience;
use crate::stream::Stream;
use crate::tls::{Negotiated, TlsError, negotiate};

/// A way to connect to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Without TLS.
    Plain,
    /// With TLS if the server has it.
    TlsIfThere,
    /// With TLS.
    Tls,
}

/// Why a way did not lead to a session.
pub(crate) struct Failure {
    pub cause: Cause,
    /// Whether another way to the same address might do.
    pub is_ways: bool,
}

impl Failure {
    /// No other way would do better.
    pub fn last(cause: Cause) -> Self {
        Failure {
            cause,
            is_ways: false,
        }
    }
}

/// The ways to try, in turn.
pub(crate) fn ways(mode: SslMode, unix: bool) -> &'static [Way] {
    match mode {
        _ if unix => &[Way::Plain],
        SslMode::Disable => &[Way::Plain],
        SslMode::Allow => &[Way::Plain, Way::TlsIfThere],
        SslMode::Prefer => &[Way::TlsIfThere, Way::Plain],
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[Way::Tls],
    }
}

/// Goes the first steps of a way: the stream that messages go through, and what it is.
pub(crate) fn take(
    params: &Params,
    host: &Host,
    stream: Stream,
    way: Way,
    patience: &Patience,
) -> Result<(Stream, Channel), Failure> {
    if way == Way::Plain {
        return Ok((stream, Channel::Plain));
    }
    match negotiate(params, host, stream, patience) {
        Ok(Negotiated::Encrypted(stream, channel)) => Ok((stream, channel)),
        Ok(Negotiated::Refused(stream)) if way == Way::TlsIfThere => Ok((stream, Channel::Plain)),
        Ok(Negotiated::Refused(_)) => Err(Failure::last(TlsError::Unsupported.into())),
        Err(cause) => Err(Failure {
            is_ways: is_of_tls(&cause),
            cause,
        }),
    }
}

/// Whether a failure is one of TLS itself, and not of the server before it.
fn is_of_tls(cause: &Cause) -> bool {
    match cause {
        Cause::Tls(TlsError::ErrorResponse | TlsError::InvalidResponse(_)) => false,
        Cause::Tls(_) => true,
        _ => false,
    }
}

/// Whether the server might have answered otherwise over another way. It might before it knew who
/// we are: pg_hba.conf may have a line for one way only.
pub(crate) fn may_matter(error: &StartupError, startup: &Startup) -> bool {
    match error {
        StartupError::Server(error) => {
            error.sqlstate() != SqlState::CANNOT_CONNECT_NOW && !startup.is_authenticated()
        }
        StartupError::Refused(_) => true,
        _ => false,
    }
}

/// Without TLS no server asks for our certificate, as it must with `sslcertmode=require`.
pub(crate) fn check_certificate_mode(params: &Params, stream: &Stream) -> Result<(), Cause> {
    if params.tls.certificate_mode == SslCertMode::Require && !stream.is_encrypted() {
        let text = "server did not request an SSL certificate";
        return Err(TlsError::ClientCertificate(text).into());
    }
    Ok(())
}

/// Encrypts a connection beside a session, to the same host as the session's and with its parameters.
///
/// # Errors
/// The server has no TLS now, the handshake fails, or its certificate is not to be trusted.
pub(crate) fn encrypt(
    params: &Params,
    host: &Host,
    stream: Stream,
    patience: &Patience,
) -> Result<Stream, Cause> {
    let taken = take(params, host, stream, Way::Tls, patience);
    taken
        .map(|(stream, _)| stream)
        .map_err(|failure| failure.cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_sockets_are_never_encrypted() {
        for mode in [SslMode::Prefer, SslMode::Require, SslMode::VerifyFull] {
            assert_eq!(ways(mode, true), [Way::Plain]);
            assert_ne!(ways(mode, false), [Way::Plain]);
        }
        assert_eq!(ways(SslMode::Disable, false), [Way::Plain]);
    }
}
