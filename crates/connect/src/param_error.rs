//! Errors in connection parameters, in libpq's words.

use std::fmt;

/// An error in the connection parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamError {
    /// There is no option with this name.
    UnknownOption(String),
    /// There is no option with this name that a URI can contain.
    UnknownUriParameter(String),
    /// A connection string with a syntax error; the whole message.
    Syntax(String),
    /// A value that the option does not accept.
    InvalidValue {
        /// The option.
        option: &'static str,
        /// The rejected value.
        value: String,
    },
    /// A value that should be an integer.
    InvalidInteger {
        /// The option.
        option: &'static str,
        /// The rejected value.
        value: String,
    },
    /// A value that requests something that is not supported; the whole message.
    Unsupported(String),
    /// A `require_auth` that cannot be used; the whole message.
    RequireAuth(String),
    /// Lists of hosts, addresses or ports that do not match; the whole message.
    HostLists(String),
    /// An invalid port.
    InvalidPort(String),
    /// A service that cannot be found or read; the whole message.
    Service(String),
    /// The environment variable that is not UTF-8.
    NotUtf8(String),
    /// A password that is not UTF-8; the whole message.
    Password(String),
    /// The name of the user cannot be determined; the whole message.
    User(String),
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamError::UnknownOption(name) => write!(f, "invalid connection option \"{name}\""),
            ParamError::UnknownUriParameter(name) => {
                write!(f, "invalid URI query parameter: \"{name}\"")
            }
            ParamError::InvalidValue { option, value } => {
                write!(f, "invalid {option} value: \"{value}\"")
            }
            ParamError::InvalidInteger { option, value } => {
                write!(f, "invalid integer value \"{value}\" for connection option \"{option}\"")
            }
            ParamError::NotUtf8(name) => write!(f, "environment variable \"{name}\" is not UTF-8"),
            ParamError::InvalidPort(port) => write!(f, "invalid port number: \"{port}\""),
            ParamError::Syntax(text)
            | ParamError::Unsupported(text)
            | ParamError::RequireAuth(text)
            | ParamError::HostLists(text)
            | ParamError::Service(text)
            | ParamError::Password(text)
            | ParamError::User(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ParamError {}

/// The system's words for an error, without the number that Rust adds.
pub(crate) fn system_message(error: &std::io::Error) -> String {
    let text = error.to_string();
    match (error.raw_os_error(), text.rfind(" (os error ")) {
        (Some(_), Some(at)) => text[..at].to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_messages_have_no_number() {
        let refused = std::io::Error::from_raw_os_error(111);
        assert_eq!(system_message(&refused), "Connection refused");
        let own = std::io::Error::other("own (os error text)");
        assert_eq!(system_message(&own), "own (os error text)");
    }
}
