//! Bodies of the server's messages, read in place.

use crate::error::ProtocolError;
use crate::parts::Parts;

/// The transaction status in a ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxStatus {
    /// Not in a transaction block.
    Idle,
    InBlock,
    /// In a transaction block that has failed; queries are refused until it ends.
    Failed,
}

impl TxStatus {
    pub(crate) fn parse(body: &[u8]) -> Result<TxStatus, ProtocolError> {
        match body {
            [b'I'] => Ok(TxStatus::Idle),
            [b'T'] => Ok(TxStatus::InBlock),
            [b'E'] => Ok(TxStatus::Failed),
            _ => Err(malformed(b'Z', "unknown transaction status")),
        }
    }
}

/// The tag of a CommandComplete, such as `INSERT 0 5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandTag<'a>(&'a [u8]);

impl<'a> CommandTag<'a> {
    pub fn parse(body: &'a [u8]) -> Result<Self, ProtocolError> {
        match body {
            [tag @ .., 0] => Ok(CommandTag(tag)),
            _ => Err(malformed(b'C', "command tag without an end")),
        }
    }

    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The tag as text; bytes that are not UTF-8 are replaced.
    pub fn to_text(self) -> String {
        String::from_utf8_lossy(self.0).into_owned()
    }

    /// Rows returned or affected, for commands that report it.
    pub fn rows(self) -> Option<u64> {
        let digits = self.0.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, number) = self.0.split_at(self.0.len() - digits);
        if digits == 0 || before.last() != Some(&b' ') {
            return None;
        }
        number.iter().try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
    }
}

/// A DataRow: its values as text, in the order of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    columns: u16,
    values: &'a [u8],
}

impl<'a> Row<'a> {
    /// Reads the body of a DataRow; checks all lengths once.
    ///
    /// # Errors
    /// The lengths of the values do not fit the body.
    pub fn parse(body: &'a [u8]) -> Result<Self, ProtocolError> {
        let bad = malformed(b'D', "lengths of values do not fit the row");
        let mut parts = Parts(body);
        let columns = parts.u16().ok_or(bad)?;
        let values = parts.0;
        for _ in 0..columns {
            parts.value().ok_or(bad)?;
        }
        if parts.0.is_empty() { Ok(Row { columns, values }) } else { Err(bad) }
    }

    /// Appends the body for a later [`Row::parse`].
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.columns.to_be_bytes());
        out.extend_from_slice(self.values);
    }

    /// The values; `None` is NULL.
    pub fn values(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut parts = Parts(self.values);
        (0..self.columns).map_while(move |_| parts.value())
    }

    /// The value of a column, from 0; the outer `None` means that there is no such column.
    pub fn get(&self, column: usize) -> Option<Option<&'a [u8]>> {
        self.values().nth(column)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDescription<'a> {
    columns: u16,
    fields: &'a [u8],
}

/// A column of a RowDescription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub type_oid: u32,
}

impl<'a> RowDescription<'a> {
    /// Reads the body of a RowDescription; checks all lengths once.
    pub fn parse(body: &'a [u8]) -> Result<Self, ProtocolError> {
        let bad = malformed(b'T', "descriptions of columns do not fit the message");
        let mut parts = Parts(body);
        let columns = parts.u16().ok_or(bad)?;
        let fields = parts.0;
        for _ in 0..columns {
            field(&mut parts).ok_or(bad)?;
        }
        if parts.0.is_empty() { Ok(RowDescription { columns, fields }) } else { Err(bad) }
    }

    pub fn column_count(&self) -> usize {
        usize::from(self.columns)
    }

    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let mut parts = Parts(self.fields);
        (0..self.columns).map_while(move |_| field(&mut parts))
    }
}

pub(crate) const fn malformed(kind: u8, what: &'static str) -> ProtocolError {
    ProtocolError::Malformed { kind, what }
}

fn field<'a>(parts: &mut Parts<'a>) -> Option<Field<'a>> {
    let (name, _table, _column) = (parts.cstr()?, parts.u32()?, parts.u16()?);
    let type_oid = parts.u32()?;
    let (_bytes, _modifier, _format) = (parts.u16()?, parts.u32()?, parts.u16()?);
    Some(Field { name, type_oid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_say_their_rows() {
        for (tag, rows) in [
            (&b"INSERT 0 5\0"[..], Some(5)),
            (b"SELECT 100\0", Some(100)),
            (b"UPDATE 0\0", Some(0)),
            (b"BEGIN\0", None),
            (b"CREATE TABLE\0", None),
            (b"COPY5\0", None),
            (b"\0", None),
        ] {
            assert_eq!(CommandTag::parse(tag).map(CommandTag::rows), Ok(rows));
        }
        assert!(CommandTag::parse(b"BEGIN").is_err());
        assert!(CommandTag::parse(b"").is_err());
    }

    #[test]
    fn rows_and_descriptions_are_read_and_refused() {
        let body = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
        let row = Row::parse(body).expect("a row");
        let values: Vec<_> = row.values().collect();
        assert_eq!(values, [Some(&b"ab"[..]), None, Some(&b""[..])]);
        assert_eq!((row.get(1), row.get(3)), (Some(None), None));
        let mut again = Vec::new();
        row.append_to(&mut again);
        assert_eq!(again, body);
        for body in [&b""[..], b"\0", b"\0\x01", b"\0\x01\0\0\0\x02a", b"\0\x01\xff\xff\xff\xfe", b"\0\x01\0\0\0\x01ab"]
        {
            assert!(Row::parse(body).is_err(), "{body:?}");
        }
        let body = b"\0\x01id\0\0\0\0\x07\0\x02\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
        let description = RowDescription::parse(body).expect("a description");
        let fields: Vec<_> = description.fields().collect();
        assert_eq!((fields.len(), description.column_count()), (1, 1));
        assert_eq!(RowDescription::parse(b"\0\0").map(|none| none.column_count()), Ok(0));
        assert_eq!((fields[0].name, fields[0].type_oid), (&b"id"[..], 23));
        assert!(RowDescription::parse(&body[..body.len() - 1]).is_err());
        assert!(RowDescription::parse(b"\0\x01name without end").is_err());
    }
}
