//! Fills tables over several sessions, each of which takes chunk after chunk, in a transaction for each chunk.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use pgdyno_connect::Session;

use crate::chunk::Chunk;
use crate::dataset::{Dataset, RowSource, Table};
use crate::load_error::LoadError;
use crate::load_ledger::{Ledger, SentAmount, Writer, execute, query, roll_back};
use crate::load_watcher::{Rows, Watcher};
use crate::parallel_jobs::at_once;

/// Rows between two checks of the stop flag; divides the number of rows after which pgbench reports.
const BATCH_ROWS: u64 = 10_000;
/// The first version whose COPY FREEZE marks pages as all-visible: only then is it useful.
pub(crate) const FREEZE_FROM_VERSION: i32 = 140_000;

pub(crate) struct Filling<'a> {
    dataset: &'a dyn Dataset,
    tables: &'a [Table],
    /// Index of the step in the ledger.
    position: usize,
    /// Whether chunks are whole relations, so that rows may be written frozen.
    wholes: bool,
    writer: Writer,
    stop: &'a AtomicBool,
    counters: Vec<Counter>,
    committed: Mutex<Vec<(u64, SentAmount)>>,
    notices: Mutex<Vec<String>>,
}

#[derive(Debug, Default)]
struct Counter {
    rows: AtomicU64,
    bytes: AtomicU64,
    /// How many of these rows an earlier load had committed.
    rows_before: u64,
}

impl<'a> Filling<'a> {
    /// Begins with what the ledger lists as done.
    pub fn new(
        dataset: &'a dyn Dataset, tables: &'a [Table], chunks: &[Chunk], ledger: &Ledger, stop: &'a AtomicBool,
    ) -> Self {
        let mut counters: Vec<_> = tables.iter().map(|_| Counter::default()).collect();
        for chunk in chunks {
            if let Some(sent) = ledger.sent(ledger.position, chunk.number) {
                let counter = &mut counters[chunk.table];
                *counter.rows.get_mut() += sent.rows;
                *counter.bytes.get_mut() += sent.bytes;
                counter.rows_before += sent.rows;
            }
        }
        Self {
            dataset,
            tables,
            position: ledger.position,
            wholes: ledger.identity.chunk_rows.is_none(),
            writer: ledger.writer(),
            stop,
            counters,
            committed: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    /// Fills all `chunks`, stage by stage; also on failure, `ledger` learns which were committed.
    pub fn run(
        &self, sessions: &mut [&mut Session], chunks: &[&Chunk], ledger: &mut Ledger, watcher: &mut impl Watcher,
    ) -> Result<(), LoadError> {
        let mut shown = LastReport { started: Instant::now(), rows: vec![0; self.tables.len()] };
        let mut stages: Vec<u32> = chunks.iter().map(|chunk| chunk.stage).collect();
        stages.sort_unstable();
        stages.dedup();
        let mut outcome = Ok(());
        for stage in stages {
            let mut jobs: Vec<&Chunk> = chunks.to_vec();
            jobs.retain(|chunk| chunk.stage == stage);
            // the largest first, otherwise the last session ends long after the others; equal ones
            // in their order, which keeps neighbours together on disk
            jobs.sort_by_key(|chunk| std::cmp::Reverse(chunk.rows));
            let sessions = sessions.iter_mut().map(|session| &mut **session).collect();
            let work = |session: &mut &mut Session, chunk: &&Chunk| self.fill(session, chunk);
            outcome = at_once(sessions, &jobs, work, || self.tell(&mut shown, watcher));
            if outcome.is_err() {
                break;
            }
        }
        for (number, sent) in lock(&self.committed).drain(..) {
            ledger.note(self.position, number, sent);
        }
        outcome
    }

    /// Fills one chunk, completely or not at all.
    fn fill(&self, session: &mut Session, chunk: &Chunk) -> Result<(), LoadError> {
        let result = self.fill_in_transaction(session, chunk);
        if result.is_err() {
            // so that locks are released before the caller gets the error; the first error is the one that matters
            roll_back(session);
        }
        lock(&self.notices).extend(session.take_notices().iter().map(ToString::to_string));
        result
    }

    fn fill_in_transaction(&self, session: &mut Session, chunk: &Chunk) -> Result<(), LoadError> {
        self.go_on()?;
        let there = self.writer.begin(session, self.position, chunk.number)?;
        if let Some(sent) = there {
            lock(&self.committed).push((chunk.number, sent));
            return Ok(());
        }
        let relation = &chunk.relation;
        let freeze = if self.wholes && can_freeze(session, relation)? {
            // rows can be written frozen if the relation was emptied in the same transaction
            execute(session, &format!("truncate table {relation}"))?;
            " with (freeze on)"
        } else {
            ""
        };
        let sent = self.copy(session, &format!("copy {relation} from stdin{freeze}"), chunk)?;
        self.go_on()?;
        self.writer.commit(session, self.position, chunk.number, sent)?;
        lock(&self.committed).push((chunk.number, sent));
        Ok(())
    }

    fn copy(&self, session: &mut Session, sql: &str, chunk: &Chunk) -> Result<SentAmount, LoadError> {
        let counter = &self.counters[chunk.table];
        let rows = self.dataset.rows(chunk.table, chunk.units.clone());
        let mut sent = SentAmount::default();
        let copied = copy_rows(session, sql, rows, self.stop, |made| {
            sent.rows += made.rows;
            sent.bytes += made.bytes;
            counter.rows.fetch_add(made.rows, Ordering::Relaxed);
            counter.bytes.fetch_add(made.bytes, Ordering::Relaxed);
        })?;
        if copied == sent.rows {
            Ok(sent)
        } else {
            Err(LoadError::Miscounted { table: chunk.relation.clone(), expected: sent.rows, found: copied })
        }
    }

    fn go_on(&self) -> Result<(), LoadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        Ok(())
    }

    fn tell(&self, shown: &mut LastReport, watcher: &mut impl Watcher) {
        for notice in lock(&self.notices).drain(..) {
            watcher.notice(&notice);
        }
        let mut all =
            Rows { table: None, rows: 0, rows_total: 0, bytes: 0, rows_before: 0, elapsed: shown.started.elapsed() };
        let mut changed = false;
        for ((table, counter), shown_rows) in self.tables.iter().zip(&self.counters).zip(&mut shown.rows) {
            let sent = counter.rows.load(Ordering::Relaxed);
            let rows = Rows {
                table: Some(&table.name),
                rows: sent,
                rows_total: if table.exact { table.rows() } else { table.rows().max(sent) },
                bytes: counter.bytes.load(Ordering::Relaxed),
                rows_before: counter.rows_before,
                elapsed: all.elapsed,
            };
            if sent != counter.rows_before.max(*shown_rows) {
                *shown_rows = sent;
                changed = true;
                watcher.rows(&rows);
            }
            all.rows += rows.rows;
            all.rows_total += rows.rows_total;
            all.bytes += rows.bytes;
            all.rows_before += rows.rows_before;
        }
        if changed {
            watcher.rows(&all);
        }
    }
}

struct LastReport {
    started: Instant,
    /// Indexed by table.
    rows: Vec<u64>,
}

/// Sends rows by COPY, and calls `note` with what each batch added; returns how many rows the server counted.
pub(crate) fn copy_rows(
    session: &mut Session, sql: &str, mut rows: Box<dyn RowSource + '_>, stop: &AtomicBool,
    mut note: impl FnMut(SentAmount),
) -> Result<u64, LoadError> {
    let mut copy = session.copy_in(sql).map_err(LoadError::CopyStart)?;
    loop {
        if stop.load(Ordering::Relaxed) {
            // whether or not the server receives it, nothing is committed
            let _ = copy.abort("canceled by user");
            return Err(LoadError::Interrupted);
        }
        let mut made = SentAmount::default();
        copy.write_with(|buffer| {
            let before = buffer.len();
            made.rows = rows.append(BATCH_ROWS, buffer);
            made.bytes = (buffer.len() - before) as u64;
        })
        .map_err(LoadError::CopyRows)?;
        if made.rows == 0 {
            return copy.finish().map_err(LoadError::CopyRows);
        }
        note(made);
    }
}

/// Whether COPY may freeze a relation's rows, and that is useful: it is for an ordinary table that
/// no foreign key prevents from being emptied alone, but not for a partitioned one.
fn can_freeze(session: &mut Session, relation: &str) -> Result<bool, LoadError> {
    if session.server_version_num < FREEZE_FROM_VERSION {
        return Ok(false);
    }
    let sql = format!(
        "select 1 from pg_catalog.pg_class c where oid = '{relation}'::pg_catalog.regclass \
         and relkind = 'r' and not exists (select from pg_catalog.pg_constraint \
         where contype = 'f' and confrelid = c.oid)"
    );
    Ok(!query(session, &sql)?.is_empty())
}

/// Ignores poisoning: no code panics with one of these locks, and what they guard would still be valid.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
