//! A load: its steps, one after the other, over one session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgdyno_connect::{Session, SessionError};

use crate::load_error::LoadError;
use crate::pgbench::{self, RowWriter, Schema, Table};
use crate::step::Step;

/// Rows between two looks at the clock and the stop flag; divides what pgbench reports by.
const BATCH_ROWS: u64 = 10_000;
/// The first version whose COPY FREEZE marks pages as all-visible: only then is it worth having.
const FREEZE_FROM_VERSION: i32 = 140_000;
/// The SQLSTATE of a statement that was cancelled.
const QUERY_CANCELED: &str = "57014";

/// How far a table is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// The table.
    pub table: Table,
    /// Rows sent.
    pub rows: u64,
    /// Rows that it will have.
    pub rows_total: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Since the table was begun.
    pub elapsed: Duration,
}

/// Is told how the load goes.
pub trait Watcher {
    /// A step begins.
    fn step(&mut self, step: Step);
    /// So many partitions will be created.
    fn partitions(&mut self, count: u32);
    /// Rows were sent; comes at least whenever a multiple of 100,000 is reached, and at the end of
    /// each table.
    fn rows(&mut self, rows: &Rows);
    /// The server sent a notice, of this text.
    fn notice(&mut self, text: &str);
}

/// Carries out `steps` and says how long each took.
///
/// When `stop` is set, the load ends before its next statement or row; a statement that runs is
/// not cancelled from here.
///
/// # Errors
/// At the first statement that fails; what was committed stays. Rows are committed all or none.
pub fn initialize(
    session: &mut Session,
    schema: &Schema,
    steps: &[Step],
    stop: &AtomicBool,
    watcher: &mut impl Watcher,
) -> Result<Vec<(Step, Duration)>, LoadError> {
    let mut load = Load {
        session,
        schema,
        stop,
        watcher,
    };
    let timed = |step: &Step| {
        let started = Instant::now();
        load.step(*step)?;
        Ok((*step, started.elapsed()))
    };
    steps.iter().map(timed).collect()
}

struct Load<'a, W> {
    session: &'a mut Session,
    schema: &'a Schema,
    stop: &'a AtomicBool,
    watcher: &'a mut W,
}

impl<W: Watcher> Load<'_, W> {
    fn step(&mut self, step: Step) -> Result<(), LoadError> {
        self.watcher.step(step);
        match step {
            Step::Drop => self.execute(pgbench::DROP),
            Step::CreateTables => self.create_tables(),
            Step::GenerateHere => self.generate(|load, table| load.copy(table)),
            Step::GenerateInServer => {
                let scale = self.schema.scale;
                self.generate(|load, table| load.execute(&table.insert_select(scale)))
            }
            Step::Vacuum => self.execute_all(pgbench::VACUUM),
            Step::PrimaryKeys => self.execute_all(self.schema.primary_keys()),
            Step::ForeignKeys => self.execute_all(pgbench::FOREIGN_KEYS),
        }
    }

    fn create_tables(&mut self) -> Result<(), LoadError> {
        let schema = self.schema;
        self.execute_all(schema.create_tables())?;
        if let Some(partitions) = schema.partitions {
            self.watcher.partitions(partitions.count);
        }
        self.execute_all(schema.create_partitions())
    }

    /// Empties and fills all tables in one transaction: then rows can be written frozen, the server
    /// can do without the log where it may, and nobody ever sees a part of them.
    fn generate(
        &mut self,
        fill: impl Fn(&mut Self, Table) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        self.execute("begin")?;
        let result = self
            .execute(pgbench::TRUNCATE)
            .and_then(|()| Table::ALL.iter().try_for_each(|table| fill(self, *table)))
            .and_then(|()| self.execute("commit"));
        if result.is_err() {
            // so that locks are gone when the caller hears of it; the first error is what matters
            let _ = self.session.execute("rollback");
        }
        result
    }

    fn execute_all<S: AsRef<str>>(
        &mut self,
        statements: impl IntoIterator<Item = S>,
    ) -> Result<(), LoadError> {
        statements
            .into_iter()
            .try_for_each(|sql| self.execute(sql.as_ref()))
    }

    fn execute(&mut self, sql: &str) -> Result<(), LoadError> {
        self.go_on()?;
        let result = self.session.execute(sql);
        self.tell_notices();
        result.map(drop).map_err(|error| {
            self.failed(error, |error| LoadError::Query {
                sql: sql.to_owned(),
                error,
            })
        })
    }

    /// Sends a table's rows.
    fn copy(&mut self, table: Table) -> Result<(), LoadError> {
        let freeze = if self.can_freeze(table)? {
            " with (freeze on)"
        } else {
            ""
        };
        self.go_on()?;
        let sql = format!("copy {} from stdin{freeze}", table.name());
        let result = self.send_rows(&sql, table);
        self.tell_notices();
        result
    }

    fn send_rows(&mut self, sql: &str, table: Table) -> Result<(), LoadError> {
        let stop = self.stop;
        let mut copy = match self.session.copy_in(sql) {
            Ok(copy) => copy,
            Err(error) => return Err(self.failed(error, LoadError::CopyStart)),
        };
        let mut writer = RowWriter::new(table);
        let mut progress = Rows {
            table,
            rows: 0,
            rows_total: table.rows(self.schema.scale),
            bytes: 0,
            elapsed: Duration::ZERO,
        };
        let started = Instant::now();
        while progress.rows < progress.rows_total {
            if stop.load(Ordering::Relaxed) {
                // whether or not the server hears of it, nothing is committed
                let _ = copy.abort("canceled by user");
                return Err(LoadError::Interrupted);
            }
            let batch = BATCH_ROWS.min(progress.rows_total - progress.rows);
            let sent = copy.write_with(|buffer| {
                let before = buffer.len();
                writer.append(batch, buffer);
                progress.bytes += (buffer.len() - before) as u64;
            });
            if let Err(error) = sent {
                return Err(self.failed(error, LoadError::CopyRows));
            }
            progress.rows += batch;
            progress.elapsed = started.elapsed();
            self.watcher.rows(&progress);
        }
        let finished = copy.finish();
        finished
            .map(drop)
            .map_err(|error| self.failed(error, LoadError::CopyRows))
    }

    /// Whether COPY may freeze the table's rows, and it helps: an ordinary table, not a partitioned
    /// one, which an earlier load may have made.
    fn can_freeze(&mut self, table: Table) -> Result<bool, LoadError> {
        if self.session.server_version_num < FREEZE_FROM_VERSION {
            return Ok(false);
        }
        self.go_on()?;
        let sql = format!(
            "SELECT relkind FROM pg_catalog.pg_class WHERE oid='{}'::pg_catalog.regclass",
            table.name()
        );
        match self.session.query_one_value(&sql) {
            Ok(kind) => Ok(kind.as_deref() == Some("r")),
            Err(error) => Err(self.failed(error, |error| LoadError::Query { sql, error })),
        }
    }

    fn go_on(&self) -> Result<(), LoadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        Ok(())
    }

    /// Why a statement failed: because it was cancelled on our own request, or as `otherwise` says.
    fn failed(
        &self,
        error: SessionError,
        otherwise: impl FnOnce(SessionError) -> LoadError,
    ) -> LoadError {
        let canceled = error
            .sqlstate()
            .is_some_and(|state| state.to_string() == QUERY_CANCELED);
        if canceled && self.stop.load(Ordering::Relaxed) {
            LoadError::Interrupted
        } else {
            otherwise(error)
        }
    }

    fn tell_notices(&mut self) {
        for notice in self.session.take_notices() {
            self.watcher.notice(&notice.to_string());
        }
    }
}
