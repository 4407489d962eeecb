//! Ends a load: writes the dataset stamp, and drops the ledger.

use serde_json::{Map, Value};

use super::Load;
use crate::load_error::LoadError;
use crate::load_ledger;
use crate::load_watcher::Watcher;
use crate::mark::{self, Mark, MarkedTable};

impl<W: Watcher> Load<'_, W> {
    /// Writes the dataset stamp and drops the ledger, in one transaction.
    pub(super) fn finish(&mut self) -> Result<(), LoadError> {
        self.go_on()?;
        let mark = match self.filled.take() {
            Some(counts) => Some(self.mark(&counts)?),
            // all rows were loaded before, and only later steps were missing
            None => match &self.ledger {
                Some(_) => {
                    return Err(LoadError::NotResumable("the ledger has no rows".to_owned()));
                }
                None => None,
            },
        };
        if mark.is_none() {
            return Ok(());
        }
        // this commit is waited for as the user has configured it, and so are all earlier ones
        self.execute("set synchronous_commit to default")?;
        let permitted = mark::is_permitted(self.session)?;
        self.execute("begin")?;
        if self.ledger.is_some() {
            self.execute(load_ledger::DROP)?;
        }
        match mark {
            Some(mark) if permitted => mark::write(self.session, &mark)?,
            _ => self
                .watcher
                .warning("the database is not marked as loaded: only its owner may comment on it"),
        }
        self.execute("commit").map(drop)
    }

    fn mark(&mut self, counts: &[u64]) -> Result<Mark, LoadError> {
        let mut tables = Vec::new();
        for (table, rows) in self.tables.iter().zip(counts) {
            let oid = mark::read_oid(self.session, &table.name)?;
            tables.push(MarkedTable {
                name: table.name.clone(),
                rows: *rows,
                oid: oid.unwrap_or_default(),
            });
        }
        let now = "select to_char(now() at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
        let loaded_at = load_ledger::query(self.session, now)?
            .pop()
            .and_then(|mut row| row.pop()?);
        let wal_level = "select pg_catalog.current_setting('wal_level', true)";
        let mut wal_level = load_ledger::query(self.session, wal_level)?;
        let options = self.dataset.options().into_iter();
        let options: Map<String, Value> = options
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        let mut mark = Mark {
            format: mark::FORMAT,
            dataset: self.dataset.name().to_owned(),
            version: self.dataset.version(),
            scale: self.dataset.scale(),
            seed: self.dataset.seed(),
            options,
            steps: self.order.steps.iter().map(|step| step.letter()).collect(),
            tables,
            checksum: String::new(),
            pgdyno: self.order.program_version.to_owned(),
            loaded_at: loaded_at.unwrap_or_default(),
            wal_level: wal_level.pop().and_then(|mut row| row.pop()?),
        };
        mark.checksum = mark.checksum_of_counts();
        Ok(mark)
    }
}
