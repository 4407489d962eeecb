//! Errors in connection parameters, in libpq's words.

/// An error in the connection parameters. A `String` without more is the whole message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    #[error("invalid connection option \"{0}\"")]
    UnknownOption(String),
    #[error("invalid URI query parameter: \"{0}\"")]
    UnknownUriParameter(String),
    #[error("{0}")]
    Syntax(String),
    #[error("invalid {option} value: \"{value}\"")]
    InvalidValue { option: &'static str, value: String },
    #[error("invalid integer value \"{value}\" for connection option \"{option}\"")]
    InvalidInteger { option: &'static str, value: String },
    /// A value that requests something that is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// A `require_auth` that cannot be used.
    #[error("{0}")]
    RequireAuth(String),
    /// Lists of hosts, addresses or ports that do not match.
    #[error("{0}")]
    HostLists(String),
    #[error("invalid port number: \"{0}\"")]
    InvalidPort(String),
    #[error("{0}")]
    Service(String),
    #[error("environment variable \"{0}\" is not UTF-8")]
    NotUtf8(String),
    /// A password that is not UTF-8.
    #[error("{0}")]
    Password(String),
    #[error("{0}")]
    User(String),
}

/// The system's words for an error, without the number that Rust adds.
pub fn system_message(error: &std::io::Error) -> String {
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
