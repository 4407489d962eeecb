//! Errors of a script or its options, as messages.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScriptError {
    /// The error, with file and line if it is in a file.
    pub message: String,
    pub hint: Option<String>,
}

impl ScriptError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> Self {
        Self::new(words(&error))
    }
}

/// Lua's message, without the frames that the binding adds.
pub(crate) fn words(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => {
            let end = message.find("\nstack traceback:").unwrap_or(message.len());
            message[..end].to_owned()
        }
        mlua::Error::CallbackError { cause, .. } => words(cause),
        mlua::Error::MemoryError(_) => "the script needs more memory than it may take".to_owned(),
        other => other.to_string(),
    }
}
