//! The files and streams that a run writes, and the effect of their failures on the exit code.

use std::fmt::Display;
use std::io;

use crate::called_as::CalledAs;
use crate::exit::Exit;
use crate::messages::{Messages, plain};

/// Reports outputs that could not be written, and remembers whether there was one.
pub struct Outputs {
    messages: Messages,
    failed: bool,
}

impl Outputs {
    pub fn new(messages: &Messages) -> Self {
        Self { messages: messages.clone(), failed: false }
    }

    /// Reports a failure to write `what`; returns whether there was one.
    pub fn check(&mut self, what: impl Display, written: io::Result<()>) -> bool {
        let Err(error) = written else {
            return false;
        };
        self.report(what, &error);
        true
    }

    /// Reports that `what` could not be written because of `error`.
    pub fn report(&mut self, what: impl Display, error: &io::Error) {
        self.failed = true;
        self.messages.error(format!("could not write {what}: {}", plain(error)));
    }

    /// The exit of a run that would end with `exit` if every output had been written.
    pub fn exit(&self, exit: Exit) -> Exit {
        match exit {
            Exit::Well if self.failed => unwritten(&self.messages),
            exit => exit,
        }
    }
}

/// The exit of a run whose only failure is an output. pgbench has no code for it.
pub fn unwritten(messages: &Messages) -> Exit {
    match messages.called_as() {
        CalledAs::Pgdrive => Exit::Unwritten,
        CalledAs::Pgbench => Exit::NotBegun,
    }
}
