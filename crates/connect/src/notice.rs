//! Prints the server's notices and warnings as libpq does.

use std::io::Write;

use pgdyno_wire::printable;

/// Writes a notice to standard error, in the layout of libpq's default notice processor: without
/// the program's name before it. Characters are escaped as by [`printable`].
///
/// It uses a single write, so that notices of several threads do not mix.
pub fn print(notice: &str) {
    let mut line = printable(notice).into_owned();
    line.push('\n');
    // standard error may be closed, which must not stop the program
    let _ = std::io::stderr().write_all(line.as_bytes());
}
