//! A load: its steps, one after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgdyno_connect::{Session, SessionError};
use serde_json::{Map, Value};

use crate::chunk::{Chunk, cut};
use crate::dataset::{Dataset, Manner, Stages, Table};
use crate::fill::{FREEZE_FROM_VERSION, Filling};
use crate::job::at_once;
use crate::ledger::{self, Identity, Ledger, Sent, Writer};
use crate::load_error::LoadError;
use crate::mark::{self, Mark, MarkedTable};
use crate::order::{Beginning, Chunks, Connect, Order, Pieces, Way};
use crate::step::Step;
use crate::undo::Undo;
use crate::watcher::{Rows, Watcher};

/// Rows between two looks at the clock and the stop flag; divides what pgbench reports by.
const BATCH_ROWS: u64 = 10_000;
/// The SQLSTATE of a statement that was cancelled.
const QUERY_CANCELED: &str = "57014";

/// Carries out the steps of `order` and says how long each took; those that an earlier load had
/// completed are left out.
///
/// When `stop` is set, the load ends before its next statement or row; a statement that runs is
/// not cancelled from here.
///
/// # Errors
/// At the first statement that fails; what was committed stays.
pub fn load(
    session: &mut Session,
    connect: &Connect<'_>,
    dataset: &dyn Dataset,
    order: &Order,
    stop: &AtomicBool,
    watcher: &mut impl Watcher,
) -> Result<Vec<(Step, Duration)>, LoadError> {
    let mut load = Load {
        session,
        connect,
        others: Vec::new(),
        dataset,
        tables: dataset.tables(),
        order,
        stop,
        watcher,
        ledger: None,
        filled: None,
        sent: Sent::default(),
    };
    load.all().map_err(|error| load.explained(error))
}

struct Load<'a, W> {
    session: &'a mut Session,
    connect: &'a Connect<'a>,
    /// Further sessions, connected when they are first needed.
    others: Vec<Session>,
    dataset: &'a dyn Dataset,
    tables: Vec<Table>,
    order: &'a Order,
    stop: &'a AtomicBool,
    watcher: &'a mut W,
    ledger: Option<Ledger>,
    /// Rows of each table, once all are there.
    filled: Option<Vec<u64>>,
    /// Sent in this step.
    sent: Sent,
}

impl<W: Watcher> Load<'_, W> {
    fn all(&mut self) -> Result<Vec<(Step, Duration)>, LoadError> {
        let order = self.order;
        let unknown = order.steps.iter().find(|step| !self.has(**step));
        if let Some(step) = unknown {
            return Err(LoadError::NoSuchStep {
                dataset: self.dataset.name(),
                letter: step.letter(),
            });
        }
        if let Way::Chunks(chunks) = order.way {
            self.begin(chunks)?;
        }
        let first = self.ledger.as_ref().map_or(0, |ledger| ledger.position);
        let mut times = Vec::new();
        for (position, step) in order.steps.iter().enumerate().skip(first) {
            let started = Instant::now();
            self.sent = Sent::default();
            self.watcher.step(*step);
            self.step(*step, position)?;
            let (elapsed, sent) = (started.elapsed(), self.sent);
            self.watcher
                .step_done(*step, elapsed, sent.rows, sent.bytes);
            times.push((*step, elapsed));
        }
        if let Way::Chunks(_) = order.way {
            self.finish()?;
        }
        Ok(times)
    }

    fn has(&self, step: Step) -> bool {
        match step {
            Step::GenerateInServer => self.dataset.insert_selects().is_some(),
            Step::ForeignKeys => self.dataset.foreign_keys().is_some(),
            _ => true,
        }
    }

    /// Reads the ledger of the load that goes on, or takes away what earlier ones left.
    fn begin(&mut self, chunks: Chunks) -> Result<(), LoadError> {
        match chunks.beginning {
            Beginning::Resume => {
                let wanted = self.identity(chunks);
                let ledger = Ledger::read(self.session, &wanted)?;
                let all = cut(&self.tables, ledger.identity.chunk_rows.unwrap_or(u64::MAX));
                let done = ledger.sent_in(ledger.position).count();
                self.watcher.resumed(done as u64, all.len() as u64);
                self.watcher.resumable();
                self.ledger = Some(ledger);
            }
            Beginning::Anew if self.order.steps.iter().any(|step| step.changes_rows()) => {
                Ledger::drop_old(self.session)?;
                if !mark::remove(self.session)? {
                    let text = "the comment on the database says that it holds another dataset, and only its owner may change it";
                    self.watcher.warning(text);
                }
            }
            Beginning::Anew => {}
        }
        self.session_settings(chunks.workers)
    }

    fn identity(&self, chunks: Chunks) -> Identity {
        let chunk_rows = match chunks.pieces {
            Pieces::Relations => None,
            Pieces::Rows(rows) => Some(rows),
        };
        Identity::of(self.dataset, &self.order.steps, chunk_rows)
    }

    /// For this session only: indexes are sorted in memory where the server has enough of it, and
    /// commits are made durable by the last one.
    fn session_settings(&mut self, at_once: usize) -> Result<(), LoadError> {
        let sql = settings(at_once);
        ledger::execute(self.session, &sql).map(drop)
    }

    fn step(&mut self, step: Step, position: usize) -> Result<(), LoadError> {
        let manner = match self.order.way {
            Way::OneTransaction => Manner::Serial,
            Way::Chunks(_) => Manner::Parallel,
        };
        match step {
            Step::Drop => self.execute_all(self.dataset.drop_tables()),
            Step::CreateTables => self.create_tables(),
            Step::GenerateHere => match self.order.way {
                Way::OneTransaction => self.generate_at_once(Self::copy),
                Way::Chunks(chunks) => self.generate_in_chunks(chunks, position),
            },
            Step::GenerateInServer => {
                let statements = self.dataset.insert_selects().unwrap_or_default();
                self.generate_at_once(|load, table| load.execute(&statements[table]))
            }
            Step::Vacuum => self.in_stages(self.dataset.vacuum(manner), position, Undo::Nothing),
            Step::PrimaryKeys => self.in_stages(
                self.dataset.primary_keys(manner),
                position,
                Undo::Transaction,
            ),
            Step::ForeignKeys => {
                let stages = self.dataset.foreign_keys().unwrap_or_default();
                self.in_stages(stages, position, Undo::Transaction)
            }
        }
    }

    fn create_tables(&mut self) -> Result<(), LoadError> {
        self.execute_all(self.dataset.create_tables())?;
        let partitions = self.dataset.create_partitions();
        if !partitions.is_empty() {
            self.watcher.partitions(partitions.len());
        }
        self.execute_all(partitions)
    }

    /// Empties and fills all tables in one transaction: then rows can be written frozen, the server
    /// can do without the log where it may, and nobody ever sees a part of them.
    fn generate_at_once(
        &mut self,
        fill: impl Fn(&mut Self, usize) -> Result<u64, LoadError>,
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
            // so that locks are gone when the caller hears of it; the first error is what matters
            let _ = self.session.execute("rollback");
        }
        self.filled = Some(counts);
        result.map(drop)
    }

    /// Empties the tables, with a new ledger, and fills them chunk by chunk; or goes on with that.
    fn generate_in_chunks(&mut self, chunks: Chunks, position: usize) -> Result<(), LoadError> {
        let goes_on = self
            .ledger
            .as_ref()
            .is_some_and(|ledger| ledger.position == position);
        let mut ledger = match self.ledger.take() {
            Some(ledger) if goes_on => ledger,
            _ => self.open_ledger(chunks, position)?,
        };
        let tables = std::mem::take(&mut self.tables);
        let result = self.fill(chunks, &tables, &mut ledger);
        self.tables = tables;
        self.ledger = Some(ledger);
        self.filled = Some(result?);
        self.execute_all(self.dataset.after_rows())
    }

    fn open_ledger(&mut self, chunks: Chunks, position: usize) -> Result<Ledger, LoadError> {
        let mut ledger = Ledger::new(self.identity(chunks), position);
        let permitted = Ledger::is_permitted(self.session)?;
        let unlogged = self.dataset.is_unlogged();
        self.execute("begin")?;
        let truncate = self.dataset.truncate();
        let mut all = || {
            self.execute(&truncate)?;
            if permitted {
                ledger.keep(self.session, unlogged)?;
            }
            self.execute("commit")
        };
        let result = all();
        if let Err(error) = result {
            let _ = self.session.execute("rollback");
            return Err(error);
        }
        if permitted {
            self.watcher.resumable();
        } else {
            let text = "this load could not be resumed: there is no right to make a schema in the database";
            self.watcher.warning(text);
        }
        Ok(ledger)
    }

    /// Rows of each table.
    fn fill(
        &mut self,
        chunks: Chunks,
        tables: &[Table],
        ledger: &mut Ledger,
    ) -> Result<Vec<u64>, LoadError> {
        let all = cut(tables, ledger.identity.chunk_rows.unwrap_or(u64::MAX));
        let left = all
            .iter()
            .filter(|chunk| ledger.sent(ledger.position, chunk.number).is_none());
        let left: Vec<&Chunk> = left.collect();
        self.connect_others(chunks.workers.min(left.len()))?;
        let filling = Filling::new(self.dataset, tables, &all, ledger, self.stop);
        let mut sessions = vec![&mut *self.session];
        sessions.extend(&mut self.others);
        filling.run(&mut sessions, &left, ledger, self.watcher)?;
        let mut counts = vec![0; tables.len()];
        for chunk in &all {
            let sent = ledger
                .sent(ledger.position, chunk.number)
                .unwrap_or_default();
            counts[chunk.table] += sent.rows;
            self.sent.rows += sent.rows;
            self.sent.bytes += sent.bytes;
        }
        for (table, found) in tables.iter().zip(&counts) {
            if table.exact && *found != table.rows() {
                return Err(LoadError::Miscounted {
                    table: table.name.clone(),
                    expected: table.rows(),
                    found: *found,
                });
            }
        }
        Ok(counts)
    }

    /// Sees to it that there are `all` sessions, with the first.
    fn connect_others(&mut self, all: usize) -> Result<(), LoadError> {
        while self.others.len() + 1 < all {
            self.go_on()?;
            let mut session = (self.connect)().map_err(LoadError::Connect)?;
            ledger::execute(&mut session, &settings(all))?;
            self.others.push(session);
        }
        Ok(())
    }

    /// Carries out statements stage by stage; in chunks several of a stage at once, and without
    /// those that the ledger knows as done.
    fn in_stages(&mut self, stages: Stages, position: usize, undo: Undo) -> Result<(), LoadError> {
        let Way::Chunks(chunks) = self.order.way else {
            return self.execute_all(stages.into_iter().flatten());
        };
        let mut item = 0;
        for stage in stages {
            let numbered = stage.into_iter().map(|sql| {
                item += 1;
                (item - 1, sql)
            });
            let done = |item| {
                let ledger = self.ledger.as_ref();
                ledger.is_some_and(|ledger| ledger.sent(position, item).is_some())
            };
            let jobs: Vec<(u64, String)> = numbered.filter(|(item, _)| !done(*item)).collect();
            self.connect_others(chunks.workers.min(jobs.len()))?;
            let writer = self.ledger.as_ref().map_or(Writer::Nobody, Ledger::writer);
            let stop = self.stop;
            let work = |session: &mut &mut Session, (item, sql): &(u64, String)| {
                if stop.load(Ordering::Relaxed) {
                    return Err(LoadError::Interrupted);
                }
                undo.carry_out(session, sql, writer, position, *item)
            };
            let mut sessions = vec![&mut *self.session];
            sessions.extend(&mut self.others);
            let result = at_once(sessions, &jobs, work, || ());
            self.tell_notices();
            result?;
            if let Some(ledger) = &mut self.ledger {
                jobs.iter()
                    .for_each(|(item, _)| ledger.note(position, *item, Sent::default()));
            }
        }
        Ok(())
    }

    /// Marks the database and drops the ledger, in one transaction.
    fn finish(&mut self) -> Result<(), LoadError> {
        self.go_on()?;
        let mark = match self.filled.take() {
            Some(counts) => Some(self.mark(&counts)?),
            // all rows were there before, and only what comes after them was missing
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
        // what was committed before becomes durable with this
        self.execute("set synchronous_commit to default")?;
        let permitted = mark::is_permitted(self.session)?;
        self.execute("begin")?;
        if self.ledger.is_some() {
            self.execute(ledger::DROP)?;
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
        let loaded_at = ledger::query(self.session, now)?
            .pop()
            .and_then(|mut row| row.pop()?);
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
        };
        mark.checksum = mark.checksum_of_counts();
        Ok(mark)
    }

    fn execute_all<S: AsRef<str>>(
        &mut self,
        statements: impl IntoIterator<Item = S>,
    ) -> Result<(), LoadError> {
        statements
            .into_iter()
            .try_for_each(|sql| self.execute(sql.as_ref()).map(drop))
    }

    /// Gives the rows affected.
    fn execute(&mut self, sql: &str) -> Result<u64, LoadError> {
        self.go_on()?;
        let result = ledger::execute(self.session, sql);
        self.tell_notices();
        result
    }

    /// Sends a table's rows, as pgbench does.
    fn copy(&mut self, table: usize) -> Result<u64, LoadError> {
        let freeze = if self.can_freeze(table)? {
            " with (freeze on)"
        } else {
            ""
        };
        self.go_on()?;
        let sql = format!("copy {} from stdin{freeze}", self.tables[table].name);
        let result = self.send_rows(&sql, table);
        self.tell_notices();
        result
    }

    fn send_rows(&mut self, sql: &str, place: usize) -> Result<u64, LoadError> {
        let table = &self.tables[place];
        let mut copy = self.session.copy_in(sql).map_err(LoadError::CopyStart)?;
        let mut writer = self.dataset.rows(place, 0..table.units);
        let mut progress = Rows {
            table: Some(&table.name),
            rows: 0,
            rows_total: table.rows(),
            bytes: 0,
            rows_before: 0,
            elapsed: Duration::ZERO,
        };
        let started = Instant::now();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                // whether or not the server hears of it, nothing is committed
                let _ = copy.abort("canceled by user");
                return Err(LoadError::Interrupted);
            }
            let mut made = 0;
            let sent = copy.write_with(|buffer| {
                let before = buffer.len();
                made = writer.append(BATCH_ROWS, buffer);
                progress.bytes += (buffer.len() - before) as u64;
            });
            sent.map_err(LoadError::CopyRows)?;
            if made == 0 {
                break;
            }
            progress.rows += made;
            progress.elapsed = started.elapsed();
            self.watcher.rows(&progress);
        }
        self.sent.rows += progress.rows;
        self.sent.bytes += progress.bytes;
        copy.finish().map_err(LoadError::CopyRows)
    }

    /// Whether COPY may freeze the table's rows, and it helps: an ordinary table, not a partitioned
    /// one, which an earlier load may have made.
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

    fn go_on(&self) -> Result<(), LoadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        Ok(())
    }

    /// Why the load failed: when a statement was cancelled on our own request, because of that.
    fn explained(&self, error: LoadError) -> LoadError {
        let canceled = error.session_error().and_then(SessionError::sqlstate);
        let canceled = canceled.is_some_and(|state| state.to_string() == QUERY_CANCELED);
        if canceled && self.stop.load(Ordering::Relaxed) {
            LoadError::Interrupted
        } else {
            error
        }
    }

    fn tell_notices(&mut self) {
        for notice in self.session.take_notices() {
            self.watcher.notice(&notice.to_string());
        }
        for session in &mut self.others {
            for notice in session.take_notices() {
                self.watcher.notice(&notice.to_string());
            }
        }
    }
}

/// Settings of a session of a load, of which so many run at once.
///
/// Half of the shared buffers is what index builds may use together, but no less than the server
/// gives of itself: it was sized by somebody who knew the machine, where maintenance_work_mem
/// mostly has its default.
fn settings(at_once: usize) -> String {
    format!(
        "set synchronous_commit = off; \
         select pg_catalog.set_config('maintenance_work_mem', greatest(m.setting::int8, \
         least(b.setting::int8 * 8 / 2 / {at_once}, 2000000))::text, false) \
         from pg_catalog.pg_settings m, pg_catalog.pg_settings b \
         where m.name = 'maintenance_work_mem' and b.name = 'shared_buffers'"
    )
}
