//! Bind and Execute of one prepared statement, formatted once, with parameters inserted for each execution.

use crate::error::EncodeError;
use crate::frontend::{self, Encoded};

/// What the server reports about the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// A Describe of the portal comes before Execute.
    Described,
    /// There is no Describe.
    Undescribed,
    /// There is no Describe, and the values arrive in binary format: nobody reads them, and most
    /// types take less work to send than as text.
    Unread,
}

/// Bind and Execute of a prepared statement with the unnamed portal. All parameters are text, and
/// results unless they are [`Columns::Unread`].
///
/// Everything except the values is formatted in advance; [`BindTemplate::append`] then copies two
/// pieces and the values, without an allocation when `out` has room.
#[derive(Clone, Debug)]
pub struct BindTemplate {
    /// Bind up to and including the number of parameters.
    head: Vec<u8>,
    /// The formats of results, which end Bind, Describe if columns are requested, and Execute.
    tail: Vec<u8>,
    formats: usize,
    parameters: u16,
}

impl BindTemplate {
    pub fn new(statement: &str, parameters: u16, columns: Columns) -> Result<Self, EncodeError> {
        let mut head = Vec::new();
        frontend::bind(&mut head, "", statement, [])?;
        head.truncate(head.len() - 4);
        head.extend_from_slice(&parameters.to_be_bytes());
        // without a format all are text; a single one, 1 for binary, holds for all
        let mut tail = match columns {
            Columns::Described | Columns::Undescribed => vec![0, 0],
            Columns::Unread => vec![0, 1, 0, 1],
        };
        let formats = tail.len();
        if columns == Columns::Described {
            frontend::describe_portal(&mut tail, "")?;
        }
        frontend::execute(&mut tail, "", 0)?;
        Ok(BindTemplate { head, tail, formats, parameters })
    }

    /// Appends the messages; `write(i, out)` appends the text of parameter `i` (from 0) and returns
    /// true, or returns false for NULL.
    ///
    /// # Errors
    /// A value is too long; then `out` is unchanged.
    #[inline]
    pub fn append(&self, out: &mut Vec<u8>, mut write: impl FnMut(u16, &mut Vec<u8>) -> bool) -> Encoded {
        let start = out.len();
        out.extend_from_slice(&self.head);
        for index in 0..self.parameters {
            let at = out.len();
            out.extend_from_slice(&[0xff; 4]);
            if write(index, out) {
                let bytes = out.len() - at - 4;
                patch(out, at, start, bytes)?;
            } else {
                out.truncate(at + 4);
            }
        }
        // The length excludes the type, and includes the formats of results.
        let bytes = out.len() - start - 1 + self.formats;
        patch(out, start + 1, start, bytes)?;
        out.extend_from_slice(&self.tail);
        Ok(())
    }
}

#[inline]
fn patch(out: &mut Vec<u8>, at: usize, start: usize, bytes: usize) -> Encoded {
    match (i32::try_from(bytes), out.get_mut(at..at + 4)) {
        (Ok(length), Some(place)) => {
            place.copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(EncodeError::TooLong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_bind_and_execute() {
        let params = [Some(&b"12345"[..]), None, Some(b""), Some(b"-7")];
        for count in 0..=params.len() {
            for columns in [Columns::Described, Columns::Undescribed] {
                let mut plain = b"before".to_vec();
                frontend::bind(&mut plain, "", "P0_3", params[..count].iter().copied()).expect("encodable");
                if columns == Columns::Described {
                    frontend::describe_portal(&mut plain, "").expect("encodable");
                }
                frontend::execute(&mut plain, "", 0).expect("encodable");
                let template = BindTemplate::new("P0_3", count as u16, columns).expect("encodable");
                let mut out = b"before".to_vec();
                let appended = template.append(&mut out, |index, out| {
                    let param = params[usize::from(index)];
                    out.extend_from_slice(param.unwrap_or(b"scratch"));
                    param.is_some()
                });
                assert_eq!((appended, out), (Ok(()), plain));
            }
        }
        // rows that nobody reads are binary
        let template = BindTemplate::new("s", 1, Columns::Unread).expect("encodable");
        let mut out = Vec::new();
        let appended = template.append(&mut out, |_, out| {
            out.push(b'7');
            true
        });
        let bind = b"B\0\0\0\x14\0s\0\0\0\0\x01\0\0\0\x017\0\x01\0\x01";
        assert_eq!((appended, out), (Ok(()), [&bind[..], b"E\0\0\0\t\0\0\0\0\0"].concat()));
        assert!(BindTemplate::new("a\0b", 0, Columns::Undescribed).is_err());
    }
}
