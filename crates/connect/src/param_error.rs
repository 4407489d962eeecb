//! Errors in connection parameters, in libpq's words.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    #[error("invalid connection option \"{0}\"")]
    UnknownOption(String),
    #[error("invalid URI query parameter: \"{0}\"")]
    UnknownUriParameter(String),
    #[error("invalid {option} value: \"{value}\"")]
    InvalidValue { option: &'static str, value: String },
    #[error("invalid integer value \"{value}\" for connection option \"{option}\"")]
    InvalidInteger { option: &'static str, value: String },
    #[error("invalid port number: \"{0}\"")]
    InvalidPort(String),
    #[error("environment variable \"{0}\" is not UTF-8")]
    NotUtf8(String),
    /// Another error, as the whole message.
    #[error("{0}")]
    Other(String),
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
