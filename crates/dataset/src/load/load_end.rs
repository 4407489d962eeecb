//! Ends a load: writes the dataset stamp, and drops the ledger.

use serde_json::{Map, Value};

use super::Load;
use crate::dataset_stamp::{self, Stamp, StampedTable};
use crate::load_error::LoadError;
use crate::load_ledger;
use crate::load_watcher::Watcher;

impl<W: Watcher> Load<'_, W> {
    /// Writes the dataset stamp and drops the ledger, in one transaction.
    pub(super) fn finish(&mut self) -> Result<(), LoadError> {
        self.go_on()?;
        let Some(counts) = self.filled.take() else {
            // all rows were loaded before, and only later steps were missing
            return match self.ledger {
                Some(_) => Err(LoadError::NotResumable("the ledger has no rows".to_owned())),
                None => Ok(()),
            };
        };
        let stamp = self.stamp(&counts)?;
        // this commit is waited for as the user has configured it, and so are all earlier ones
        self.execute("set synchronous_commit to default")?;
        let permitted = dataset_stamp::is_permitted(self.session)?;
        self.execute("begin")?;
        if self.ledger.is_some() {
            self.execute(load_ledger::DROP)?;
        }
        if permitted {
            dataset_stamp::write(self.session, &stamp)?;
        } else {
            self.watcher.warning("the database gets no dataset stamp: only its owner may comment on it");
        }
        self.execute("commit").map(drop)
    }

    fn stamp(&mut self, counts: &[u64]) -> Result<Stamp, LoadError> {
        let mut tables = Vec::new();
        for (table, rows) in self.tables.iter().zip(counts) {
            let oid = dataset_stamp::read_oid(self.session, &table.name)?;
            tables.push(StampedTable { name: table.name.clone(), rows: *rows, oid: oid.unwrap_or_default() });
        }
        let now = "select to_char(now() at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
        let loaded_at = load_ledger::query_value(self.session, now)?;
        let wal_level = "select pg_catalog.current_setting('wal_level', true)";
        let wal_level = load_ledger::query_value(self.session, wal_level)?;
        let description = self.dataset.description();
        let options = description.options.into_iter();
        let options: Map<String, Value> = options.map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
        let mut stamp = Stamp {
            format: dataset_stamp::FORMAT,
            dataset: description.name.to_owned(),
            version: description.version,
            scale: description.scale,
            seed: description.seed,
            options,
            steps: self.order.steps.iter().map(|step| step.letter()).collect(),
            tables,
            checksum: String::new(),
            pgdyno: self.order.program_version.to_owned(),
            loaded_at: loaded_at.unwrap_or_default(),
            wal_level,
        };
        stamp.checksum = stamp.checksum_of_counts();
        Ok(stamp)
    }
}
