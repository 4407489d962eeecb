//! The dataset stamp, which a complete load leaves in the database's comment for later loads and runs.
//!
//! It comes after the user's own text, if there is any, between `[pgdyno-dataset ` and `]`. The
//! contract is `docs/reference/dataset-stamp.md`.

use std::fmt::Write as _;

use pgdyno_connect::Session;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::load_error::LoadError;
use crate::load_ledger::{execute, query_value, quoted};

pub const FORMAT: u32 = 1;

const BEGIN: &str = "[pgdyno-dataset ";
const END: &str = "]";

/// What a database contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    pub format: u32,
    pub dataset: String,
    pub version: u32,
    /// Size, in the dataset's own unit.
    pub scale: u64,
    /// Seed of the random values; None if there are none.
    pub seed: Option<u64>,
    /// All options that determined the contents, by their names on the command line.
    pub options: Map<String, Value>,
    /// Letters of the load's steps.
    pub steps: String,
    pub tables: Vec<StampedTable>,
    /// Protects the counts; see [`Stamp::checksum_of_counts`].
    pub checksum: String,
    /// Version of the program that loaded the database.
    pub pgdyno: String,
    /// When the load ended, in UTC as ISO 8601.
    pub loaded_at: String,
    /// The server's `wal_level` during the load; None in stamps of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_level: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampedTable {
    pub name: String,
    /// Rows when the load ended.
    pub rows: u64,
    /// OID of the table: another OID means that the table was dropped and created again.
    pub oid: u32,
}

/// What a database's comment says about its dataset.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    Unstamped,
    /// It has this stamp, which is consistent.
    Stamped(Box<Stamp>),
    /// It has a stamp that cannot be trusted; the text says why.
    Refused(String),
}

impl Stamp {
    /// SHA-256, in hexadecimal, over lines of `dataset NAME version scale` and, for each table in
    /// its place, `NAME rows`: it detects stamps that were truncated or edited.
    pub fn checksum_of_counts(&self) -> String {
        let mut lines = format!("{} {} {}\n", self.dataset, self.version, self.scale);
        for table in &self.tables {
            // writing to a string cannot fail
            let _ = writeln!(lines, "{} {}", table.name, table.rows);
        }
        Sha256::digest(lines).iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    pub fn parse(comment: &str) -> Reading {
        let Some((_, inside, _)) = split(comment) else {
            return Reading::Unstamped;
        };
        let document: Value = match serde_json::from_str(inside) {
            Ok(document) => document,
            Err(error) => return Reading::Refused(format!("it is not JSON: {error}")),
        };
        // later formats may have other fields, so the format is checked first
        match document.get("format").and_then(Value::as_u64) {
            Some(format) if format > u64::from(FORMAT) => {
                return Reading::Refused(format!("it is of format {format}, later than {FORMAT}"));
            }
            _ => {}
        }
        match serde_json::from_value::<Self>(document) {
            Ok(stamp) if stamp.checksum == stamp.checksum_of_counts() => Reading::Stamped(Box::new(stamp)),
            Ok(_) => Reading::Refused("its checksum does not fit its counts".to_owned()),
            Err(error) => Reading::Refused(format!("it is not a stamp: {error}")),
        }
    }

    /// Reads the stamp of the session's database, and compares it with the tables that exist.
    ///
    /// # Errors
    /// The server refused a query.
    pub fn read(session: &mut Session) -> Result<Reading, LoadError> {
        let comment = read_comment(session)?;
        let stamp = match Self::parse(comment.as_deref().unwrap_or_default()) {
            Reading::Stamped(stamp) => stamp,
            other => return Ok(other),
        };
        for table in &stamp.tables {
            if read_oid(session, &table.name)? != Some(table.oid) {
                let why = format!("{} is not the table that was loaded", table.name);
                return Ok(Reading::Refused(why));
            }
        }
        Ok(Reading::Stamped(stamp))
    }
}

/// A comment with `stamp` in place of its stamp, or after the user's own text, which stays.
pub(crate) fn merged(comment: &str, stamp: &Stamp) -> String {
    let json = serde_json::to_string(stamp).unwrap_or_default();
    let ours = format!("{BEGIN}{json}{END}");
    match split(comment) {
        Some((before, _, after)) => format!("{before}{ours}{after}"),
        None if comment.is_empty() => ours,
        None => format!("{comment}\n{ours}"),
    }
}

/// The comment without its stamp; None if it has none.
fn without_stamp(comment: &str) -> Option<String> {
    let (before, _, after) = split(comment)?;
    let before = before.strip_suffix('\n').unwrap_or(before);
    Some(format!("{before}{after}"))
}

/// The text before, within and after the stamp.
fn split(comment: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = comment.split_once(BEGIN)?;
    // JSON may contain the delimiter, so the stamp ends where the value does
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde::de::IgnoredAny>();
    let inside_bytes = match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        _ => rest.find(END)?,
    };
    let (inside, after) = rest.split_at_checked(inside_bytes)?;
    Some((before, inside, after.strip_prefix(END).unwrap_or(after)))
}

/// Whether the session may write the comment of its database.
pub(crate) fn is_permitted(session: &mut Session) -> Result<bool, LoadError> {
    let sql = "select pg_catalog.pg_has_role(datdba, 'USAGE') from pg_catalog.pg_database \
               where datname = pg_catalog.current_database()";
    Ok(query_value(session, sql)?.as_deref() == Some("t"))
}

/// Removes the stamp, which is about to become wrong. Returns false if there is one and the session may not remove it.
pub(crate) fn remove(session: &mut Session) -> Result<bool, LoadError> {
    let Some(comment) = read_comment(session)?.as_deref().and_then(without_stamp) else {
        return Ok(true);
    };
    if !is_permitted(session)? {
        return Ok(false);
    }
    write_comment(session, &comment)?;
    Ok(true)
}

pub(crate) fn write(session: &mut Session, stamp: &Stamp) -> Result<(), LoadError> {
    let comment = read_comment(session)?.unwrap_or_default();
    write_comment(session, &merged(&comment, stamp))
}

/// The OID of a table; None if there is no table with this name.
pub(crate) fn read_oid(session: &mut Session, table: &str) -> Result<Option<u32>, LoadError> {
    let sql = format!("select pg_catalog.to_regclass({})::pg_catalog.oid", quoted(table));
    Ok(query_value(session, &sql)?.and_then(|oid| oid.parse().ok()))
}

fn read_comment(session: &mut Session) -> Result<Option<String>, LoadError> {
    let sql = "select pg_catalog.shobj_description(oid, 'pg_database') from pg_catalog.pg_database \
               where datname = pg_catalog.current_database()";
    query_value(session, sql)
}

fn write_comment(session: &mut Session, comment: &str) -> Result<(), LoadError> {
    let sql = "select pg_catalog.quote_ident(pg_catalog.current_database())";
    let name = query_value(session, sql)?.unwrap_or_default();
    let text = if comment.is_empty() { "null".to_owned() } else { quoted(comment) };
    execute(session, &format!("comment on database {name} is {text}")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        let mut stamp = Stamp {
            format: FORMAT,
            dataset: "pgbench".into(),
            version: 1,
            scale: 3,
            seed: None,
            options: Map::from_iter([("tablespace".to_owned(), Value::from("a]b'\\\""))]),
            steps: "dtgvp".into(),
            tables: vec![StampedTable { name: "pgbench_branches".into(), rows: 3, oid: 16_400 }],
            checksum: String::new(),
            pgdyno: "0.1.0".into(),
            loaded_at: "2026-11-21T03:00:00Z".into(),
            wal_level: Some("minimal".into()),
        };
        stamp.checksum = stamp.checksum_of_counts();
        stamp
    }

    #[test]
    fn a_stamp_is_found_in_what_is_written_and_replaced_by_a_second() {
        for own in ["", "mine", "two\nlines", "ends with ]", "[pgdyno is fine"] {
            let comment = merged(own, &stamp());
            assert!(comment.starts_with(own));
            assert_eq!(Stamp::parse(&comment), Reading::Stamped(Box::new(stamp())));
            assert_eq!(without_stamp(&comment).as_deref(), Some(own));
            assert_eq!(Stamp::parse(own), Reading::Unstamped);
            assert_eq!(without_stamp(own), None);
        }
        // a second stamp replaces the first
        let mut second = stamp();
        second.scale = 9;
        second.checksum = second.checksum_of_counts();
        let comment = format!("{}\nsaid later", merged("said before", &stamp()));
        let comment = merged(&comment, &second);
        assert_eq!(Stamp::parse(&comment), Reading::Stamped(Box::new(second)));
        assert_eq!(without_stamp(&comment).as_deref(), Some("said before\nsaid later"));
    }

    #[test]
    fn stamps_that_cannot_be_trusted_are_refused_and_old_ones_are_not() {
        let whole = merged("", &stamp());
        for (text, why) in [
            (whole.replace("\"rows\":3", "\"rows\":4"), "checksum"),
            (whole.replace("\"format\":1", "\"format\":2"), "later than 1"),
            (whole.replace("\"scale\":3,", ""), "not a stamp"),
            (whole.replace("{\"format\"", "{format"), "not JSON"),
        ] {
            assert_ne!(text, whole);
            let Reading::Refused(said) = Stamp::parse(&text) else { panic!("{text}") };
            assert!(said.contains(why), "{said}");
        }
        // stamps of earlier versions do not say the wal level
        let old = merged("", &stamp()).replace(",\"wal_level\":\"minimal\"", "");
        let Reading::Stamped(read) = Stamp::parse(&old) else { panic!("{old}") };
        assert_eq!(read.wal_level, None);
        assert_eq!(merged("", &read), old);
        // the checksum is that of the documented lines
        // computed by: printf 'pgbench 1 3\npgbench_branches 3\n' | sha256sum
        let sum = stamp().checksum_of_counts();
        assert_eq!(sum.len(), 64);
        assert_eq!(sum, "4a2d7bbf6df7a47cfdc095ec4a4649dc75608f437edb975cbab55b3fbd8a486d");
    }
}
