//! Why a session could not be started.

use crate::error::{EncodeError, ProtocolError, ServerError};
use crate::scram::ScramError;

/// An authentication method that the server can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthMethod {
    Trust,
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
    Gss,
    Sspi,
    Other(u32),
}

impl AuthMethod {
    /// The method for the number in an AuthenticationRequest; `None` for numbers that continue a method.
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

    fn refusal(self) -> String {
        let name = match self {
            AuthMethod::Kerberos => "Kerberos authentication",
            AuthMethod::Crypt => "Crypt authentication",
            AuthMethod::ScmCredential => "SCM_CRED authentication method",
            AuthMethod::Gss => "GSSAPI authentication",
            AuthMethod::Sspi => "SSPI authentication",
            AuthMethod::Other(code) => return format!("authentication method {code} not supported"),
            known => return format!("authentication method {known:?} not supported here"),
        };
        format!("{name} not supported")
    }
}

/// Why a session could not be started, in libpq's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    #[error("{0}")]
    Server(Box<ServerError>),
    /// The server refused as bare text, as the postmaster does when it cannot fork.
    #[error("{0}")]
    Refused(String),
    #[error("fe_sendauth: no password supplied")]
    PasswordRequired,
    #[error("authentication method requirement \"{required}\" failed: {why}")]
    AuthNotAllowed { required: String, why: String },
    #[error("{}", .0.refusal())]
    UnsupportedAuth(AuthMethod),
    /// With the server's list.
    #[error("none of the server's SASL authentication mechanisms are supported")]
    UnsupportedMechanisms(Vec<String>),
    /// An attacker may be in between.
    #[error("server offered SCRAM-SHA-256-PLUS authentication over a non-SSL connection")]
    PlusWithoutTls,
    #[error("channel binding required, but SSL not in use")]
    BindingWithoutTls,
    #[error(
        "channel binding is required, but server did not offer an authentication method that supports channel binding"
    )]
    BindingNotOffered,
    #[error("channel binding required but not supported by server's authentication request")]
    BindingUnsupported,
    #[error("channel binding required, but server authenticated client without channel binding")]
    NotBound,
    #[error(
        "could not find digest for the signature of the server's certificate, which channel binding needs\n\t\
         The connection parameter channel_binding=disable goes on without."
    )]
    NoBindingHash,
    #[error("{0}")]
    Scram(#[from] ScramError),
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    /// A parameter or the password cannot be sent.
    #[error("{0}")]
    Encode(#[from] EncodeError),
}
