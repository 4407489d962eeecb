//! A load and its steps, one after the other.

mod load_end;
mod one_transaction;
mod session_settings;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgdyno_connect::{Session, SessionError};

use crate::chunk::{Chunk, cut};
use crate::dataset::{Dataset, Manner, Stages, Table};
use crate::dataset_stamp;
use crate::load_error::LoadError;
use crate::load_ledger::{self, Identity, Ledger, SentAmount, Undo, Writer};
use crate::load_order::{Beginning, Chunks, Connect, LoadMode, Order, Pieces};
use crate::load_step::Step;
use crate::load_watcher::Watcher;
use crate::parallel_jobs::at_once;
use crate::table_filling::Filling;
use session_settings::{parallel_workers, settings};

/// The SQLSTATE of a statement that was cancelled.
const QUERY_CANCELED: &str = "57014";

/// Carries out the steps of `order` and returns how long each took; steps that an earlier load completed are left out.
///
/// When `stop` is set, the load ends before its next statement or row; a running statement is not cancelled here.
///
/// # Errors
/// A statement failed; what was committed before stays.
pub fn load(
    session: &mut Session, connect: &Connect<'_>, dataset: &dyn Dataset, order: &Order, stop: &AtomicBool,
    watcher: &mut impl Watcher,
) -> Result<Vec<(Step, Duration)>, LoadError> {
    let mut load = Load {
        session,
        connect,
        others: Vec::new(),
        no_more: false,
        dataset,
        tables: dataset.tables(),
        order,
        stop,
        watcher,
        ledger: None,
        filled: None,
        sent: SentAmount::default(),
    };
    let outcome = load.carry_out_steps();
    for session in load.others.drain(..) {
        // the server logs an error if an encrypted session ends without Terminate
        let _ = session.close();
    }
    outcome.map_err(|error| load.explain(error))
}

struct Load<'a, W> {
    session: &'a mut Session,
    connect: &'a Connect<'a>,
    /// Further sessions, connected when they are first needed.
    others: Vec<Session>,
    /// Whether the server has refused a session.
    no_more: bool,
    dataset: &'a dyn Dataset,
    tables: Vec<Table>,
    order: &'a Order,
    stop: &'a AtomicBool,
    watcher: &'a mut W,
    ledger: Option<Ledger>,
    /// Rows of each table, after all are loaded.
    filled: Option<Vec<u64>>,
    sent: SentAmount,
}

impl<W: Watcher> Load<'_, W> {
    fn carry_out_steps(&mut self) -> Result<Vec<(Step, Duration)>, LoadError> {
        let order = self.order;
        let unknown = order.steps.iter().find(|step| !self.has(**step));
        if let Some(step) = unknown {
            return Err(LoadError::NoSuchStep { dataset: self.dataset.description().name, letter: step.letter() });
        }
        if let LoadMode::Chunks(chunks) = order.mode {
            self.begin(chunks)?;
        }
        let first = self.ledger.as_ref().map_or(0, |ledger| ledger.position);
        let mut times = Vec::new();
        for (position, step) in order.steps.iter().enumerate().skip(first) {
            let started = Instant::now();
            self.sent = SentAmount::default();
            self.watcher.step(*step);
            self.step(*step, position)?;
            let (elapsed, sent) = (started.elapsed(), self.sent);
            self.watcher.step_done(*step, elapsed, sent.rows, sent.bytes);
            times.push((*step, elapsed));
        }
        if let LoadMode::Chunks(_) = order.mode {
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

    /// Reads the ledger of the load that is resumed, or removes what earlier loads left.
    fn begin(&mut self, chunks: Chunks) -> Result<(), LoadError> {
        self.session_settings(chunks.workers)?;
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
                if !dataset_stamp::remove(self.session)? {
                    let text = "the comment on the database says that it holds another dataset, and only its owner may change it";
                    self.watcher.warning(text);
                }
            }
            Beginning::Anew => {}
        }
        Ok(())
    }

    fn identity(&self, chunks: Chunks) -> Identity {
        let chunk_rows = match chunks.pieces {
            Pieces::Relations => None,
            Pieces::Rows(rows) => Some(rows),
        };
        Identity::of(self.dataset, &self.order.steps, chunk_rows)
    }

    /// Changes the load's own sessions: indexes are sorted in memory where the server has enough of
    /// it, and commits wait for the local disk, but not for standbys. (VACUUM cannot mark pages as
    /// all-visible whose rows were committed asynchronously a moment ago.)
    fn session_settings(&mut self, at_once: usize) -> Result<(), LoadError> {
        let sql = settings(at_once);
        load_ledger::execute(self.session, &sql).map(drop)
    }

    fn step(&mut self, step: Step, position: usize) -> Result<(), LoadError> {
        let manner = match self.order.mode {
            LoadMode::OneTransaction => Manner::Serial,
            LoadMode::Chunks(_) => Manner::Parallel,
        };
        match step {
            Step::Drop => self.execute_all(self.dataset.drop_tables()),
            Step::CreateTables => self.create_tables(),
            Step::GenerateHere => match self.order.mode {
                LoadMode::OneTransaction => self.generate_at_once(Self::copy),
                LoadMode::Chunks(chunks) => self.generate_in_chunks(chunks, position),
            },
            Step::GenerateInServer => {
                let statements = self.dataset.insert_selects().unwrap_or_default();
                self.generate_at_once(|load, table| load.execute(&statements[table]))
            }
            Step::Vacuum => self.in_stages(self.dataset.vacuum(manner), position, Undo::Nothing),
            Step::PrimaryKeys => self.in_stages(self.dataset.primary_keys(manner), position, Undo::Transaction),
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

    /// Empties the tables, with a new ledger, and fills them chunk by chunk; or resumes that.
    fn generate_in_chunks(&mut self, chunks: Chunks, position: usize) -> Result<(), LoadError> {
        let goes_on = self.ledger.as_ref().is_some_and(|ledger| ledger.position == position);
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
        let unlogged = self.dataset.description().is_unlogged;
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
            load_ledger::roll_back(self.session);
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

    /// Fills the tables; returns the rows of each.
    fn fill(&mut self, chunks: Chunks, tables: &[Table], ledger: &mut Ledger) -> Result<Vec<u64>, LoadError> {
        let all = cut(tables, ledger.identity.chunk_rows.unwrap_or(u64::MAX));
        let left = all.iter().filter(|chunk| ledger.sent(ledger.position, chunk.number).is_none());
        let left: Vec<&Chunk> = left.collect();
        let rows = left.iter().map(|chunk| chunk.rows);
        self.connect_others(chunks.workers.min(worthwhile(rows)))?;
        let filling = Filling::new(self.dataset, tables, &all, ledger, self.stop);
        let mut sessions = vec![&mut *self.session];
        sessions.extend(&mut self.others);
        filling.run(&mut sessions, &left, ledger, self.watcher)?;
        let mut counts = vec![0; tables.len()];
        for chunk in &all {
            let sent = ledger.sent(ledger.position, chunk.number).unwrap_or_default();
            counts[chunk.table] += sent.rows;
            self.sent.rows += sent.rows;
            self.sent.bytes += sent.bytes;
        }
        for (table, found) in tables.iter().zip(&counts) {
            if table.exact && *found != table.rows() {
                return Err(LoadError::Miscounted { table: table.name.clone(), expected: table.rows(), found: *found });
            }
        }
        Ok(counts)
    }

    /// Connects until there are `all` sessions, including the first; if the server refuses more,
    /// the load continues with those that it has.
    fn connect_others(&mut self, all: usize) -> Result<(), LoadError> {
        while self.others.len() + 1 < all && !self.no_more {
            self.go_on()?;
            match (self.connect)() {
                Ok(mut session) => {
                    load_ledger::execute(&mut session, &settings(all))?;
                    self.others.push(session);
                }
                Err(error) => {
                    self.no_more = true;
                    let sessions = self.others.len() + 1;
                    let text = format!("loading over {sessions} of {all} connections: {error}");
                    self.watcher.warning(&text);
                }
            }
        }
        Ok(())
    }

    /// Carries out statements stage by stage; for a load in chunks, several of a stage in parallel,
    /// without those that the ledger lists as done.
    fn in_stages(&mut self, stages: Stages, position: usize, undo: Undo) -> Result<(), LoadError> {
        let LoadMode::Chunks(chunks) = self.order.mode else {
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
            let parts = self.tables.iter().flat_map(Table::part_rows);
            // the loader may not know the partition of each row, but statements name partitions
            let partitions = self.dataset.create_partitions().len();
            let sessions = worthwhile(parts).max(partitions).min(jobs.len());
            let sessions = chunks.workers.min(sessions).max(1);
            self.connect_others(sessions)?;
            if undo == Undo::Transaction {
                self.share_processes(sessions)?;
            }
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
                jobs.iter().for_each(|(item, _)| ledger.note(position, *item, SentAmount::default()));
            }
        }
        Ok(())
    }

    /// Limits the parallel workers of each session: sessions that build indexes at the same time share the processes
    /// that the server would give to one of them, because more would only compete for cores and memory.
    fn share_processes(&mut self, sessions: usize) -> Result<(), LoadError> {
        let sql = parallel_workers(sessions);
        load_ledger::execute(self.session, &sql)?;
        for session in &mut self.others {
            load_ledger::execute(session, &sql)?;
        }
        Ok(())
    }

    fn execute_all<S: AsRef<str>>(&mut self, statements: impl IntoIterator<Item = S>) -> Result<(), LoadError> {
        statements.into_iter().try_for_each(|sql| self.execute(sql.as_ref()).map(drop))
    }

    /// Runs a statement; returns the number of affected rows.
    fn execute(&mut self, sql: &str) -> Result<u64, LoadError> {
        self.go_on()?;
        let result = load_ledger::execute(self.session, sql);
        self.tell_notices();
        result
    }

    fn go_on(&self) -> Result<(), LoadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        Ok(())
    }

    /// Why the load failed: if a statement was cancelled on our own request, the reason for that.
    fn explain(&self, error: LoadError) -> LoadError {
        let canceled = error.session_error().and_then(SessionError::sqlstate);
        let canceled = canceled.is_some_and(|state| state.to_string() == QUERY_CANCELED);
        if canceled && self.stop.load(Ordering::Relaxed) { LoadError::Interrupted } else { error }
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

/// How many sessions are useful for pieces with these numbers of rows: a session for the smallest
/// pieces alone costs the server more than it gains.
fn worthwhile(rows: impl Iterator<Item = u64>) -> usize {
    let (all, largest) = rows.fold((0, 0), |(all, most): (u64, u64), rows| (all + rows, rows.max(most)));
    let sessions = (all + largest / 2).checked_div(largest).unwrap_or(1);
    usize::try_from(sessions).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_want_no_session_of_their_own() {
        for (rows, sessions) in
            [(&[][..], 1), (&[100_000, 10, 1], 1), (&[50, 50, 50, 50, 20], 4), (&[7], 1), (&[10, 6], 2)]
        {
            assert_eq!(worthwhile(rows.iter().copied()), sessions, "{rows:?}");
        }
    }
}
