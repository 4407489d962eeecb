//! Exit codes: pgbench's, and those of a process that was told to stop.

use std::process::ExitCode;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Well,
    /// Usage, set-up, a first connection or a script: no load was made.
    NotBegun,
    /// A client was aborted.
    Aborted,
    /// It came to its end and is no result: data or mix are not what they have to be.
    Refused,
    /// A file or stream that it was to write could not be written.
    Unwritten,
    /// Told to stop by this signal.
    Signalled(i32),
}

impl Exit {
    /// The number that the parent sees.
    #[must_use]
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
