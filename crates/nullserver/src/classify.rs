//! Determines the answer to a statement from its text.

use crate::answers::{Answer, RowSet};
use crate::sql::{Words, is_blank};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning<'t> {
    Answer(Answer),
    /// `PREPARE name AS statement`, with the meaning of that statement.
    Prepare(&'t [u8], Box<Meaning<'t>>),
    Execute(&'t [u8]),
    /// `DEALLOCATE name`, or None for all; with the tag.
    Deallocate(Option<&'t [u8]>, &'static str),
    /// A statement whose first word is not a known keyword.
    Unknown(&'t [u8]),
}

/// Longer words are not keywords that matter here.
const LONGEST_KEYWORD_BYTES: usize = 16;

/// The meaning of one statement, by its first words; quoted text and the rest are ignored.
pub fn classify(sql: &[u8]) -> Meaning<'_> {
    let mut words = Words::of(sql);
    let Some(first) = words.next() else {
        return if is_blank(sql) { Meaning::Answer(Answer::Empty) } else { Meaning::Unknown(sql) };
    };
    let answer = match Keyword::of(first).as_bytes() {
        b"select" => select(words.rest()),
        b"update" => change_answer("UPDATE 1", RowSet::Updated, &words),
        b"insert" => change_answer("INSERT 0 1", RowSet::Inserted, &words),
        b"delete" => change_answer("DELETE 1", RowSet::Deleted, &words),
        b"merge" => change_answer("MERGE 1", RowSet::Merged, &words),
        b"begin" => Answer::Begin("BEGIN"),
        b"start" => Answer::Begin("START TRANSACTION"),
        b"commit" if next_is(&words, b"prepared") => Answer::Done("COMMIT PREPARED"),
        b"commit" | b"end" => Answer::Commit,
        b"rollback" if next_is(&words, b"prepared") => Answer::Done("ROLLBACK PREPARED"),
        b"rollback" if has(&words, b"to") => Answer::RollbackToSavepoint,
        b"rollback" | b"abort" => Answer::Rollback,
        b"copy" if has(&words, b"stdin") => Answer::CopyIn,
        b"copy" if has(&words, b"stdout") => Answer::CopyOut,
        b"copy" => Answer::Done("COPY 1"),
        b"prepare" => return prepare(words),
        b"execute" => {
            return words.next().map_or(Meaning::Unknown(first), Meaning::Execute);
        }
        b"deallocate" => return deallocate(first, words),
        b"discard" if next_is(&words, b"all") => {
            return Meaning::Deallocate(None, "DISCARD ALL");
        }
        b"with" | b"values" | b"table" => Answer::Rows(RowSet::Number),
        b"show" => Answer::Rows(RowSet::Setting),
        b"explain" => Answer::Rows(RowSet::Plan),
        b"fetch" => Answer::Rows(RowSet::Fetched),
        keyword => match command_tag(keyword, words) {
            Some(tag) => Answer::Done(tag),
            None => return Meaning::Unknown(first),
        },
    };
    Meaning::Answer(answer)
}

/// A word in lower case, without an allocation; empty if it is longer than any keyword.
struct Keyword {
    bytes: [u8; LONGEST_KEYWORD_BYTES],
    length: usize,
}

impl Keyword {
    #[inline]
    fn of(word: &[u8]) -> Self {
        let mut bytes = [0; LONGEST_KEYWORD_BYTES];
        let length = if word.len() <= bytes.len() { word.len() } else { 0 };
        bytes[..length].copy_from_slice(&word[..length]);
        bytes.make_ascii_lowercase();
        Self { bytes, length }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Beginnings of select lists whose answer is more than a number.
const SELECTS: [(&[u8], RowSet); 6] = [
    (b"/* pgdyno */ (pid operator(pg_catalog.=)", RowSet::OwnSession),
    (b"c from sbtest", RowSet::Characters),
    (b"distinct c from sbtest", RowSet::Characters),
    (b"count(*) from pgbench_branches", RowSet::Branches),
    (b"o.n, p.partstrat,", RowSet::Unpartitioned),
    (b"p.partstrat,", RowSet::NoPartitionedTable),
];

fn select(rest: &[u8]) -> Answer {
    let list = rest.trim_ascii_start();
    let begins = |text: &[u8]| list.len() >= text.len() && list[..text.len()].eq_ignore_ascii_case(text);
    let known = SELECTS.iter().find(|(text, _)| begins(text));
    Answer::Rows(known.map_or(RowSet::Number, |(_, set)| *set))
}

fn change_answer(tag: &'static str, returned: RowSet, words: &Words<'_>) -> Answer {
    if has(words, b"returning") { Answer::Rows(returned) } else { Answer::Changed(tag) }
}

fn prepare(mut words: Words<'_>) -> Meaning<'_> {
    match words.next() {
        Some(name) if !name.eq_ignore_ascii_case(b"transaction") => {
            // types in parentheses may come between the name and AS
            while let Some(word) = words.next() {
                if word.eq_ignore_ascii_case(b"as") {
                    return Meaning::Prepare(name, Box::new(optimizable(words.rest())));
                }
            }
            Meaning::Unknown(name)
        }
        Some(_) => Meaning::Answer(Answer::Done("PREPARE TRANSACTION")),
        None => Meaning::Unknown(b"PREPARE"),
    }
}

/// The meaning of a statement that can be prepared. Others are refused, so that no prepared statement contains another.
fn optimizable(sql: &[u8]) -> Meaning<'_> {
    let first = Words::of(sql).next().unwrap_or_default();
    match Keyword::of(first).as_bytes() {
        b"select" | b"insert" | b"update" | b"delete" | b"merge" | b"values" | b"with" | b"table" => classify(sql),
        _ => Meaning::Unknown(first),
    }
}

fn deallocate<'t>(first: &'t [u8], mut words: Words<'t>) -> Meaning<'t> {
    let name = match words.next() {
        Some(word) if word.eq_ignore_ascii_case(b"prepare") => words.next(),
        word => word,
    };
    match name {
        Some(all) if all.eq_ignore_ascii_case(b"all") => Meaning::Deallocate(None, "DEALLOCATE ALL"),
        Some(name) => Meaning::Deallocate(Some(name), "DEALLOCATE"),
        None => Meaning::Unknown(first),
    }
}

fn next_is(words: &Words<'_>, wanted: &[u8]) -> bool {
    let next = words.clone().next();
    next.is_some_and(|word| word.eq_ignore_ascii_case(wanted))
}

fn has(words: &Words<'_>, wanted: &[u8]) -> bool {
    words.clone().any(|word| word.eq_ignore_ascii_case(wanted))
}

/// The tag of a command that only has to be acknowledged.
fn command_tag(keyword: &[u8], words: Words<'_>) -> Option<&'static str> {
    Some(match keyword {
        b"create" => object_tag(words, 0),
        b"alter" => object_tag(words, 1),
        b"drop" => object_tag(words, 2),
        b"truncate" => "TRUNCATE TABLE",
        b"vacuum" => "VACUUM",
        b"analyze" | b"analyse" => "ANALYZE",
        b"set" => "SET",
        b"reset" => "RESET",
        b"lock" => "LOCK TABLE",
        b"savepoint" => "SAVEPOINT",
        b"release" => "RELEASE",
        b"declare" => "DECLARE CURSOR",
        b"close" => "CLOSE CURSOR",
        b"move" => "MOVE 1",
        b"do" => "DO",
        b"call" => "CALL",
        b"checkpoint" => "CHECKPOINT",
        b"cluster" => "CLUSTER",
        b"reindex" => "REINDEX",
        b"refresh" => "REFRESH MATERIALIZED VIEW",
        b"comment" => "COMMENT",
        b"grant" => "GRANT",
        b"revoke" => "REVOKE",
        b"discard" => "DISCARD",
        b"listen" => "LISTEN",
        b"notify" => "NOTIFY",
        b"unlisten" => "UNLISTEN",
        b"load" => "LOAD",
        _ => return None,
    })
}

/// Kinds of objects, with the tags of CREATE, ALTER and DROP.
const OBJECTS: [(&[u8], [&str; 3]); 16] = [
    (b"table", ["CREATE TABLE", "ALTER TABLE", "DROP TABLE"]),
    (b"index", ["CREATE INDEX", "ALTER INDEX", "DROP INDEX"]),
    (b"view", ["CREATE VIEW", "ALTER VIEW", "DROP VIEW"]),
    (b"sequence", ["CREATE SEQUENCE", "ALTER SEQUENCE", "DROP SEQUENCE"]),
    (b"schema", ["CREATE SCHEMA", "ALTER SCHEMA", "DROP SCHEMA"]),
    (b"database", ["CREATE DATABASE", "ALTER DATABASE", "DROP DATABASE"]),
    (b"extension", ["CREATE EXTENSION", "ALTER EXTENSION", "DROP EXTENSION"]),
    (b"function", ["CREATE FUNCTION", "ALTER FUNCTION", "DROP FUNCTION"]),
    (b"procedure", ["CREATE PROCEDURE", "ALTER PROCEDURE", "DROP PROCEDURE"]),
    (b"trigger", ["CREATE TRIGGER", "ALTER TRIGGER", "DROP TRIGGER"]),
    (b"type", ["CREATE TYPE", "ALTER TYPE", "DROP TYPE"]),
    (b"role", ["CREATE ROLE", "ALTER ROLE", "DROP ROLE"]),
    (b"user", ["CREATE ROLE", "ALTER ROLE", "DROP ROLE"]),
    (b"tablespace", ["CREATE TABLESPACE", "ALTER TABLESPACE", "DROP TABLESPACE"]),
    (b"statistics", ["CREATE STATISTICS", "ALTER STATISTICS", "DROP STATISTICS"]),
    (b"system", ["CREATE", "ALTER SYSTEM", "DROP"]),
];

/// The tag for `verb` 0, 1 or 2: CREATE, ALTER or DROP. OR REPLACE, UNLOGGED or UNIQUE may come before the kind.
fn object_tag(words: Words<'_>, verb: usize) -> &'static str {
    const MOST_WORDS_BEFORE: usize = 4;
    let kind = words.take(MOST_WORDS_BEFORE + 1).find_map(|word| {
        let named = |(kind, _): &&(&[u8], _)| word.eq_ignore_ascii_case(kind);
        OBJECTS.iter().find(named)
    });
    kind.map_or(["CREATE", "ALTER", "DROP"][verb], |(_, tags)| tags[verb])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(sql: &str) -> Answer {
        match classify(sql.as_bytes()) {
            Meaning::Answer(answer) => answer,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn selects_are_told_apart() {
        let cases = [
            ("SELECT abalance FROM pgbench_accounts WHERE aid = $1", RowSet::Number),
            ("select 1", RowSet::Number),
            ("select count(*) from pgbench_branches", RowSet::Branches),
            ("select o.n, p.partstrat, pg_catalog.count(i.inhparent) from x", RowSet::Unpartitioned),
            ("select p.partstrat, (select 1)", RowSet::NoPartitionedTable),
            ("SELECT c FROM sbtest1 WHERE id=$1", RowSet::Characters),
            ("SELECT DISTINCT c FROM sbtest7 WHERE id BETWEEN $1 AND $2 ORDER BY c", RowSet::Characters),
            ("SELECT SUM(k) FROM sbtest7 WHERE id BETWEEN $1 AND $2", RowSet::Number),
            ("with x as (select 1) select * from x", RowSet::Number),
            ("update t set a = 1 returning a", RowSet::Updated),
        ];
        for (sql, set) in cases {
            assert_eq!(answer(sql), Answer::Rows(set), "{sql}");
        }
    }

    #[test]
    fn commands_have_postgresqls_tags() {
        let cases = [
            ("UPDATE t SET a = 'returning'", Answer::Changed("UPDATE 1")),
            ("insert into t values (1)", Answer::Changed("INSERT 0 1")),
            ("vacuum analyze t", Answer::Done("VACUUM")),
            ("truncate pgbench_history", Answer::Done("TRUNCATE TABLE")),
            ("create unlogged table t(a int)", Answer::Done("CREATE TABLE")),
            ("create or replace function f() returns int", Answer::Done("CREATE FUNCTION")),
            ("alter table t add primary key (a)", Answer::Done("ALTER TABLE")),
            ("drop table if exists t", Answer::Done("DROP TABLE")),
            ("CREATE INDEX k_1 ON sbtest1(k)", Answer::Done("CREATE INDEX")),
            ("copy t from stdin with (freeze on)", Answer::CopyIn),
            ("COPY t TO STDOUT", Answer::CopyOut),
            ("copy t from '/tmp/stdin'", Answer::Done("COPY 1")),
            ("-- nothing", Answer::Empty),
        ];
        for (sql, expected) in cases {
            assert_eq!(answer(sql), expected, "{sql}");
        }
    }

    #[test]
    fn transactions_are_controlled() {
        let cases = [
            ("BEGIN", Answer::Begin("BEGIN")),
            ("start transaction read only", Answer::Begin("START TRANSACTION")),
            ("END", Answer::Commit),
            ("commit", Answer::Commit),
            ("rollback", Answer::Rollback),
            ("abort", Answer::Rollback),
            ("rollback to savepoint a", Answer::RollbackToSavepoint),
            ("commit prepared 'x'", Answer::Done("COMMIT PREPARED")),
            ("prepare transaction 'x'", Answer::Done("PREPARE TRANSACTION")),
        ];
        for (sql, expected) in cases {
            assert_eq!(answer(sql), expected, "{sql}");
        }
    }

    #[test]
    fn prepared_statements_of_sql_are_understood() {
        let inner = Meaning::Answer(Answer::Rows(RowSet::Characters));
        assert_eq!(
            classify(b"PREPARE p (int) AS SELECT c FROM sbtest1 WHERE id = $1"),
            Meaning::Prepare(b"p", Box::new(inner))
        );
        assert_eq!(classify(b"execute p(1)"), Meaning::Execute(b"p"));
        assert_eq!(classify(b"DEALLOCATE PREPARE p"), Meaning::Deallocate(Some(b"p"), "DEALLOCATE"));
        assert_eq!(classify(b"deallocate all"), Meaning::Deallocate(None, "DEALLOCATE ALL"));
    }

    #[test]
    fn what_is_no_statement_is_not_answered_as_one() {
        assert_eq!(classify(b"selekt 1"), Meaning::Unknown(b"selekt"));
        assert_eq!(
            classify(b"prepare p as prepare q as select 1"),
            Meaning::Prepare(b"p", Box::new(Meaning::Unknown(b"prepare")))
        );
        assert_eq!(classify(b"'quoted'"), Meaning::Unknown(b"'quoted'"));
    }
}
