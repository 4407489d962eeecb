//! Exit codes: pgbench's, and those of a process that was stopped.

use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Well,
    /// A usage error, or a failure in the set-up, a first connection or a script: the load did not begin.
    NotBegun,
    Aborted,
    /// The load ended, but its result is invalid: the data or the mix are wrong.
    Refused,
    /// A file or stream could not be written.
    Unwritten,
    /// Stopped by this signal.
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
