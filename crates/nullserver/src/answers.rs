//! The answers to statements, of which all connections share one copy.

use pgdyno_wire::TxStatus;

use crate::encode::{self, Column, Format, Type};

/// How a statement is answered. Its text decides that when it is parsed, never when it is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Empty,
    /// A command with this tag.
    Done(&'static str),
    /// A command with this tag that changes a row.
    Changed(&'static str),
    Rows(RowSet),
    /// A transaction block begins, with this tag.
    Begin(&'static str),
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
    pub fn ends_failure(self) -> bool {
        matches!(self, Self::Commit | Self::Rollback | Self::RollbackToSavepoint)
    }

    /// Whether it is part of a load, and so may be made to fail: transaction control and the
    /// queries that generators send before a load are not.
    pub fn is_load(self) -> bool {
        match self {
            Self::Changed(_) => true,
            Self::Rows(set) => set.is_load(),
            _ => false,
        }
    }
}

macro_rules! row_sets {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum RowSet {
            $($(#[$doc])* $name,)*
        }

        impl RowSet {
            /// All sets of rows, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

row_sets! {
    /// For SELECT: a row with one number.
    Number,
    /// For SELECT c FROM sbtest: a row with 120 characters, in sysbench's format.
    Characters,
    /// For count(*) of pgbench_branches: its number of rows.
    Branches,
    /// For pgbench's query about partitions: one row, which says that there are none.
    Unpartitioned,
    /// For a query of the catalog for partitioned tables: no row.
    NoPartitionedTable,
    /// For pgdrive's question whether the session is the server's own: it is.
    OwnSession,
    Setting,
    Plan,
    Fetched,
    Inserted,
    Updated,
    Deleted,
    Merged,
}

impl RowSet {
    fn is_load(self) -> bool {
        matches!(self, Self::Number | Self::Characters | Self::Inserted | Self::Updated | Self::Deleted | Self::Merged)
    }

    /// The columns, the row if there is one, and the command's tag.
    fn contents(self, scale: u32) -> (&'static [Column], Option<Vec<Option<String>>>, &'static str) {
        let one = |value: &str| Some(vec![Some(value.to_owned())]);
        match self {
            Self::Number => (NUMBER, one("1"), "SELECT 1"),
            Self::Characters => (CHARACTERS, one(&eleven_groups()), "SELECT 1"),
            Self::Branches => (COUNT, one(&scale.to_string()), "SELECT 1"),
            Self::Unpartitioned => {
                let row = vec![Some("1".into()), None, Some("0".into())];
                (PARTITIONS, Some(row), "SELECT 1")
            }
            Self::NoPartitionedTable => (&PARTITIONS[1..], None, "SELECT 0"),
            Self::OwnSession => (NUMBER, one("1"), "SELECT 1"),
            Self::Setting => (SETTING, one("on"), "SHOW"),
            Self::Plan => (PLAN, one("Result"), "EXPLAIN"),
            Self::Fetched => (NUMBER, one("1"), "FETCH 1"),
            Self::Inserted => (NUMBER, one("1"), "INSERT 0 1"),
            Self::Updated => (NUMBER, one("1"), "UPDATE 1"),
            Self::Deleted => (NUMBER, one("1"), "DELETE 1"),
            Self::Merged => (NUMBER, one("1"), "MERGE 1"),
        }
    }
}

const NUMBER: &[Column] = &[column("value", Type::Int4)];
const CHARACTERS: &[Column] = &[column("c", Type::Char120)];
const COUNT: &[Column] = &[column("count", Type::Int8)];
const PARTITIONS: &[Column] = &[column("n", Type::Int4), column("partstrat", Type::Char), column("count", Type::Int8)];
const SETTING: &[Column] = &[column("setting", Type::Text)];
const PLAN: &[Column] = &[column("QUERY PLAN", Type::Text)];

const fn column(name: &'static str, kind: Type) -> Column {
    Column { name, kind }
}

/// Ten groups of eleven digits with hyphens between, blank-padded to 120: the format of sysbench's column c.
fn eleven_groups() -> String {
    let groups: Vec<String> = (0..10).map(|group| format!("{group}").repeat(11)).collect();
    format!("{:120}", groups.join("-"))
}

#[derive(Debug)]
pub struct Answers {
    /// Indexed by the number of the row set, in text format.
    text: Vec<Canned>,
    /// Indexed by the number of the row set, in binary format.
    binary: Vec<Canned>,
    session_start: Vec<u8>,
    copy_out: Vec<u8>,
}

/// RowDescription, DataRow and CommandComplete, one after the other.
#[derive(Debug)]
struct Canned {
    bytes: Vec<u8>,
    /// Where the description ends.
    rows_at: usize,
}

impl Answers {
    /// The answers of a server whose pgbench_branches has `scale` rows.
    pub fn new(scale: u32) -> Self {
        let canned = |format| {
            let of_set = |set: &RowSet| {
                let (columns, row, tag) = set.contents(scale);
                let mut bytes = Vec::new();
                encode::row_description(&mut bytes, columns, format);
                let rows_at = bytes.len();
                if let Some(row) = row {
                    encode::data_row(&mut bytes, columns, &row, format);
                }
                encode::complete(&mut bytes, tag);
                Canned { bytes, rows_at }
            };
            RowSet::ALL.iter().map(of_set).collect()
        };
        Self {
            text: canned(Format::Text),
            binary: canned(Format::Binary),
            session_start: session_start(),
            copy_out: copy_out(),
        }
    }

    #[inline]
    pub(crate) fn description(&self, set: RowSet, format: Format) -> &[u8] {
        let canned = self.find_canned(set, format);
        &canned.bytes[..canned.rows_at]
    }

    /// The rows and the end of the command, without the RowDescription.
    #[inline]
    pub(crate) fn rows(&self, set: RowSet, format: Format) -> &[u8] {
        let canned = self.find_canned(set, format);
        &canned.bytes[canned.rows_at..]
    }

    #[inline]
    fn find_canned(&self, set: RowSet, format: Format) -> &Canned {
        match format {
            Format::Text => &self.text[set as usize],
            Format::Binary => &self.binary[set as usize],
        }
    }

    /// The RowDescription, the rows and the end of the command, as in the simple protocol.
    #[inline]
    pub fn described_rows(&self, set: RowSet) -> &[u8] {
        &self.text[set as usize].bytes
    }

    /// A complete COPY to the client, of one row.
    pub fn copy_out(&self) -> &[u8] {
        &self.copy_out
    }

    /// Appends the messages that start a session, for connection `number`.
    pub fn start_session(&self, number: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.session_start);
        encode::message(out, b'K', |out| {
            out.extend_from_slice(&number.to_be_bytes());
            // no statement runs long enough to be cancelled, so the key need not be secret
            out.extend_from_slice(&number.to_be_bytes());
        });
        encode::ready(out, TxStatus::Idle);
    }
}

/// AuthenticationOk and the parameters of the server.
fn session_start() -> Vec<u8> {
    let mut out = Vec::new();
    encode::message(&mut out, b'R', |out| out.extend_from_slice(&[0; 4]));
    for (name, value) in [
        ("server_version", "18.0 (pgnull)"),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("TimeZone", "UTC"),
    ] {
        encode::parameter_status(&mut out, name, value);
    }
    out
}

fn copy_out() -> Vec<u8> {
    let mut out = Vec::new();
    // in text format, with one text column
    encode::message(&mut out, b'H', |out| out.extend_from_slice(&[0, 0, 1, 0, 0]));
    encode::message(&mut out, b'd', |out| out.extend_from_slice(b"1\n"));
    encode::bare(&mut out, b'c');
    encode::complete(&mut out, "COPY 1");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_wire::{Capture, Exchange, Reply};

    /// Names of the columns, values of the row, and the tag.
    fn read(bytes: &[u8]) -> (Vec<String>, Vec<Option<String>>, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut columns, mut row, mut tag) = (Vec::new(), Vec::new(), String::new());
        let mut exchange = Exchange::new(Capture::Rows, true);
        let mut chunk = bytes;
        while let Some(reply) = exchange.next(&mut chunk).expect("well-formed messages") {
            match reply {
                Reply::RowDescription(described) => {
                    columns = described.fields().map(|field| text(field.name)).collect();
                }
                Reply::Row(values) => row = values.values().map(|value| value.map(text)).collect(),
                Reply::Complete(complete) => tag = complete.to_text(),
                other => panic!("unexpected {other:?}"),
            }
        }
        (columns, row, tag)
    }

    #[test]
    fn every_row_has_as_many_values_as_columns() {
        let answers = Answers::new(10);
        for &set in RowSet::ALL {
            let (columns, row, tag) = read(answers.described_rows(set));
            assert!(!columns.is_empty(), "{set:?}");
            assert!(row.is_empty() == tag.ends_with(" 0"), "{set:?}: {tag}");
            assert!(row.is_empty() || row.len() == columns.len(), "{set:?}");
            let halves = [answers.description(set, Format::Text), answers.rows(set, Format::Text)].concat();
            assert_eq!(halves, answers.described_rows(set), "{set:?}");
        }
    }

    #[test]
    fn the_scale_and_sysbenchs_column_are_as_promised() {
        let answers = Answers::new(42);
        let (columns, row, _) = read(answers.described_rows(RowSet::Branches));
        assert_eq!((columns, row), (vec!["count".into()], vec![Some("42".into())]));
        let (_, row, _) = read(answers.described_rows(RowSet::Characters));
        assert_eq!(row[0].as_ref().map(String::len), Some(120));
    }
}
