//! Why a session could not be started.

use std::fmt;

use crate::error::{EncodeError, ProtocolError, ServerError};
use crate::scram::ScramError;

/// A way to authenticate that the server can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthMethod {
    /// Nothing is asked.
    Trust,
    /// The password itself.
    Cleartext,
    /// Salted md5.
    Md5,
    /// SCRAM-SHA-256, plain or with channel binding.
    ScramSha256,
    /// Kerberos 4 and 5 of old servers.
    Kerberos,
    /// crypt() of old servers.
    Crypt,
    /// Credentials over a unix socket, of old servers.
    ScmCredential,
    /// GSSAPI.
    Gss,
    /// SSPI.
    Sspi,
    /// A number that is not known.
    Other(u32),
}

impl AuthMethod {
    /// The method of an AuthenticationRequest's number; `None` for the numbers that go on with
    /// a method.
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
    /// The server refused in bare text, as its parent process does when it cannot fork.
    Refused(String),
    /// The server asks for a password and there is none.
    PasswordRequired,
    /// The server asks for a method that `require_auth` does not allow, or for none.
    AuthNotAllowed {
        /// The parameter.
        required: String,
        /// What the server does.
        why: String,
    },
    /// The server asks for a method that is not supported.
    UnsupportedAuth(AuthMethod),
    /// The server offers no SASL mechanism that is supported; its own list.
    UnsupportedMechanisms(Vec<String>),
    /// The server offers SCRAM-SHA-256-PLUS though the connection is not encrypted: somebody may
    /// sit in between.
    PlusWithoutTls,
    /// Channel binding is required and the connection is not encrypted.
    BindingWithoutTls,
    /// Channel binding is required and the server's list has no mechanism that binds.
    BindingNotOffered,
    /// Channel binding is required and the server asks for a method that cannot bind.
    BindingUnsupported,
    /// Channel binding is required and the server was satisfied without.
    NotBound,
    /// The signature of the server's certificate has no hash to bind by.
    NoBindingHash,
    /// SCRAM failed, or the server could not prove that it knows the password.
    Scram(ScramError),
    /// Not the protocol, or not what may come at this point.
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
