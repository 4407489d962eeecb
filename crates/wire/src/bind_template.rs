//! Bind and Execute of one prepared statement, formatted once, with parameters inserted for each
//! execution.

use crate::error::EncodeError;
use crate::frontend::{self, Encoded};

/// Whether the server describes the columns of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// A Describe of the portal comes before Execute.
    Described,
    /// There is no Describe.
    Undescribed,
}

/// Bind and Execute of a prepared statement with the unnamed portal. All parameters and results are
/// text.
///
/// Everything except the values is formatted in advance; [`BindTemplate::append`] then copies two
/// pieces and the values, without an allocation when `out` has room.
#[derive(Clone, Debug)]
pub struct BindTemplate {
    /// Bind up to and including the number of parameters.
    head: Vec<u8>,
    /// The rest of Bind, Describe if columns are requested, and Execute.
    tail: Vec<u8>,
    parameters: u16,
}

impl BindTemplate {
    /// For a statement with this many parameters.
    ///
    /// # Errors
    /// The name contains a zero byte.
    pub fn new(statement: &str, parameters: u16, columns: Columns) -> Result<Self, EncodeError> {
        let mut head = Vec::new();
        frontend::bind(&mut head, "", statement, [])?;
        head.truncate(head.len() - 4);
        head.extend_from_slice(&parameters.to_be_bytes());
        let mut tail = vec![0, 0];
        if columns == Columns::Described {
            frontend::describe_portal(&mut tail, "")?;
        }
        frontend::execute(&mut tail, "", 0)?;
        Ok(BindTemplate {
            head,
            tail,
            parameters,
        })
    }

    /// Appends the messages; `write(i, out)` appends the text of parameter `i` (from 0) and returns
    /// true, or returns false for NULL.
    ///
    /// # Errors
    /// A value is too long; then `out` is unchanged.
    #[inline]
    pub fn append(
        &self,
        out: &mut Vec<u8>,
        mut write: impl FnMut(u16, &mut Vec<u8>) -> bool,
    ) -> Encoded {
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
        // The length excludes the type, and includes the two bytes of result formats.
        let bytes = out.len() - start - 1 + 2;
        patch(out, start + 1, start, bytes)?;
        out.extend_from_slice(&self.tail);
        Ok(())
    }
}

/// Writes a length at `at`; truncates the buffer to `start` if it does not fit.
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
                frontend::bind(&mut plain, "", "P0_3", params[..count].iter().copied())
                    .expect("encodable");
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
    }

    #[test]
    fn names_with_a_zero_byte_are_refused() {
        assert!(BindTemplate::new("a\0b", 0, Columns::Undescribed).is_err());
    }
}
