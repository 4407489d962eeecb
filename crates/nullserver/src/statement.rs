//! Determines from a statement's text how it is answered.

use pgdyno_wire::SqlState;

use crate::answers::{Answer, RowSet};
use crate::refusal::{Refusal, refuse};
use crate::sql::{Tokens, is_blank};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning<'t> {
    Answer(Answer),
    /// `PREPARE name AS statement`, with the answer to that statement.
    Prepare(&'t [u8], Answer),
    Execute(&'t [u8]),
    /// `DEALLOCATE name`, or None for all.
    Deallocate(Option<&'t [u8]>),
}

/// Beginnings of select lists whose answer is more than a number, with the command's tag.
const SELECTS: [(&[u8], RowSet, &str); 6] = [
    (b"/* pgdyno */ (pid operator(pg_catalog.=)", RowSet::Fact, "SELECT 1"),
    (b"c from sbtest", RowSet::Characters, "SELECT 1"),
    (b"distinct c from sbtest", RowSet::Characters, "SELECT 1"),
    (b"count(*) from pgbench_branches", RowSet::Branches, "SELECT 1"),
    (b"o.n, p.partstrat,", RowSet::Unpartitioned, "SELECT 1"),
    (b"p.partstrat,", RowSet::NoPartitionedTable, "SELECT 0"),
];

/// Commands that only have to be acknowledged.
const COMMANDS: [&str; 33] = [
    "ALTER", "ANALYSE", "ANALYZE", "CALL", "CHECKPOINT", "CLOSE", "CLUSTER", "COMMENT", "COPY", "CREATE", "DECLARE",
    "DISCARD", "DO", "DROP", "GRANT", "IMPORT", "LISTEN", "LOAD", "LOCK", "MOVE", "NOTIFY", "REASSIGN", "REFRESH",
    "REINDEX", "RELEASE", "RESET", "REVOKE", "SAVEPOINT", "SECURITY", "SET", "TRUNCATE", "UNLISTEN", "VACUUM",
];

/// The meaning of one statement, by its first words; quoted text and the rest are ignored.
///
/// # Errors
/// It does not begin with the name of a command.
pub fn classify(sql: &[u8]) -> Result<Meaning<'_>, Refusal> {
    let mut tokens = Tokens::of(sql);
    let Some(first) = tokens.next_word() else {
        return if is_blank(sql) { Ok(Meaning::Answer(Answer::Empty)) } else { syntax_error(sql) };
    };
    let change = |tag| match tokens.has("returning") {
        true => Answer::Rows(RowSet::Number, tag),
        false => Answer::Changed(tag),
    };
    if first.eq_ignore_ascii_case(b"select") {
        return Ok(Meaning::Answer(select(tokens.rest)));
    }
    Ok(Meaning::Answer(match first.to_ascii_uppercase().as_slice() {
        b"WITH" | b"VALUES" | b"TABLE" => Answer::Rows(RowSet::Number, "SELECT 1"),
        b"UPDATE" => change("UPDATE 1"),
        b"INSERT" => change("INSERT 0 1"),
        b"DELETE" => change("DELETE 1"),
        b"MERGE" => change("MERGE 1"),
        b"BEGIN" | b"START" => Answer::Begin,
        b"COMMIT" | b"END" => Answer::Commit,
        b"ROLLBACK" if tokens.has("to") => Answer::RollbackToSavepoint,
        b"ROLLBACK" | b"ABORT" => Answer::Rollback,
        b"COPY" if tokens.has("stdin") => Answer::CopyIn,
        b"COPY" if tokens.has("stdout") => Answer::CopyOut,
        b"SHOW" => Answer::Rows(RowSet::Fact, "SHOW"),
        b"EXPLAIN" => Answer::Rows(RowSet::Fact, "EXPLAIN"),
        b"FETCH" => Answer::Rows(RowSet::Fact, "FETCH 1"),
        b"PREPARE" => return prepare(tokens),
        b"EXECUTE" => return tokens.next_word().map_or_else(|| syntax_error(first), |name| Ok(Meaning::Execute(name))),
        b"DEALLOCATE" => return deallocate(tokens),
        b"DISCARD" if tokens.has("all") => return Ok(Meaning::Deallocate(None)),
        word => match COMMANDS.iter().find(|command| command.as_bytes() == word) {
            Some(command) => Answer::Done(command),
            None => return syntax_error(first),
        },
    }))
}

fn select(rest: &[u8]) -> Answer {
    let list = rest.trim_ascii_start();
    let begins = |text: &[u8]| list.len() >= text.len() && list[..text.len()].eq_ignore_ascii_case(text);
    let known = SELECTS.iter().find(|(text, ..)| begins(text));
    known.map_or(Answer::Rows(RowSet::Number, "SELECT 1"), |(_, set, tag)| Answer::Rows(*set, tag))
}

fn prepare(mut tokens: Tokens<'_>) -> Result<Meaning<'_>, Refusal> {
    let name = tokens.next_word().unwrap_or_default();
    if name.eq_ignore_ascii_case(b"transaction") {
        // it ends the session's transaction block
        return Ok(Meaning::Answer(Answer::Commit));
    }
    // types in parentheses may come between the name and AS
    while let Some(word) = tokens.next_word() {
        if word.eq_ignore_ascii_case(b"as") {
            return match classify(tokens.rest)? {
                Meaning::Answer(answer @ (Answer::Rows(..) | Answer::Changed(_))) => Ok(Meaning::Prepare(name, answer)),
                _ => syntax_error(tokens.rest),
            };
        }
    }
    syntax_error(b"PREPARE")
}

fn deallocate(mut tokens: Tokens<'_>) -> Result<Meaning<'_>, Refusal> {
    let mut name = tokens.next_word();
    if name.is_some_and(|name| name.eq_ignore_ascii_case(b"prepare")) {
        name = tokens.next_word();
    }
    match name {
        None => syntax_error(b"DEALLOCATE"),
        Some(all) if all.eq_ignore_ascii_case(b"all") => Ok(Meaning::Deallocate(None)),
        Some(name) => Ok(Meaning::Deallocate(Some(name))),
    }
}

fn syntax_error<T>(near: &[u8]) -> Result<T, Refusal> {
    let near = String::from_utf8_lossy(&near[..near.len().min(64)]);
    refuse(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{near}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(sql: &str) -> Answer {
        match classify(sql.as_bytes()) {
            Ok(Meaning::Answer(answer)) => answer,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn statements_are_told_apart() {
        for (sql, set, tag) in [
            ("SELECT abalance FROM pgbench_accounts WHERE aid = $1", RowSet::Number, "SELECT 1"),
            ("select count(*) from pgbench_branches", RowSet::Branches, "SELECT 1"),
            ("select o.n, p.partstrat, pg_catalog.count(i.inhparent) from x", RowSet::Unpartitioned, "SELECT 1"),
            ("select p.partstrat, (select 1)", RowSet::NoPartitionedTable, "SELECT 0"),
            ("SELECT c FROM sbtest1 WHERE id=$1", RowSet::Characters, "SELECT 1"),
            ("SELECT DISTINCT c FROM sbtest7 WHERE id BETWEEN $1 AND $2 ORDER BY c", RowSet::Characters, "SELECT 1"),
            ("SELECT SUM(k) FROM sbtest7 WHERE id BETWEEN $1 AND $2", RowSet::Number, "SELECT 1"),
            ("with x as (select 1) select * from x", RowSet::Number, "SELECT 1"),
            ("update t set a = 1 returning a", RowSet::Number, "UPDATE 1"),
            ("show all", RowSet::Fact, "SHOW"),
        ] {
            assert_eq!(answer(sql), Answer::Rows(set, tag), "{sql}");
        }
        for (sql, expected) in [
            ("UPDATE t SET a = 'returning'", Answer::Changed("UPDATE 1")),
            ("insert into t values (1)", Answer::Changed("INSERT 0 1")),
            ("create unlogged table t(a int)", Answer::Done("CREATE")),
            ("copy t from stdin with (freeze on)", Answer::CopyIn),
            ("COPY t TO STDOUT", Answer::CopyOut),
            ("copy t from '/tmp/stdin'", Answer::Done("COPY")),
            ("-- nothing", Answer::Empty),
            ("start transaction read only", Answer::Begin),
            ("END", Answer::Commit),
            ("commit", Answer::Commit),
            ("prepare transaction 'x'", Answer::Commit),
            ("abort", Answer::Rollback),
            ("rollback to savepoint a", Answer::RollbackToSavepoint),
        ] {
            assert_eq!(answer(sql), expected, "{sql}");
        }
        let inner = Answer::Rows(RowSet::Characters, "SELECT 1");
        for (sql, expected) in [
            ("PREPARE p (int) AS SELECT c FROM sbtest1 WHERE id = $1", Meaning::Prepare(b"p", inner)),
            ("execute p(1)", Meaning::Execute(b"p")),
            ("DEALLOCATE PREPARE p", Meaning::Deallocate(Some(b"p"))),
            ("deallocate all", Meaning::Deallocate(None)),
            ("discard all", Meaning::Deallocate(None)),
        ] {
            assert_eq!(classify(sql.as_bytes()), Ok(expected), "{sql}");
        }
        for sql in ["selekt 1", "prepare p as prepare q as select 1", "prepare p", "execute", "deallocate", "'quoted'"]
        {
            assert!(matches!(classify(sql.as_bytes()), Err(Refusal::Error(SqlState::SYNTAX_ERROR, _))), "{sql}");
        }
    }
}
