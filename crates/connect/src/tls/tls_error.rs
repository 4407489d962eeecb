//! Errors of encrypted connections.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error};

/// Why a connection could not be encrypted, or failed after that.
#[derive(Clone, Debug, PartialEq)]
pub enum TlsError {
    /// TLS is required, and the server does not support it.
    Unsupported,
    /// The server answered the request for TLS with an error message.
    ErrorResponse,
    /// The server answered the request for TLS with an unknown byte.
    InvalidResponse(u8),
    /// A connection that began with TLS did not agree on the protocol.
    NoProtocol,
    /// A file or a parameter is unusable; the whole message.
    Setup(String),
    Failed(Error),
    /// The other side closed the connection during the handshake.
    Closed,
    /// The certificate does not belong to the host; the whole message.
    WrongName(String),
    /// The server did not ask for the certificate although it must; the whole message.
    ClientCertificate(&'static str),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Unsupported => f.write_str("server does not support SSL, but SSL was required"),
            TlsError::ErrorResponse => f.write_str("server sent an error response during SSL exchange"),
            TlsError::InvalidResponse(byte) => {
                write!(f, "received invalid response to SSL negotiation: {}", byte.escape_ascii())
            }
            TlsError::NoProtocol => {
                f.write_str("direct SSL connection was established without ALPN protocol negotiation extension")
            }
            TlsError::Setup(text) | TlsError::WrongName(text) => f.write_str(text),
            TlsError::ClientCertificate(text) => f.write_str(text),
            TlsError::Closed => f.write_str("SSL SYSCALL error: EOF detected"),
            TlsError::Failed(error) => write!(f, "SSL error: {}", words(error)),
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TlsError::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        TlsError::Failed(error)
    }
}

/// The message for an error, close to OpenSSL's.
fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => {
            format!("certificate verify failed: {}", certificate(why))
        }
        Error::AlertReceived(alert) => format!("alert {}", alert_words(*alert)),
        Error::PeerIncompatible(why) => format!("handshake failure: {why:?}"),
        other => other.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "certificate is not yet valid".to_owned()
        }
        CertificateError::UnknownIssuer => "unable to get local issuer certificate".to_owned(),
        CertificateError::Revoked => "certificate revoked".to_owned(),
        CertificateError::UnknownRevocationStatus => "unable to get certificate revocation list".to_owned(),
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
            "certificate revocation list has expired".to_owned()
        }
        CertificateError::Other(why) => why.to_string(),
        other => other.to_string(),
    }
}

/// `UnknownCA` as `unknown ca`.
fn alert_words(alert: AlertDescription) -> String {
    let mut words = String::new();
    let mut previous = ' ';
    for c in format!("{alert:?}").chars() {
        if c.is_uppercase() && previous.is_lowercase() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
        previous = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_near_openssls() {
        for (error, text) in [
            (Error::AlertReceived(AlertDescription::UnknownCA), "SSL error: alert unknown ca"),
            (Error::AlertReceived(AlertDescription::CertificateRequired), "SSL error: alert certificate required"),
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "SSL error: certificate verify failed: unable to get local issuer certificate",
            ),
        ] {
            assert_eq!(TlsError::from(error).to_string(), text);
        }
        assert_eq!(TlsError::InvalidResponse(b'x').to_string(), "received invalid response to SSL negotiation: x");
    }
}
