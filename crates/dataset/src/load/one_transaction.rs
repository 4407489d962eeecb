//! Loads all rows in one transaction over one session, as pgbench does.

use std::time::{Duration, Instant};

use super::Load;
use crate::load_error::LoadError;
use crate::load_ledger;
use crate::load_watcher::{Rows, Watcher};
use crate::table_filling::{FREEZE_FROM_VERSION, copy_rows};

impl<W: Watcher> Load<'_, W> {
    /// Empties and fills all tables in one transaction: then rows can be written frozen, the server
    /// may skip the WAL where that is allowed, and no other session ever sees a part of them.
    pub(super) fn generate_at_once(
        &mut self, fill: impl Fn(&mut Self, usize) -> Result<u64, LoadError>,
    ) -> Result<(), LoadError> {
        self.execute("begin")?;
        let mut counts = Vec::new();
        let truncate = self.dataset.truncate();
        let mut all = || {
            self.execute(&truncate)?;
            for table in 0..self.tables.len() {
                counts.push(fill(self, table)?);
            }
            self.execute_all(self.dataset.after_rows())?;
            self.execute("commit")
        };
        let result = all();
        if result.is_err() {
            // so that locks are released before the caller gets the error; the first error is the one that matters
            load_ledger::roll_back(self.session);
        }
        self.filled = Some(counts);
        result.map(drop)
    }

    /// Sends a table's rows, as pgbench does.
    pub(super) fn copy(&mut self, table: usize) -> Result<u64, LoadError> {
        let freeze = if self.can_freeze(table)? { " with (freeze on)" } else { "" };
        self.go_on()?;
        let sql = format!("copy {} from stdin{freeze}", self.tables[table].name);
        let result = self.send_rows(&sql, table);
        self.tell_notices();
        result
    }

    fn send_rows(&mut self, sql: &str, place: usize) -> Result<u64, LoadError> {
        let table = &self.tables[place];
        let mut progress = Rows {
            table: Some(&table.name),
            rows: 0,
            rows_total: table.rows(),
            bytes: 0,
            rows_before: 0,
            elapsed: Duration::ZERO,
        };
        let started = Instant::now();
        let copied = copy_rows(self.session, sql, self.dataset.rows(place, 0..table.units), self.stop, |made| {
            progress.rows += made.rows;
            progress.bytes += made.bytes;
            progress.elapsed = started.elapsed();
            self.watcher.rows(&progress);
        })?;
        self.sent.rows += progress.rows;
        self.sent.bytes += progress.bytes;
        Ok(copied)
    }

    /// Whether COPY may freeze the table's rows, and that is useful: it is for an ordinary table,
    /// but not for a partitioned one, which an earlier load may have created.
    fn can_freeze(&mut self, table: usize) -> Result<bool, LoadError> {
        if self.session.server_version_num < FREEZE_FROM_VERSION {
            return Ok(false);
        }
        self.go_on()?;
        let sql = format!(
            "SELECT relkind FROM pg_catalog.pg_class WHERE oid='{}'::pg_catalog.regclass",
            self.tables[table].name
        );
        match self.session.query_one_value(&sql) {
            Ok(kind) => Ok(kind.as_deref() == Some("r")),
            Err(error) => Err(LoadError::Query { sql, error }),
        }
    }
}
