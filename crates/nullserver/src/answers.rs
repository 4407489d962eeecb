//! The answers to statements, of which all sessions share one copy.

use crate::encode::{bare, complete, cstr, message};

/// How a statement is answered. Its text decides that when it is parsed, never when it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Empty,
    /// A command with this tag.
    Done(&'static str),
    /// A command with this tag that changes a row.
    Changed(&'static str),
    /// Rows, and the tag.
    Rows(RowSet, &'static str),
    Begin,
    /// A transaction block ends with a commit, if it has not failed.
    Commit,
    Rollback,
    /// A transaction block is rolled back to a savepoint.
    RollbackToSavepoint,
    CopyIn,
    CopyOut,
}

impl Answer {
    /// Whether it is allowed in a failed transaction block.
    pub fn is_allowed_in_failed(self) -> bool {
        matches!(self, Self::Empty | Self::Commit | Self::Rollback | Self::RollbackToSavepoint)
    }

    /// Whether it is part of a load, and so may be made to fail: transaction control, utility commands and the
    /// queries that generators send before a load are not.
    pub fn is_load(self) -> bool {
        matches!(self, Self::Changed(_) | Self::Rows(RowSet::Number | RowSet::Characters, _))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowSet {
    /// A row with the number 1.
    Number,
    /// The same for what is no load: SHOW, EXPLAIN, FETCH, and pgdrive's question whether the session is the server's
    /// own.
    Fact,
    /// For SELECT c FROM sbtest: a row with 120 characters, in sysbench's format.
    Characters,
    /// For count(*) of pgbench_branches: its number of rows.
    Branches,
    /// For pgbench's query about partitions: one row, which says that there are none.
    Unpartitioned,
    /// For a query of the catalog for partitioned tables: no row.
    NoPartitionedTable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Binary,
}

impl Format {
    /// The common format of a Bind request's codes, 2 bytes each, where none means text; None if they differ.
    pub fn of_all(codes: &[u8]) -> Option<Self> {
        let mut codes = codes.chunks_exact(2);
        let first = codes.next().unwrap_or(&[0, 0]);
        match first {
            _ if codes.any(|code| code != first) => None,
            [0, 0] => Some(Self::Text),
            [0, 1] => Some(Self::Binary),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Type {
    Int4,
    Int8,
    Text,
}

impl Type {
    /// OID, and the size of a value in bytes, negative if it varies.
    fn description(self) -> (u32, i16) {
        match self {
            Self::Int4 => (23, 4),
            Self::Int8 => (20, 8),
            Self::Text => (25, -1),
        }
    }

    fn encode(self, text: &str, format: Format) -> Vec<u8> {
        let number = text.parse::<i64>().unwrap_or_default();
        match (self, format) {
            (Self::Int4, Format::Binary) => (number as i32).to_be_bytes().into(),
            (Self::Int8, Format::Binary) => number.to_be_bytes().into(),
            _ => text.into(),
        }
    }
}

struct Column {
    name: &'static str,
    kind: Type,
    /// None is NULL.
    value: Option<String>,
}

impl RowSet {
    const ALL: [Self; 6] =
        [Self::Number, Self::Fact, Self::Characters, Self::Branches, Self::Unpartitioned, Self::NoPartitionedTable];

    fn columns(self, scale: u32) -> Vec<Column> {
        let column = |name, kind, value: &str| Column { name, kind, value: Some(value.to_owned()) };
        let null = |name, kind| Column { name, kind, value: None };
        match self {
            Self::Number | Self::Fact => vec![column("value", Type::Int4, "1")],
            Self::Characters => vec![column("c", Type::Text, &eleven_groups())],
            Self::Branches => vec![column("count", Type::Int8, &scale.to_string())],
            Self::Unpartitioned => {
                vec![column("n", Type::Int4, "1"), null("partstrat", Type::Text), column("count", Type::Int8, "0")]
            }
            Self::NoPartitionedTable => vec![null("partstrat", Type::Text), null("count", Type::Int8)],
        }
    }

    fn encode(self, scale: u32, format: Format) -> Encoded {
        let columns = self.columns(scale);
        let count = (columns.len() as u16).to_be_bytes();
        let mut encoded = Encoded::default();
        message(&mut encoded.description, b'T', |out| {
            out.extend_from_slice(&count);
            for Column { name, kind, .. } in &columns {
                let (oid, bytes) = kind.description();
                cstr(out, name);
                // the columns belong to no table
                out.extend_from_slice(&[0; 6]);
                out.extend_from_slice(&oid.to_be_bytes());
                out.extend_from_slice(&bytes.to_be_bytes());
                // no type modifier
                out.extend_from_slice(&[0xff; 4]);
                out.extend_from_slice(&(format as u16).to_be_bytes());
            }
        });
        if self != Self::NoPartitionedTable {
            message(&mut encoded.row, b'D', |out| {
                out.extend_from_slice(&count);
                for Column { kind, value, .. } in &columns {
                    let value = value.as_ref().map(|text| kind.encode(text, format));
                    out.extend_from_slice(&value.as_ref().map_or(-1, |value| value.len() as i32).to_be_bytes());
                    out.extend(value.unwrap_or_default());
                }
            });
        }
        encoded
    }
}

/// Ten groups of eleven digits with hyphens between, blank-padded to 120: the format of sysbench's column c.
fn eleven_groups() -> String {
    let groups: Vec<String> = (0..10).map(|group| format!("{group}").repeat(11)).collect();
    format!("{:120}", groups.join("-"))
}

/// RowDescription and DataRow.
#[derive(Debug, Default)]
pub struct Encoded {
    pub description: Vec<u8>,
    /// Empty without a row.
    pub row: Vec<u8>,
}

#[derive(Debug)]
pub struct Answers {
    /// By row set and format.
    rows: [[Encoded; 2]; RowSet::ALL.len()],
    /// AuthenticationOk and the parameters of the server.
    pub session_start: Vec<u8>,
    /// A complete COPY to the client, of one row.
    pub copy_out: Vec<u8>,
}

impl Answers {
    /// The answers of a server whose pgbench_branches has `scale` rows.
    pub fn new(scale: u32) -> Self {
        let formats = [Format::Text, Format::Binary];
        let mut session_start = Vec::new();
        message(&mut session_start, b'R', |out| out.extend_from_slice(&[0; 4]));
        for (name, value) in [
            ("server_version", "18.0 (pgnull)"),
            ("server_encoding", "UTF8"),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("integer_datetimes", "on"),
            ("standard_conforming_strings", "on"),
            ("TimeZone", "UTC"),
        ] {
            message(&mut session_start, b'S', |out| {
                cstr(out, name);
                cstr(out, value);
            });
        }
        let mut copy_out = Vec::new();
        // in text format, with one text column
        message(&mut copy_out, b'H', |out| out.extend_from_slice(&[0, 0, 1, 0, 0]));
        message(&mut copy_out, b'd', |out| out.extend_from_slice(b"1\n"));
        bare(&mut copy_out, b'c');
        complete(&mut copy_out, "COPY 1");
        Self { rows: RowSet::ALL.map(|set| formats.map(|format| set.encode(scale, format))), session_start, copy_out }
    }

    #[inline]
    pub fn rows(&self, set: RowSet, format: Format) -> &Encoded {
        &self.rows[set as usize][format as usize]
    }
}
