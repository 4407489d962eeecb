//! The server's answer to a driver's request: results, rows if they were requested, and an error.

use pgdyno_wire::{Capture, CommandTag, Exchange, Reply, Row, ServerError, TxStatus};

use crate::recorder::Statements;

/// Buffers up to this size stay allocated: there may be many thousand clients.
const KEPT_BYTES: usize = 512;

/// The answer to everything that was sent in one round trip.
#[derive(Debug, Default)]
pub struct Answer {
    results: Vec<StatementResult>,
    /// The bodies of the rows, one after the other.
    data: Vec<u8>,
    /// Where each row begins in `data`.
    starts: Vec<usize>,
    error: Option<Box<ServerError>>,
    tx_status: Option<TxStatus>,
    /// Number of columns of the result in progress.
    columns: Option<u16>,
    /// Number of the first row of the result in progress.
    first_row: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementResult {
    /// Number of columns, for a statement with rows whose columns were described.
    pub columns: Option<u16>,
    /// Rows affected or returned, for a command whose tag reports them.
    pub affected: Option<u64>,
    /// What the command did.
    pub kind: StatementKind,
    first_row: usize,
    rows: usize,
}

/// What a statement did, as far as its command tag shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// It returned rows.
    Read,
    /// It changed at least one row.
    Write,
    /// Neither, as for COMMIT, CREATE TABLE or an UPDATE of no row.
    Other,
}

impl StatementKind {
    fn of(tag: &CommandTag<'_>, has_columns: bool) -> Self {
        const WRITES: [&[u8]; 5] = [b"INSERT", b"UPDATE", b"DELETE", b"MERGE", b"COPY"];
        const READS: [&[u8]; 2] = [b"SELECT", b"FETCH"];
        let bytes = tag.as_bytes();
        let verb = bytes.split(|&byte| byte == b' ').next().unwrap_or(bytes);
        if WRITES.contains(&verb) {
            match tag.rows() {
                Some(0) | None => Self::Other,
                Some(_) => Self::Write,
            }
        } else if has_columns || READS.contains(&verb) {
            Self::Read
        } else {
            Self::Other
        }
    }
}

#[derive(Debug, Clone)]
pub struct Rows<'a> {
    data: &'a [u8],
    starts: &'a [usize],
    end: usize,
}

impl<'a> Rows<'a> {
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The bodies of their messages, one after the other.
    pub fn as_bytes(&self) -> &'a [u8] {
        match self.starts.first() {
            Some(&start) => &self.data[start..self.end],
            None => &[],
        }
    }

    /// Row `number`, counted from 0.
    pub fn get(&self, number: usize) -> Option<Row<'a>> {
        let from = *self.starts.get(number)?;
        let to = self.starts.get(number + 1).copied().unwrap_or(self.end);
        Row::parse(self.data.get(from..to)?).ok()
    }
}

impl Answer {
    /// Parses the server's `bytes` up to ReadyForQuery, for tests of drivers.
    ///
    /// # Panics
    /// When the bytes are no answer.
    pub fn read(mut bytes: &[u8]) -> Self {
        let mut exchange = Exchange::new(Capture::Rows, true);
        let mut answer = Self::default();
        let mut error = None;
        while let Some(reply) = exchange.next(&mut bytes).expect("an answer") {
            match reply {
                Reply::Error(refused) => error = Some(refused),
                Reply::Ready(status) => answer.end(error.take(), status),
                reply => answer.take(&reply),
            }
        }
        answer
    }

    /// The results of the statements that succeeded, in order. An error is that of the statement after them.
    pub fn results(&self) -> &[StatementResult] {
        &self.results
    }

    pub fn error(&self) -> Option<&ServerError> {
        self.error.as_deref()
    }

    /// Whether a transaction block was open after the answer; it may have failed.
    pub fn in_block(&self) -> bool {
        self.tx_status.is_some_and(|status| status != TxStatus::Idle)
    }

    /// Rows of result number `result`; empty unless rows were to be kept.
    pub fn rows(&self, result: usize) -> Rows<'_> {
        let (from, count) = match self.results.get(result) {
            Some(result) => (result.first_row, result.rows),
            None => (0, 0),
        };
        let end = self.starts.get(from + count).copied();
        Rows { data: &self.data, starts: &self.starts[from..from + count], end: end.unwrap_or(self.data.len()) }
    }

    /// A value of the first row of result number `result`; None if there is no such row or column, or if it is NULL.
    pub fn value(&self, result: usize, column: usize) -> Option<&[u8]> {
        self.rows(result).get(0)?.get(column)?
    }

    pub(crate) fn take(&mut self, reply: &Reply<'_>) {
        match reply {
            Reply::RowDescription(columns) => self.columns = Some(columns.column_count() as u16),
            Reply::Row(row) => {
                self.starts.push(self.data.len());
                row.append_to(&mut self.data);
            }
            Reply::Complete(tag) => {
                let kind = StatementKind::of(tag, self.columns.is_some());
                self.complete(kind, tag.rows());
            }
            Reply::EmptyQuery => self.complete(StatementKind::Other, None),
            _ => {}
        }
    }

    fn complete(&mut self, kind: StatementKind, affected: Option<u64>) {
        self.results.push(StatementResult {
            columns: self.columns.take(),
            affected,
            kind,
            first_row: self.first_row,
            rows: self.starts.len() - self.first_row,
        });
        self.first_row = self.starts.len();
    }

    pub(crate) fn end(&mut self, error: Option<Box<ServerError>>, tx_status: TxStatus) {
        self.error = error;
        self.tx_status = Some(tx_status);
    }

    pub(crate) fn take_error(&mut self) -> Option<Box<ServerError>> {
        self.error.take()
    }

    /// Adds the statements to the counters, by what they did.
    pub(crate) fn count(&self, statements: &mut Statements) {
        for result in &self.results {
            match result.kind {
                StatementKind::Read => statements.reads += 1,
                StatementKind::Write => statements.writes += 1,
                StatementKind::Other => statements.others += 1,
            }
        }
    }

    /// Empties the answer for the next one, and releases large buffers.
    pub(crate) fn clear(&mut self) {
        self.results.clear();
        self.starts.clear();
        self.data.clear();
        if self.data.capacity() > KEPT_BYTES {
            self.data = Vec::new();
            self.starts = Vec::new();
        }
        self.error = None;
        self.columns = None;
        self.first_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_pipeline_have_their_own_rows() {
        let answer = Answer::read(
            b"D\0\0\0\x0b\0\x01\0\0\0\x017D\0\0\0\x0a\0\x01\xff\xff\xff\xffC\0\0\0\x0dSELECT 2\0\
              C\0\0\0\x0dUPDATE 0\0D\0\0\0\x0b\0\x01\0\0\0\x019C\0\0\0\x0dSELECT 1\0C\0\0\0\x0dDELETE 3\0",
        );
        assert_eq!(answer.results().len(), 4);
        assert_eq!(answer.rows(0).len(), 2);
        assert_eq!(answer.value(0, 0), Some(&b"7"[..]));
        assert_eq!(answer.rows(0).get(1).and_then(|row| row.get(0)), Some(None), "NULL");
        assert!(answer.rows(1).is_empty());
        assert_eq!(answer.value(2, 0), Some(&b"9"[..]));
        assert!(answer.rows(9).is_empty());
        let mut statements = Statements::default();
        answer.count(&mut statements);
        assert_eq!((statements.reads, statements.writes, statements.others), (2, 1, 1));
        // a result that was described has its columns
        let described = b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0C\0\0\0\x0dSELECT 0\0";
        let answer = Answer::read(described);
        assert_eq!(answer.results()[0].columns, Some(1));
        assert_eq!(answer.results()[0].affected, Some(0));
        assert_eq!(answer.value(0, 0), None);
    }
}
