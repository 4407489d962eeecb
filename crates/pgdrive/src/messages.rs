//! What the program says on standard error, in the form of PostgreSQL's own programs.

use std::fmt::Display;
use std::io::{self, Write};

use pgdyno_wire::printable;

use crate::called_as::CalledAs;

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

    #[must_use]
    pub fn called_as(&self) -> CalledAs {
        CalledAs::of(&self.program)
    }

    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    pub fn error(&self, text: impl Display) {
        self.say("error: ", text);
    }

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
        let text = printable(&text);
        // standard error may be closed; there is nowhere else to say so
        let _ = writeln!(io::stderr(), "{}: {level}{}", self.program, text.trim_end());
    }
}

/// An expected failure, in the user's words, with what may be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// What could not be done because of it, an error of its own.
    pub also: Option<String>,
    /// What there is to choose from, said as it is.
    pub listing: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            detail: None,
            hint: None,
            also: None,
            listing: None,
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

    /// The same, with what could not be done because of it.
    #[must_use]
    pub fn also(mut self, message: impl Display) -> Self {
        self.also = Some(message.to_string());
        self
    }

    /// The same, with what there is to choose from.
    #[must_use]
    pub fn listing(mut self, text: String) -> Self {
        self.listing = Some(text);
        self
    }

    pub fn say(&self, messages: &Messages) {
        messages.error(&self.message);
        if let Some(detail) = &self.detail {
            messages.detail(detail);
        }
        if let Some(hint) = &self.hint {
            messages.hint(hint);
        }
        if let Some(also) = &self.also {
            messages.error(also);
        }
        if let Some(listing) = &self.listing {
            // standard error may be closed; there is nowhere else to say so
            let _ = write!(io::stderr(), "{listing}");
        }
    }
}

/// The system's words without Rust's "(os error 2)".
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
