//! Why a session could not be started.

use std::fmt;

use crate::error::{EncodeError, ProtocolError, ServerError};
use crate::scram::ScramError;

/// An authentication method that the server can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthMethod {
    /// No authentication.
    Trust,
    /// The password in clear text.
    Cleartext,
    /// The password with a salted md5 hash.
    Md5,
    /// SCRAM-SHA-256, plain or with channel binding.
    ScramSha256,
    /// Kerberos 4 and 5, of old servers.
    Kerberos,
    /// crypt(), of old servers.
    Crypt,
    /// Credentials over a unix socket, of old servers.
    ScmCredential,
    /// GSSAPI.
    Gss,
    /// SSPI.
    Sspi,
    /// An unknown number.
    Other(u32),
}

impl AuthMethod {
    /// The method for the number in an AuthenticationRequest; `None` for numbers that continue a
    /// method.
    pub(crate) fn from_code(code: u32) -> Option<AuthMethod> {
        Some(match code {
            0 => AuthMethod::Trust,
            1 | 2 => AuthMethod::Kerberos,
            3 => AuthMethod::Cleartext,
            4 => AuthMethod::Crypt,
            5 => AuthMethod::Md5,
            6 => AuthMethod::ScmCredential,
            7 => AuthMethod::Gss,
            9 => AuthMethod::Sspi,
            10 => AuthMethod::ScramSha256,
            8 | 11 | 12 => return None,
            other => AuthMethod::Other(other),
        })
    }
}

/// Why a session could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartupError {
    /// The server refused.
    Server(Box<ServerError>),
    /// The server refused as bare text, as the postmaster does when it cannot fork.
    Refused(String),
    /// The server requests a password, and none is configured.
    PasswordRequired,
    /// The server requests a method that `require_auth` does not allow, or no authentication.
    AuthNotAllowed {
        /// The value of the parameter.
        required: String,
        /// What the server requests.
        why: String,
    },
    /// The server requests a method that is not supported.
    UnsupportedAuth(AuthMethod),
    /// The server offers only SASL mechanisms that are not supported; its list.
    UnsupportedMechanisms(Vec<String>),
    /// The server offers SCRAM-SHA-256-PLUS although the connection is not encrypted: an attacker
    /// may be in between.
    PlusWithoutTls,
    /// Channel binding is required and the connection is not encrypted.
    BindingWithoutTls,
    /// Channel binding is required, and the server's list has no mechanism that supports it.
    BindingNotOffered,
    /// Channel binding is required, and the server requests a method that does not support it.
    BindingUnsupported,
    /// Channel binding is required, and the server completed the authentication without it.
    NotBound,
    /// The signature algorithm of the server's certificate has no hash for channel binding.
    NoBindingHash,
    /// SCRAM failed, or the server could not prove that it knows the password.
    Scram(ScramError),
    /// The bytes are not the protocol, or a message that is not allowed at this point.
    Protocol(ProtocolError),
    /// A parameter or the password cannot be sent.
    Encode(EncodeError),
}

impl fmt::Display for StartupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartupError::Server(error) => error.fmt(f),
            StartupError::Refused(text) => f.write_str(text),
            StartupError::PasswordRequired => f.write_str("fe_sendauth: no password supplied"),
            StartupError::AuthNotAllowed { required, why } => {
                write!(
                    f,
                    "authentication method requirement \"{required}\" failed: {why}"
                )
            }
            StartupError::UnsupportedAuth(method) => match method {
                AuthMethod::Kerberos => f.write_str("Kerberos authentication not supported"),
                AuthMethod::Crypt => f.write_str("Crypt authentication not supported"),
                AuthMethod::ScmCredential => {
                    f.write_str("SCM_CRED authentication method not supported")
                }
                AuthMethod::Gss => f.write_str("GSSAPI authentication not supported"),
                AuthMethod::Sspi => f.write_str("SSPI authentication not supported"),
                AuthMethod::Other(code) => {
                    write!(f, "authentication method {code} not supported")
                }
                known => write!(f, "authentication method {known:?} not supported here"),
            },
            StartupError::UnsupportedMechanisms(_) => {
                f.write_str("none of the server's SASL authentication mechanisms are supported")
            }
            StartupError::PlusWithoutTls => f.write_str(
                "server offered SCRAM-SHA-256-PLUS authentication over a non-SSL connection",
            ),
            StartupError::BindingWithoutTls => {
                f.write_str("channel binding required, but SSL not in use")
            }
            StartupError::BindingNotOffered => f.write_str(
                "channel binding is required, but server did not offer an authentication method that supports channel binding",
            ),
            StartupError::BindingUnsupported => f.write_str(
                "channel binding required but not supported by server's authentication request",
            ),
            StartupError::NotBound => f.write_str(
                "channel binding required, but server authenticated client without channel binding",
            ),
            StartupError::NoBindingHash => f.write_str(
                "could not find digest for the signature of the server's certificate, which channel binding needs\n\tThe connection parameter channel_binding=disable goes on without.",
            ),
            StartupError::Scram(error) => error.fmt(f),
            StartupError::Protocol(error) => error.fmt(f),
            StartupError::Encode(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartupError {}

impl From<ProtocolError> for StartupError {
    fn from(error: ProtocolError) -> Self {
        StartupError::Protocol(error)
    }
}

impl From<ScramError> for StartupError {
    fn from(error: ScramError) -> Self {
        StartupError::Scram(error)
    }
}

impl From<EncodeError> for StartupError {
    fn from(error: EncodeError) -> Self {
        StartupError::Encode(error)
    }
}
