//! Notices and warnings of the server, handed on as libpq does it.

use std::io::Write;

use pgdyno_wire::printable;

/// Writes a notice to standard error, in the layout of libpq's default notice processor: no
/// program's name before it. The characters that [`printable`] escapes are escaped.
///
/// One write, so that notices of several threads do not mix.
pub fn print(notice: &str) {
    let mut line = printable(notice).into_owned();
    line.push('\n');
    // standard error may be closed; nothing depends on it
    let _ = std::io::stderr().write_all(line.as_bytes());
}
