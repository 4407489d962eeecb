//! Errors of encrypted connections.

use rustls::{AlertDescription, CertificateError, Error};

/// Why a connection could not be encrypted, or failed after that.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TlsError {
    #[error("server does not support SSL, but SSL was required")]
    Unsupported,
    #[error("server sent an error response during SSL exchange")]
    ErrorResponse,
    #[error("received invalid response to SSL negotiation: {}", .0.escape_ascii())]
    InvalidResponse(u8),
    #[error("direct SSL connection was established without ALPN protocol negotiation extension")]
    NoProtocol,
    /// A file or a parameter is unusable, or the certificate does not belong to the host; the whole message.
    #[error("{0}")]
    Setup(String),
    #[error("SSL error: {}", words(.0))]
    Failed(#[from] Error),
    /// The other side closed the connection during the handshake.
    #[error("SSL SYSCALL error: EOF detected")]
    Closed,
    /// The server did not ask for the certificate although it must; the whole message.
    #[error("{0}")]
    ClientCertificate(&'static str),
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
        ] {
            assert_eq!(TlsError::from(error).to_string(), text);
        }
    }
}
