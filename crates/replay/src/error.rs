//! Why a replay file cannot be used.

use std::io;
use std::path::Path;

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ReplayError {
    /// The file's name, and the line's number if the error is in a line.
    pub place: String,
    pub message: String,
    pub hint: Option<&'static str>,
}

impl ReplayError {
    pub(crate) fn in_file(path: &Path, message: impl Into<String>) -> Self {
        Self { place: path.display().to_string(), message: message.into(), hint: None }
    }

    /// An error in a line, which counts from 1.
    pub(crate) fn in_line(path: &Path, line: u64, message: impl Into<String>) -> Self {
        Self { place: format!("{}:{line}", path.display()), message: message.into(), hint: None }
    }

    /// The system cannot open or read the file.
    pub(crate) fn of_system(path: &Path, what: &str, error: &io::Error) -> Self {
        let text = error.to_string();
        let plain = text.split(" (os error").next().unwrap_or(&text);
        Self::in_file(path, format!("could not {what} the file: {plain}"))
    }

    pub(crate) fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

/// What a line says, or the parser's message without its line, which is always the first.
pub(crate) fn parsed<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(line)
        .map_err(|error| format!("invalid line: {error}").replace(" at line 1 column ", " at column "))
}
