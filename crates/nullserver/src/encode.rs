//! Encodes the server's messages.

use pgdyno_wire::{SqlState, TxStatus};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub name: &'static str,
    pub kind: Type,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Type {
    Char,
    Int4,
    Int8,
    Text,
    /// `character(120)`
    Char120,
}

impl Type {
    /// OID, size of a value in bytes (negative if variable), and type modifier.
    fn description(self) -> (u32, i16, i32) {
        match self {
            Self::Char => (18, 1, -1),
            Self::Int4 => (23, 4, -1),
            Self::Int8 => (20, 8, -1),
            Self::Text => (25, -1, -1),
            // the modifier includes the four bytes of the length
            Self::Char120 => (1042, -1, 124),
        }
    }

    /// The binary form of a value whose text is `text`, which is one of our own.
    fn binary(self, text: &str) -> Vec<u8> {
        match self {
            Self::Int4 => text.parse::<i32>().unwrap_or_default().to_be_bytes().into(),
            Self::Int8 => text.parse::<i64>().unwrap_or_default().to_be_bytes().into(),
            Self::Char | Self::Text | Self::Char120 => text.into(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Binary,
}

impl Format {
    /// The common format of a Bind request's codes, 2 bytes each, where none means text; None if they differ.
    pub(crate) fn of_all(codes: &[u8]) -> Option<Self> {
        let mut codes = codes.chunks_exact(2);
        let first = codes.next().unwrap_or(&[0, 0]);
        if codes.any(|code| code != first) {
            return None;
        }
        match first {
            [0, 0] => Some(Self::Text),
            [0, 1] => Some(Self::Binary),
            _ => None,
        }
    }

    fn code(self) -> u16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// Appends type and length, and lets `body` append the rest.
pub(crate) fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    body(out);
    // every message here is shorter than a received one, whose length is limited
    let length = (out.len() - start - 1) as u32;
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

/// Appends a message without a body.
#[inline]
pub(crate) fn bare(out: &mut Vec<u8>, kind: u8) {
    out.extend_from_slice(&[kind, 0, 0, 0, 4]);
}

/// Appends text with a terminating zero byte.
pub(crate) fn cstr(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(0);
}

#[inline]
pub(crate) fn complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| cstr(out, tag.as_bytes()));
}

#[inline]
pub(crate) fn ready(out: &mut Vec<u8>, status: TxStatus) {
    let status = match status {
        TxStatus::Idle => b'I',
        TxStatus::InBlock => b'T',
        TxStatus::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}

pub(crate) fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        cstr(out, name.as_bytes());
        cstr(out, value.as_bytes());
    });
}

/// Appends an ErrorResponse; `severity` is ERROR, or FATAL before the connection ends.
pub(crate) fn error(out: &mut Vec<u8>, severity: &str, code: SqlState, text: &str) {
    message(out, b'E', |out| {
        for (field, value) in [(b'S', severity), (b'V', severity), (b'C', code.as_str()), (b'M', text)] {
            out.push(field);
            cstr(out, value.as_bytes());
        }
        out.push(0);
    });
}

pub(crate) fn row_description(out: &mut Vec<u8>, columns: &[Column], format: Format) {
    message(out, b'T', |out| {
        out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
        for column in columns {
            let (oid, bytes, modifier) = column.kind.description();
            cstr(out, column.name.as_bytes());
            // the columns belong to no table
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&oid.to_be_bytes());
            out.extend_from_slice(&bytes.to_be_bytes());
            out.extend_from_slice(&modifier.to_be_bytes());
            out.extend_from_slice(&format.code().to_be_bytes());
        }
    });
}

/// Appends a DataRow of values as text; `None` is NULL.
pub(crate) fn data_row(out: &mut Vec<u8>, columns: &[Column], values: &[Option<String>], format: Format) {
    message(out, b'D', |out| {
        out.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for (column, value) in columns.iter().zip(values) {
            let Some(text) = value else {
                out.extend_from_slice(&(-1i32).to_be_bytes());
                continue;
            };
            let bytes = match format {
                Format::Text => text.clone().into_bytes(),
                Format::Binary => column.kind.binary(text),
            };
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(&bytes);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = b"before".to_vec();
        encode(&mut out);
        out.split_off(6)
    }

    const INT4: Column = Column { name: "n", kind: Type::Int4 };

    #[test]
    fn formats_are_one_for_all_results() {
        assert_eq!(Format::of_all(&[]), Some(Format::Text));
        assert_eq!(Format::of_all(&[0, 1, 0, 1]), Some(Format::Binary));
        assert_eq!(Format::of_all(&[0, 1, 0, 0]), None);
        assert_eq!(Format::of_all(&[0, 2]), None);
    }

    #[test]
    fn messages_have_the_documented_bytes() {
        let cases: [(Vec<u8>, &[u8]); 7] = [
            (encoded(|o| bare(o, b'1')), b"1\0\0\0\x04"),
            (encoded(|o| complete(o, "UPDATE 1")), b"C\0\0\0\x0dUPDATE 1\0"),
            (encoded(|o| ready(o, TxStatus::Failed)), b"Z\0\0\0\x05E"),
            (encoded(|o| parameter_status(o, "a", "b")), b"S\0\0\0\x08a\0b\0"),
            (
                encoded(|o| data_row(o, &[INT4; 2], &[Some("7".into()), None], Format::Text)),
                b"D\0\0\0\x0f\0\x02\0\0\0\x017\xff\xff\xff\xff",
            ),
            (
                encoded(|o| data_row(o, &[INT4], &[Some("7".into())], Format::Binary)),
                b"D\0\0\0\x0e\0\x01\0\0\0\x04\0\0\0\x07",
            ),
            (
                encoded(|o| error(o, "ERROR", SqlState::SYNTAX_ERROR, "no")),
                b"E\0\0\0\x1eSERROR\0VERROR\0C42601\0Mno\0\0",
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(bytes, expected);
        }
    }

    #[test]
    fn a_column_has_eighteen_bytes_beside_its_name() {
        assert_eq!(
            encoded(|o| row_description(o, &[INT4], Format::Text)),
            b"T\0\0\0\x1a\0\x01n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0"
        );
    }
}
