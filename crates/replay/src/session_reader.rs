//! Reads the statements of one session, a buffer at a time.

use std::path::Path;
use std::sync::Arc;

use crate::error::ReplayError;
use crate::lines::{LONGEST_LINE, Lines};
use crate::replay_file::{END, Place, ReplayFile};
use crate::statement::Statement;

/// How much of the file is read at a time: each running session has such a buffer.
const CHUNK_BYTES: usize = 16 * 1024;

/// Reads every line of the file at `path` without replaying it.
///
/// # Errors
/// The first error.
pub fn check(path: &Path) -> Result<(), ReplayError> {
    let file = ReplayFile::open(path)?;
    let mut statement = Statement::default();
    for session in (0..).map_while(|number| SessionReader::open(&file, number)) {
        let mut session = session?;
        while session.next(&file, &mut statement)? {}
    }
    Ok(())
}

/// Reads the statements of one session.
#[derive(Debug)]
pub struct SessionReader {
    lines: Lines,
    pub place: Place,
    /// The intended start of the statement before.
    last_us: u64,
    is_first: bool,
}

impl SessionReader {
    /// Begins with the first statement of session number `number`, if there is such a session.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(file: &ReplayFile, number: usize) -> Option<Result<Self, ReplayError>> {
        let place = *file.places.get(number)?;
        let mut lines = Lines::new(Arc::clone(&file.file), place.offset, place.line, CHUNK_BYTES);
        let begin = lines.next(LONGEST_LINE).map(|_| ());
        Some(begin.map(|()| Self { lines, place, last_us: place.at_us, is_first: true }))
    }

    /// Reads the next statement into `statement`; returns false at the end of the session.
    ///
    /// # Errors
    /// The line is invalid, or the file changed since it was scanned.
    pub fn next(&mut self, file: &ReplayFile, statement: &mut Statement) -> Result<bool, ReplayError> {
        let number = self.lines.line;
        let wrong = |message: String| ReplayError::in_line(file.path(), number, message);
        let Some(line) = self.lines.next(LONGEST_LINE)? else {
            let message = "the file ends in the midst of a session".to_owned();
            return Err(wrong(message).hint("The file changed while it was replayed."));
        };
        if line.starts_with(END) {
            return Ok(false);
        }
        statement.read(line, file).map_err(wrong)?;
        if statement.at_us < self.last_us {
            let message = format!("at_us goes back from {} to {}", self.last_us, statement.at_us);
            return Err(wrong(message));
        }
        if statement.at_us > self.place.until_us {
            return Err(wrong("at_us is after the end of the session".to_owned()));
        }
        if statement.in_block && self.is_first {
            let message = "\"block\" in the first statement of a session".to_owned();
            return Err(wrong(message));
        }
        self.last_us = statement.at_us;
        self.is_first = false;
        Ok(true)
    }
}
