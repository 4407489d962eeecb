//! What the program says on standard error, in the form of PostgreSQL's own programs.

use std::fmt::Display;
use std::io::Write;

/// Says things in the program's name.
#[derive(Debug, Clone)]
pub struct Messages {
    program: String,
}

impl Messages {
    /// Under the name by which the program was called.
    #[must_use]
    pub fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
        }
    }

    /// The program's name.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Something failed.
    pub fn error(&self, text: impl Display) {
        self.say("error: ", text);
    }

    /// Something is odd.
    pub fn warning(&self, text: impl Display) {
        self.say("warning: ", text);
    }

    /// More about the error before.
    pub fn detail(&self, text: impl Display) {
        self.say("detail: ", text);
    }

    /// What to do about it.
    pub fn hint(&self, text: impl Display) {
        self.say("hint: ", text);
    }

    /// As getopt says it: without a level.
    pub fn plain(&self, text: impl Display) {
        self.say("", text);
    }

    fn say(&self, level: &str, text: impl Display) {
        let text = text.to_string();
        // standard error may be closed; there is nowhere else to say so
        let _ = writeln!(
            std::io::stderr(),
            "{}: {level}{}",
            self.program,
            text.trim_end()
        );
    }
}

/// An expected failure, in the user's words, with what may be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What failed.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            detail: None,
            hint: None,
        }
    }

    /// The same, with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The same, with a detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// Says it.
    pub fn say(&self, messages: &Messages) {
        messages.error(&self.message);
        if let Some(detail) = &self.detail {
            messages.detail(detail);
        }
        if let Some(hint) = &self.hint {
            messages.hint(hint);
        }
    }
}
