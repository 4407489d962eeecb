//! Reads a whole file without replaying it.

use std::path::Path;

use crate::error::ReplayError;
use crate::replay_file::ReplayFile;
use crate::session_reader::SessionReader;
use crate::statement::Statement;

/// Reads every line of the file at `path`.
///
/// # Errors
/// The first error.
pub fn check(path: &Path) -> Result<(), ReplayError> {
    let file = ReplayFile::open(path)?;
    let mut statement = Statement::default();
    let mut number = 0;
    while let Some(session) = SessionReader::open(&file, number) {
        let mut session = session?;
        while session.next(&file, &mut statement)? {}
        number += 1;
    }
    Ok(())
}
