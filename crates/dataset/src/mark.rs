//! The mark: what a whole load leaves in the database's comment, for those who come later.
//!
//! It stands behind the user's own text, if there is one, between `[pgdyno-dataset ` and `]`. The
//! contract is `docs/reference/dataset-stamp.md`.

use std::fmt::Write as _;

use pgdyno_connect::Session;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::load_error::LoadError;
use crate::load_ledger::{execute, query, quoted};

/// Version of the mark.
pub const FORMAT: u32 = 1;

const BEGIN: &str = "[pgdyno-dataset ";
const END: &str = "]";

/// What a database holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Version of the mark.
    pub format: u32,
    /// Name of the dataset.
    pub dataset: String,
    /// Version of the dataset's rows and tables.
    pub version: u32,
    /// In the dataset's own unit.
    pub scale: u64,
    /// What random values came from; None when there are none.
    pub seed: Option<u64>,
    /// All options that decide what was made, by their names on the command line.
    pub options: Map<String, Value>,
    /// Letters of the steps.
    pub steps: String,
    /// What was filled.
    pub tables: Vec<MarkedTable>,
    /// See [`Mark::checksum_of_counts`].
    pub checksum: String,
    /// Version of the program that loaded it.
    pub pgdyno: String,
    /// When the load ended: UTC, ISO 8601.
    pub loaded_at: String,
    /// The server's `wal_level` while it was loaded; None in marks of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_level: Option<String>,
}

/// A table that was filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkedTable {
    /// Its name.
    pub name: String,
    /// Rows when the load ended.
    pub rows: u64,
    /// The server's number of the table: another one means that it was dropped and made again.
    pub oid: u32,
}

/// What a database's comment says about datasets.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// There is no mark.
    Unmarked,
    /// This one, and it is sound in itself.
    Marked(Box<Mark>),
    /// One that is not to be trusted, and why.
    Refused(String),
}

impl Mark {
    /// SHA-256, in hexadecimal, over lines of `dataset NAME version scale` and, for each table in
    /// its place, `NAME rows`: it tells a mark that was cut or edited from a sound one.
    #[must_use]
    pub fn checksum_of_counts(&self) -> String {
        let mut lines = format!("{} {} {}\n", self.dataset, self.version, self.scale);
        for table in &self.tables {
            // writing to a string cannot fail
            let _ = writeln!(lines, "{} {}", table.name, table.rows);
        }
        Sha256::digest(lines)
            .iter()
            .fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
    }

    /// Reads a database's comment.
    #[must_use]
    pub fn parse(comment: &str) -> Reading {
        let Some((_, inside, _)) = split(comment) else {
            return Reading::Unmarked;
        };
        let document: Value = match serde_json::from_str(inside) {
            Ok(document) => document,
            Err(error) => return Reading::Refused(format!("it is not JSON: {error}")),
        };
        // later formats may have other fields, so that this is asked first
        match document.get("format").and_then(Value::as_u64) {
            Some(format) if format > u64::from(FORMAT) => {
                return Reading::Refused(format!("it is of format {format}, later than {FORMAT}"));
            }
            _ => {}
        }
        match serde_json::from_value::<Self>(document) {
            Ok(mark) if mark.checksum == mark.checksum_of_counts() => {
                Reading::Marked(Box::new(mark))
            }
            Ok(_) => Reading::Refused("its checksum does not fit its counts".to_owned()),
            Err(error) => Reading::Refused(format!("it is not a mark: {error}")),
        }
    }

    /// Reads the mark of the session's database, and compares it with the tables that are there.
    ///
    /// # Errors
    /// The server refuses to say.
    pub fn read(session: &mut Session) -> Result<Reading, LoadError> {
        let comment = read_comment(session)?;
        let mark = match Self::parse(comment.as_deref().unwrap_or_default()) {
            Reading::Marked(mark) => mark,
            other => return Ok(other),
        };
        for table in &mark.tables {
            if read_oid(session, &table.name)? != Some(table.oid) {
                let why = format!("{} is not the table that was loaded", table.name);
                return Ok(Reading::Refused(why));
            }
        }
        Ok(Reading::Marked(mark))
    }
}

/// A comment with `mark` in place of the one that it had, or behind it; the user's own text stays.
#[must_use]
pub(crate) fn merged(comment: &str, mark: &Mark) -> String {
    let json = serde_json::to_string(mark).unwrap_or_default();
    let ours = format!("{BEGIN}{json}{END}");
    match split(comment) {
        Some((before, _, after)) => format!("{before}{ours}{after}"),
        None if comment.is_empty() => ours,
        None => format!("{comment}\n{ours}"),
    }
}

/// A comment without a mark; None when it has none.
fn removed(comment: &str) -> Option<String> {
    let (before, _, after) = split(comment)?;
    let before = before.strip_suffix('\n').unwrap_or(before);
    Some(format!("{before}{after}"))
}

/// What stands before, in and after the mark.
fn split(comment: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = comment.split_once(BEGIN)?;
    // JSON may hold the delimiter: the mark ends where the value does
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
    Ok(query(session, sql)? == [[Some("t".to_owned())]])
}

/// Takes the mark away: what it says is about to be no longer true. False when there is one and
/// the session may not.
pub(crate) fn remove(session: &mut Session) -> Result<bool, LoadError> {
    let Some(comment) = read_comment(session)?.as_deref().and_then(removed) else {
        return Ok(true);
    };
    if !is_permitted(session)? {
        return Ok(false);
    }
    write_comment(session, &comment)?;
    Ok(true)
}

/// Writes the mark.
pub(crate) fn write(session: &mut Session, mark: &Mark) -> Result<(), LoadError> {
    let comment = read_comment(session)?.unwrap_or_default();
    write_comment(session, &merged(&comment, mark))
}

/// The server's number of a table; None when there is none of this name.
pub(crate) fn read_oid(session: &mut Session, table: &str) -> Result<Option<u32>, LoadError> {
    let sql = format!(
        "select pg_catalog.to_regclass({})::pg_catalog.oid",
        quoted(table)
    );
    let rows = query(session, &sql)?;
    let oid = rows.first().and_then(|row| row.first()?.as_ref());
    Ok(oid.and_then(|oid| oid.parse().ok()))
}

fn read_comment(session: &mut Session) -> Result<Option<String>, LoadError> {
    let sql = "select pg_catalog.shobj_description(oid, 'pg_database') from pg_catalog.pg_database \
               where datname = pg_catalog.current_database()";
    let rows = query(session, sql)?;
    Ok(rows
        .into_iter()
        .next()
        .and_then(|row| row.into_iter().next()?))
}

fn write_comment(session: &mut Session, comment: &str) -> Result<(), LoadError> {
    let sql = "select pg_catalog.quote_ident(pg_catalog.current_database())";
    let rows = query(session, sql)?;
    let name = rows
        .into_iter()
        .next()
        .and_then(|row| row.into_iter().next()?);
    let name = name.unwrap_or_default();
    let text = if comment.is_empty() {
        "null".to_owned()
    } else {
        quoted(comment)
    };
    execute(session, &format!("comment on database {name} is {text}")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        let mut mark = Mark {
            format: FORMAT,
            dataset: "pgbench".into(),
            version: 1,
            scale: 3,
            seed: None,
            options: Map::from_iter([("tablespace".to_owned(), Value::from("a]b'\\\""))]),
            steps: "dtgvp".into(),
            tables: vec![MarkedTable {
                name: "pgbench_branches".into(),
                rows: 3,
                oid: 16_400,
            }],
            checksum: String::new(),
            pgdyno: "0.1.0".into(),
            loaded_at: "2026-11-21T03:00:00Z".into(),
            wal_level: Some("minimal".into()),
        };
        mark.checksum = mark.checksum_of_counts();
        mark
    }

    #[test]
    fn a_mark_is_found_in_what_is_written() {
        for own in ["", "mine", "two\nlines", "ends with ]", "[pgdyno is fine"] {
            let comment = merged(own, &mark());
            assert!(comment.starts_with(own));
            assert_eq!(Mark::parse(&comment), Reading::Marked(Box::new(mark())));
            assert_eq!(removed(&comment).as_deref(), Some(own));
            assert_eq!(Mark::parse(own), Reading::Unmarked);
            assert_eq!(removed(own), None);
        }
    }

    #[test]
    fn a_second_mark_replaces_the_first() {
        let mut second = mark();
        second.scale = 9;
        second.checksum = second.checksum_of_counts();
        let comment = format!("{}\nsaid later", merged("said before", &mark()));
        let comment = merged(&comment, &second);
        assert_eq!(Mark::parse(&comment), Reading::Marked(Box::new(second)));
        assert_eq!(
            removed(&comment).as_deref(),
            Some("said before\nsaid later")
        );
    }

    #[test]
    fn marks_that_cannot_be_trusted_are_refused() {
        let whole = merged("", &mark());
        for (text, why) in [
            (whole.replace("\"rows\":3", "\"rows\":4"), "checksum"),
            (
                whole.replace("\"format\":1", "\"format\":2"),
                "later than 1",
            ),
            (whole.replace("\"scale\":3,", ""), "not a mark"),
            (whole.replace("{\"format\"", "{format"), "not JSON"),
        ] {
            assert_ne!(text, whole);
            let Reading::Refused(said) = Mark::parse(&text) else {
                panic!("{text}");
            };
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn marks_of_earlier_versions_do_not_say_the_wal_level() {
        let old = merged("", &mark()).replace(",\"wal_level\":\"minimal\"", "");
        let Reading::Marked(read) = Mark::parse(&old) else {
            panic!("{old}");
        };
        assert_eq!(read.wal_level, None);
        assert_eq!(merged("", &read), old);
    }

    #[test]
    fn the_checksum_is_that_of_the_documented_lines() {
        // printf 'pgbench 1 3\npgbench_branches 3\n' | sha256sum
        let sum = mark().checksum_of_counts();
        assert_eq!(sum.len(), 64);
        assert_eq!(
            sum,
            "4a2d7bbf6df7a47cfdc095ec4a4649dc75608f437edb975cbab55b3fbd8a486d"
        );
    }
}
