//! Messages on standard error, in the form of PostgreSQL's own programs.

use std::fmt::Display;
use std::io::{self, Write};

use pgdyno_wire::printable;

use crate::called_as::CalledAs;

#[derive(Debug, Clone)]
pub struct Messages {
    program: String,
}

impl Messages {
    pub fn new(program: &str) -> Self {
        Self { program: program.to_owned() }
    }

    pub fn called_as(&self) -> CalledAs {
        CalledAs::of(&self.program)
    }

    pub fn program(&self) -> &str {
        &self.program
    }

    pub fn error(&self, text: impl Display) {
        self.print("error: ", text);
    }

    pub fn warning(&self, text: impl Display) {
        self.print("warning: ", text);
    }

    pub fn detail(&self, text: impl Display) {
        self.print("detail: ", text);
    }

    pub fn hint(&self, text: impl Display) {
        self.print("hint: ", text);
    }

    /// Prints a message without a level, as getopt does.
    pub fn plain(&self, text: impl Display) {
        self.print("", text);
    }

    fn print(&self, level: &str, text: impl Display) {
        let text = text.to_string();
        let text = printable(&text);
        // standard error may be closed, and there is nowhere else to report it
        let _ = writeln!(io::stderr(), "{}: {level}{}", self.program, text.trim_end());
    }
}

/// An expected failure, as a message for the user, with its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// What could not be done because of it, as an error of its own.
    pub also: Option<String>,
    pub listing: Option<String>,
}

impl Failure {
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), detail: None, hint: None, also: None, listing: None }
    }

    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    pub fn detail(mut self, detail: impl Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// Adds what could not be done because of the failure.
    pub fn also(mut self, message: impl Display) -> Self {
        self.also = Some(message.to_string());
        self
    }

    pub fn listing(mut self, text: String) -> Self {
        self.listing = Some(text);
        self
    }

    pub fn report(&self, messages: &Messages) {
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
            // standard error may be closed, and there is nowhere else to report it
            let _ = write!(io::stderr(), "{listing}");
        }
    }
}

/// The system's message without Rust's "(os error 2)".
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
