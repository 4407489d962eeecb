//! A client of a replay: takes one captured session after the other, and sends its statements.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::{Answer, Driver, Event, LoadTimes, Outgoing, Request, Step};
use pgdyno_wire::{EncodeError, SqlState, frontend};

use crate::outcome::{Kind, Tally};
use crate::pace_and_patience::{Pace, Progress, WAIT, WAIT_IN_BLOCK};
use crate::prepared_names::{Missing, PreparedNames};
use crate::session_reader::SessionReader;
use crate::statement::{Statement, UNKNOWN_ERROR};

/// The SQLSTATE of a statement in a transaction that has failed.
const FAILED_TRANSACTION: [u8; 5] = *b"25P02";

/// The most bytes of one CopyData message.
const COPY_BYTES: usize = 1 << 20;

/// A client of a replay.
#[derive(Debug)]
pub struct SessionDriver {
    pub(crate) progress: Arc<Progress>,
    tally: Arc<Mutex<Tally>>,
    /// The session that the client has from the start, before it is begun.
    first: Option<usize>,
    session: Option<Session>,
    /// The next statement of the session, or the one whose answer is awaited.
    statement: Statement,
    prepared: PreparedNames,
    times: LoadTimes,
    /// When the current statement was sent, and whether its answer is awaited.
    sent_at: Nanos,
    awaits: bool,
    /// When the answer before it was complete; 0 for the first of a session.
    free_at: Nanos,
    /// The longest wait for the current answer.
    patience: Nanos,
    /// Since when the next statement waits for values of other sessions.
    waits_since: Option<Nanos>,
}

#[derive(Debug)]
struct Session {
    reader: SessionReader,
    stage: Stage,
    /// Whether `statement` is one that was not sent yet.
    has_next: bool,
    /// When its connection was ready.
    opened_at: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has no connection yet.
    Opening,
    Open,
    /// Its last statement is done.
    Closing,
}

impl Driver for SessionDriver {
    fn resume(&mut self, event: Event<'_>, now: Nanos, out: &mut Outgoing<'_>) -> Request {
        match event {
            Event::Connected => {
                self.prepared.forget();
                Request::Done
            }
            Event::Begin { .. } | Event::Woken => self.send(now, out),
            Event::Answered(answer) => {
                self.judge(answer, now, out);
                self.go_on(now, out)
            }
            Event::Changed(_) | Event::Ending => Request::Done,
        }
    }

    fn next_step(&mut self, times: LoadTimes, now: Nanos, is_connected: bool) -> Step {
        self.times = times;
        loop {
            let Some(session) = &mut self.session else {
                match self.take_session() {
                    Ok(true) => continue,
                    Ok(false) => return Step::Finish,
                    Err(words) => return Step::Abort(words),
                }
            };
            match session.stage {
                Stage::Opening if is_connected => {
                    session.stage = Stage::Open;
                    session.opened_at = now;
                    self.free_at = 0;
                    self.tally().sessions_begun += 1;
                }
                Stage::Opening => {
                    let at_us = session.reader.place.at_us;
                    return Step::Connect(self.instant(at_us));
                }
                Stage::Open if !is_connected => {
                    let lost = session.has_next || std::mem::take(&mut self.awaits);
                    self.tally().sessions_lost += u64::from(lost);
                    self.session = None;
                }
                Stage::Open if session.has_next => {
                    return Step::Transaction(self.intended_instant());
                }
                Stage::Open => {
                    session.stage = Stage::Closing;
                    let until_us = session.reader.place.until_us;
                    return Step::Disconnect(self.instant(until_us));
                }
                Stage::Closing => self.session = None,
            }
        }
    }

    fn copy_data(&mut self, out: &mut Vec<u8>) {
        match self.statement.copy.take() {
            Some(rows) => {
                for part in rows.chunks(COPY_BYTES) {
                    // a part is short enough
                    let _ = frontend::copy_data(out, part);
                }
            }
            None => self.tally().copies_without_data += 1,
        }
    }
}

impl SessionDriver {
    /// A client that begins with session number `first`, or with the next one that is free.
    pub fn new(progress: Arc<Progress>, tally: Arc<Mutex<Tally>>, first: Option<usize>) -> Self {
        Self {
            progress,
            tally,
            first,
            session: None,
            statement: Statement::default(),
            prepared: PreparedNames::default(),
            times: LoadTimes { origin: 0, deadline: None },
            sent_at: 0,
            awaits: false,
            free_at: 0,
            patience: 0,
            waits_since: None,
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instant(&self, at_us: u64) -> Nanos {
        self.progress.instant(self.times.origin, at_us)
    }

    /// When the next statement is due. The time that it took to connect does not count.
    fn intended_instant(&self) -> Nanos {
        let opened_at = self.session.as_ref().map_or(0, |session| session.opened_at);
        match self.progress.pace {
            Pace::Factor(_) => self.instant(self.statement.at_us).max(opened_at),
            Pace::Max => 0,
        }
    }

    /// Takes the next session; returns false after the last one.
    fn take_session(&mut self) -> Result<bool, String> {
        let number = self.first.take().unwrap_or_else(|| self.progress.take());
        let Some(reader) = SessionReader::open(&self.progress.file, number) else {
            return Ok(false);
        };
        let reader = reader.map_err(|error| error.to_string())?;
        self.session = Some(Session { reader, stage: Stage::Opening, has_next: false, opened_at: 0 });
        self.read_next()?;
        Ok(true)
    }

    /// Reads the next statement of the session, if there is one.
    fn read_next(&mut self) -> Result<(), String> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let read = session.reader.next(&self.progress.file, &mut self.statement);
        session.has_next = read.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Waits for the values that the next statement uses, which a late session may still have to give.
    fn await_values(&mut self, now: Nanos) -> Option<Request> {
        let slots = &self.progress.slots;
        let is_waiting = self.statement.awaited().any(|slot| !slots.is_filled(slot));
        if !is_waiting {
            if self.waits_since.take().is_some() {
                // the answer of another session came before
                self.free_at = now;
            }
            return None;
        }
        if self.times.deadline.is_some_and(|deadline| now >= deadline) {
            return Some(Request::Stop);
        }
        let waited = now - *self.waits_since.get_or_insert(now);
        if waited >= if self.statement.in_block { WAIT_IN_BLOCK } else { WAIT } {
            // nothing waits for it again
            self.statement.awaited().for_each(|slot| slots.fill(slot, None));
            return self.await_values(now);
        }
        Some(Request::Sleep(Duration::from_nanos((waited / 8).clamp(100_000, 10_000_000))))
    }

    fn send(&mut self, now: Nanos, out: &mut Outgoing<'_>) -> Request {
        if let Some(wait) = self.await_values(now) {
            return wait;
        }
        let (mapped, not_mapped) = self.statement.substitute(&self.progress.slots);
        if !self.statement.gives.is_empty() {
            out.keep_rows();
        }
        if let Some(session) = &mut self.session {
            session.has_next = false;
        }
        let statement = &self.statement;
        out.command(statement.class as usize);
        self.patience = self.progress.patience(statement.us);
        out.cancel_after(self.patience);
        let mut tally = self.tally();
        tally.started += 1;
        tally.mapped += mapped;
        tally.not_mapped += not_mapped;
        if let Pace::Factor(_) = self.progress.pace {
            let due = self.instant(statement.at_us);
            out.intended(self.intended_instant());
            tally.late_by(now.saturating_sub(due));
            tally.delayed_by_answer += u64::from(due < self.free_at);
        }
        drop(tally);
        self.sent_at = now;
        self.awaits = true;
        match self.write(out) {
            Ok(()) => Request::Await,
            Err(error) => Request::Abort(format!("could not send a statement: {error}")),
        }
    }

    fn write(&mut self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        let statement = &self.statement;
        let sql = statement.sql(&self.progress.file);
        if !statement.is_extended {
            return out.query(sql);
        }
        let name = statement.name.as_str();
        let missing = match name {
            "" => Missing::Parse,
            _ => self.prepared.prepare(name, sql),
        };
        if missing == Missing::CloseAndParse {
            out.close_statement(name)?;
        }
        if missing != Missing::Nothing {
            out.parse(name, sql)?;
        }
        out.bind_and_execute(name, statement.parameters())
    }

    /// Compares the answer with the capture.
    fn judge(&mut self, answer: &Answer, now: Nanos, out: &mut Outgoing<'_>) {
        let waited = now.saturating_sub(self.sent_at);
        self.free_at = now;
        self.awaits = false;
        let error = answer.error().map(|error| error.sqlstate());
        let statement = &self.statement;
        if error == Some(SqlState::INVALID_SQL_STATEMENT_NAME) {
            // what dropped this name out of sight, such as a function, may have dropped others
            self.prepared.doubt_all();
        } else if error.is_some() && !statement.name.is_empty() {
            self.prepared.doubt(&statement.name);
        }
        self.prepared.executed(statement.sql(&self.progress.file));
        self.give(answer);
        let mut tally = self.tally();
        tally.done += 1;
        let kind = match (&error, statement.error) {
            (None, None) => {
                let rows = answer.results().last().and_then(|result| result.affected);
                let differs = matches!((rows, statement.rows), (Some(rows), Some(captured)) if rows != captured);
                differs.then_some(Kind::DifferentRows)
            }
            (None, Some(FAILED_TRANSACTION)) => Some(Kind::InFailedTransaction),
            (None, Some(_)) => Some(Kind::MissingError),
            (Some(_), Some(UNKNOWN_ERROR)) => None,
            (Some(state), Some(captured)) if state.as_str().as_bytes() == captured => None,
            (Some(state), captured) => {
                let is_in_failed = state.as_str().as_bytes() == FAILED_TRANSACTION;
                let is_cancelled = *state == SqlState::QUERY_CANCELED && waited >= self.patience;
                out.fail();
                Some(match captured {
                    _ if is_in_failed => Kind::InFailedTransaction,
                    _ if is_cancelled => Kind::CancelledWait,
                    None => Kind::NewError,
                    Some(_) => Kind::OtherError,
                })
            }
        };
        if let Some(kind) = kind {
            tally.disagree(statement.class, kind, answer.error());
        }
    }

    /// Fills the slots of the statement with the values of its answer.
    fn give(&self, answer: &Answer) {
        let slots = &self.progress.slots;
        if let Some(slot) = self.statement.done {
            slots.fill(slot, None);
        }
        if self.statement.gives.is_empty() {
            return;
        }
        let last = answer.results().iter().rposition(|result| result.columns.is_some());
        let rows = answer.rows(last.unwrap_or(usize::MAX));
        for give in &self.statement.gives {
            let value = |row: usize| rows.get(row).and_then(|row| row.get(give.column)).flatten();
            // rows in another order: what was captured, and is there again, is the same row
            let same = give.captured.as_ref().map(|captured| captured.as_bytes());
            let same = same.filter(|same| (0..rows.len()).any(|row| value(row) == Some(same)));
            slots.fill(give.slot, same.or_else(|| value(give.row)));
        }
    }

    /// Continues after an answer: with the next statement of the transaction, or with its end.
    fn go_on(&mut self, now: Nanos, out: &mut Outgoing<'_>) -> Request {
        if let Err(words) = self.read_next() {
            return Request::Abort(words);
        }
        let has_next = self.session.as_ref().is_some_and(|session| session.has_next);
        if !has_next || !self.statement.in_block {
            return Request::Done;
        }
        let due = self.intended_instant();
        let deadline = self.times.deadline.unwrap_or(Nanos::MAX);
        if due.max(now) >= deadline {
            return Request::Stop;
        }
        if due > now {
            return Request::Sleep(Duration::from_nanos(due - now));
        }
        self.send(now, out)
    }
}
