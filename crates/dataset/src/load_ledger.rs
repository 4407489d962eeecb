//! The ledger: which parts of a load are committed, stored in the server together with the rows.
//!
//! Schema `pgdyno_load` is created in the transaction that empties the tables, and dropped when the
//! load is complete. The entry of a chunk is written in the transaction of its rows, so that both
//! are committed or neither. Rows of unlogged tables do not survive a crash of the server, while
//! keys do: an unlogged table of the ledger shows whether there was one.

use std::collections::{BTreeMap, HashMap};

use pgdyno_connect::{Session, SessionError};
use pgdyno_wire::TxStatus;
use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, Description};
use crate::load_error::LoadError;
use crate::load_step::Step;

/// Version of the ledger's tables.
const FORMAT: u32 = 1;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SentAmount {
    pub rows: u64,
    pub bytes: u64,
}

/// What must be equal for a load to resume another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    ledger: u32,
    dataset: String,
    /// Version of the dataset's rows and tables.
    version: u32,
    options: BTreeMap<String, String>,
    steps: String,
    /// Rows in a chunk; None when relations are filled as wholes. A load that resumes another takes it over.
    pub chunk_rows: Option<u64>,
}

impl Identity {
    pub fn of(dataset: &dyn Dataset, steps: &[Step], chunk_rows: Option<u64>) -> Self {
        let Description { name, version, options, .. } = dataset.description();
        let options = options.into_iter();
        Self {
            ledger: FORMAT,
            dataset: name.to_owned(),
            version,
            options: options.map(|(name, value)| (name.to_owned(), value)).collect(),
            steps: steps.iter().map(|step| step.letter()).collect(),
            chunk_rows,
        }
    }

    /// Describes how `wanted` differs from the load that was begun; None if it does not.
    fn difference(&self, wanted: &Self) -> Option<String> {
        if self.ledger != wanted.ledger {
            return Some("was begun by another version of pgdrive".to_owned());
        }
        if self.dataset != wanted.dataset {
            return Some(format!("is one of dataset {}, not {}", self.dataset, wanted.dataset));
        }
        if self.version != wanted.version {
            let (begun, ours) = (self.version, wanted.version);
            return Some(format!(
                "is one of version {begun} of dataset {}, and this pgdrive makes version {ours}",
                self.dataset
            ));
        }
        let names = self.options.keys().chain(wanted.options.keys());
        for name in names {
            let value = |identity: &Self| match identity.options.get(name) {
                Some(value) => format!("--{name}={value}"),
                None => format!("no --{name}"),
            };
            if self.options.get(name) != wanted.options.get(name) {
                let (begun, ours) = (value(self), value(wanted));
                return Some(format!("was begun with {begun}, not with {ours}"));
            }
        }
        if self.steps != wanted.steps {
            let (begun, ours) = (&self.steps, &wanted.steps);
            return Some(format!("was begun with steps {begun}, not with {ours}"));
        }
        None
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    pub identity: Identity,
    /// Index of the step that makes rows.
    pub position: usize,
    done: HashMap<(usize, u64), SentAmount>,
    /// Whether the server stores the ledger; without the right to create a schema it is only in memory.
    kept: bool,
}

impl Ledger {
    /// A new ledger, which is only in memory so far.
    pub fn new(identity: Identity, position: usize) -> Self {
        Self { identity, position, done: HashMap::new(), kept: false }
    }

    /// Reads the ledger of the load that `wanted` resumes.
    pub fn read(session: &mut Session, wanted: &Identity) -> Result<Self, LoadError> {
        let refused = |why: String| Err(LoadError::NotResumable(why));
        if !exists(session)? {
            return refused("no load was broken off in this database".to_owned());
        }
        let begun = query(session, "select identity, position from pgdyno_load.load")?;
        let Some([Some(identity), Some(position)]) = begun.first().map(Vec::as_slice) else {
            return refused("the ledger in schema pgdyno_load is empty".to_owned());
        };
        let (Ok(identity), Ok(position)) = (serde_json::from_str(identity), position.parse()) else {
            return refused("the ledger in schema pgdyno_load cannot be read".to_owned());
        };
        let mut ledger = Self::new(identity, position);
        ledger.kept = true;
        if let Some(difference) = ledger.identity.difference(wanted) {
            return refused(format!("the one in this database {difference}"));
        }
        ledger.forget_lost_rows(session)?;
        for row in query(session, "select step, item, rows, bytes from pgdyno_load.done")? {
            let number = |column: usize| row.get(column)?.as_ref()?.parse::<u64>().ok();
            let numbers = (number(0), number(1), number(2), number(3));
            let (Some(step), Some(item), Some(rows), Some(bytes)) = numbers else {
                return refused("the ledger in schema pgdyno_load cannot be read".to_owned());
            };
            ledger.done.insert((step as usize, item), SentAmount { rows, bytes });
        }
        Ok(ledger)
    }

    /// Removes the entries of unlogged rows that a crash has removed, and of their vacuum, but not of keys.
    fn forget_lost_rows(&self, session: &mut Session) -> Result<(), LoadError> {
        let is_unlogged = "select pg_catalog.to_regclass('pgdyno_load.no_crash_since') is not null";
        if query(session, is_unlogged)? != [[Some("t".to_owned())]]
            || !query(session, "select from pgdyno_load.no_crash_since")?.is_empty()
        {
            return Ok(());
        }
        let keys = self.identity.steps.char_indices();
        let keys = keys
            .filter(|(_, letter)| [Step::PrimaryKeys, Step::ForeignKeys].iter().any(|step| step.letter() == *letter));
        let keys: Vec<String> = keys.map(|(step, _)| step.to_string()).collect();
        let sql = format!(
            "delete from pgdyno_load.done where step <> all ('{{{}}}'::int[]); \
             insert into pgdyno_load.no_crash_since values (true)",
            keys.join(",")
        );
        execute(session, &sql).map(drop)
    }

    /// Whether the session may create a ledger in the server.
    pub fn is_permitted(session: &mut Session) -> Result<bool, LoadError> {
        let sql = "select pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')";
        let rows = query(session, sql)?;
        Ok(rows == [[Some("t".to_owned())]])
    }

    /// Creates the ledger in the server, in the open transaction.
    pub fn keep(&mut self, session: &mut Session, unlogged: bool) -> Result<(), LoadError> {
        let identity = serde_json::to_string(&self.identity).unwrap_or_default();
        let identity = quoted(&identity);
        let position = self.position;
        execute(session, DROP)?;
        execute(session, "create schema pgdyno_load")?;
        execute(session, "create table pgdyno_load.load(identity text not null, position int not null)")?;
        execute(
            session,
            "create table pgdyno_load.done(step int, item bigint, rows bigint not null, \
             bytes bigint not null, primary key (step, item))",
        )?;
        if unlogged {
            let sql = "create unlogged table pgdyno_load.no_crash_since(is_so) as select true";
            execute(session, sql)?;
        }
        execute(session, &format!("insert into pgdyno_load.load values ({identity}, {position})"))?;
        self.kept = true;
        Ok(())
    }

    pub fn drop_old(session: &mut Session) -> Result<(), LoadError> {
        if exists(session)? {
            execute(session, DROP)?;
        }
        Ok(())
    }

    /// What was sent for an entry; None if it is not done.
    pub fn sent(&self, step: usize, item: u64) -> Option<SentAmount> {
        self.done.get(&(step, item)).copied()
    }

    pub fn sent_in(&self, step: usize) -> impl Iterator<Item = (u64, SentAmount)> {
        let lines = self.done.iter();
        lines.filter(move |((of, _), _)| *of == step).map(|((_, item), sent)| (*item, *sent))
    }

    /// Records that the transaction of an entry was committed.
    pub fn note(&mut self, step: usize, item: u64, sent: SentAmount) {
        self.done.insert((step, item), sent);
    }

    /// The writer of entries in the server.
    pub fn writer(&self) -> Writer {
        if self.kept { Writer::Server } else { Writer::Nobody }
    }
}

/// Drops the ledger, if there is one.
pub(crate) const DROP: &str = "set local client_min_messages = warning; drop schema if exists pgdyno_load cascade";

/// Writes entries, or does nothing if the server does not store the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Server,
    Nobody,
}

impl Writer {
    /// Begins a transaction and writes an entry. If another session has written that entry before,
    /// returns its contents, and there is no transaction. A transaction whose client was killed may
    /// still commit: then this waits for its end.
    pub fn begin(self, session: &mut Session, step: usize, item: u64) -> Result<Option<SentAmount>, LoadError> {
        if self == Self::Nobody {
            execute(session, "begin")?;
            return Ok(None);
        }
        let sql = format!("begin; insert into pgdyno_load.done values ({step}, {item}, 0, 0) on conflict do nothing");
        if execute(session, &sql)? == 1 {
            return Ok(None);
        }
        execute(session, "rollback")?;
        let sql = format!("select rows, bytes from pgdyno_load.done where step = {step} and item = {item}");
        let line = query(session, &sql)?.into_iter().next().unwrap_or_default();
        let number = |column: usize| line.get(column)?.as_ref()?.parse().ok();
        Ok(Some(SentAmount { rows: number(0).unwrap_or_default(), bytes: number(1).unwrap_or_default() }))
    }

    /// Completes the entry and commits.
    pub fn commit(self, session: &mut Session, step: usize, item: u64, sent: SentAmount) -> Result<(), LoadError> {
        let SentAmount { rows, bytes } = sent;
        let line = match self {
            Self::Nobody => String::new(),
            Self::Server => format!(
                "update pgdyno_load.done set rows = {rows}, bytes = {bytes} \
                 where step = {step} and item = {item}; "
            ),
        };
        execute(session, &format!("{line}commit")).map(drop)
    }
}

/// What happens to a statement if it or its session fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// It is rolled back: it runs in a transaction together with its entry in the ledger.
    Transaction,
    /// It can be repeated, and cannot run in a transaction.
    Nothing,
}

impl Undo {
    /// Runs the statement and writes its entry.
    pub fn carry_out(
        self, session: &mut Session, sql: &str, writer: Writer, position: usize, item: u64,
    ) -> Result<(), LoadError> {
        if self == Self::Nothing {
            execute(session, sql)?;
            if writer.begin(session, position, item)?.is_some() {
                return Ok(());
            }
            return writer.commit(session, position, item, SentAmount::default());
        }
        if writer == Writer::Nobody {
            return execute(session, sql).map(drop);
        }
        if writer.begin(session, position, item)?.is_some() {
            return Ok(());
        }
        let result = execute(session, sql).and_then(|_| writer.commit(session, position, item, SentAmount::default()));
        if result.is_err() {
            roll_back(session);
        }
        result
    }
}

fn exists(session: &mut Session) -> Result<bool, LoadError> {
    let sql = "select pg_catalog.to_regclass('pgdyno_load.load') is not null \
               and pg_catalog.to_regclass('pgdyno_load.done') is not null";
    Ok(query_value(session, sql)?.as_deref() == Some("t"))
}

/// A text as an SQL literal that is valid for all settings of the server.
pub(crate) fn quoted(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') { format!(" E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}

/// Ends a failed transaction, if there is one. If the session is lost, the server does that.
pub(crate) fn roll_back(session: &mut Session) {
    if session.transaction_status() != TxStatus::Idle {
        let _ = session.execute("rollback");
    }
}

pub(crate) fn execute(session: &mut Session, sql: &str) -> Result<u64, LoadError> {
    session.execute(sql).map_err(|error| ledger_error(sql, error))
}

pub(crate) fn query(session: &mut Session, sql: &str) -> Result<Vec<Vec<Option<String>>>, LoadError> {
    let results = session.simple_query(sql).map_err(|error| ledger_error(sql, error))?;
    Ok(results.into_iter().next_back().unwrap_or_default().rows)
}

/// The first column of the first row; None if that is NULL or there is none.
pub(crate) fn query_value(session: &mut Session, sql: &str) -> Result<Option<String>, LoadError> {
    Ok(query(session, sql)?.into_iter().next().and_then(|row| row.into_iter().next()?))
}

fn ledger_error(sql: &str, error: SessionError) -> LoadError {
    LoadError::Query { sql: sql.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgbench::Schema;

    #[test]
    fn what_differs_is_said_and_literals_hold_anything() {
        let begun = Identity::of(&Schema::plain(7, None), &Step::DEFAULT, Some(100));
        // it survives the server
        let text = serde_json::to_string(&begun).expect("JSON");
        assert_eq!(serde_json::from_str::<Identity>(&text).expect("JSON"), begun);
        // the chunk size is taken over, so it makes no difference
        let same = Identity::of(&Schema::plain(7, None), &Step::DEFAULT, None);
        assert_eq!(begun.difference(&same), None);
        let other = Identity::of(&Schema::plain(8, None), &Step::DEFAULT, None);
        assert_eq!(begun.difference(&other).as_deref(), Some("was begun with --scale=7, not with --scale=8"));
        let mut spaced = Schema::plain(7, None);
        spaced.tablespace = Some("fast".into());
        let other = Identity::of(&spaced, &Step::DEFAULT, None);
        let said = "was begun with no --tablespace, not with --tablespace=fast";
        assert_eq!(begun.difference(&other).as_deref(), Some(said));
        let other = Identity::of(&Schema::plain(7, None), &[Step::GenerateHere], None);
        let said = "was begun with steps dtgvp, not with g";
        assert_eq!(begun.difference(&other).as_deref(), Some(said));
        let mut newer = same.clone();
        newer.version += 1;
        assert!(begun.difference(&newer).is_some_and(|said| said.contains("version 1 of dataset pgbench")));
        newer.ledger += 1;
        assert!(begun.difference(&newer).is_some_and(|said| said.contains("another version of pgdrive")));
        // literals hold anything
        assert_eq!(quoted("it's"), "'it''s'");
        assert_eq!(quoted(r#"{"a":"\"'"}"#), r#" E'{"a":"\\"''"}'"#);
    }
}
