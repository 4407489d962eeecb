//! Exit codes: pgbench's, those of a process that was stopped, and that of one whose output could not be written.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use crate::called_as::CalledAs;
use crate::messages::{Failure, Messages, plain};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Well,
    /// A usage error, or a failure in the set-up, a first connection or a script: the load did not begin.
    NotBegun,
    Aborted,
    /// The load ended, but its result is invalid: the data or the mix are wrong.
    Refused,
    Unwritten,
    Signalled(i32),
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::NotBegun => 1,
            Self::Aborted => 2,
            Self::Refused => 3,
            Self::Unwritten => 4,
            Self::Signalled(signal) => 128 + signal as u8,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

pub fn refuse(failure: &Failure, messages: &Messages) -> Exit {
    failure.report(messages);
    Exit::NotBegun
}

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
