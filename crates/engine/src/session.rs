//! The exchange with the server over one connection: what is sent, which answers are awaited, which
//! statements the server has prepared, and the status of its transaction. It does no I/O.

use pgdyno_script::{Capture, Symbols, Vars};
use pgdyno_wire::{self as wire, EncodeError, Exchange, ProtocolError, Reply, ServerError, TxStatus, frontend};

use crate::row_reader::RowReader;
use crate::statement_template::{Parsed, Template};

/// A Query message.
const ROLLBACK: &[u8] = b"Q\0\0\0\x0dROLLBACK\0";

/// The exchange with the server over one connection.
#[derive(Debug)]
pub struct Session {
    exchange: Exchange,
    /// The bytes to send, and afterwards those that were sent last: the server's errors refer to positions in them.
    out: Vec<u8>,
    reports_rows: bool,
    tx_status: TxStatus,
    /// How many ReadyForQuery messages are still to come.
    awaited: usize,
    /// Indexed by the number of the statement (`RunSettings::statement_number`).
    prepared: Box<[Parsed]>,
    /// Numbers of the statements whose Parse is not answered yet, in order.
    unconfirmed: Vec<usize>,
    error: Option<Box<ServerError>>,
    /// How many results were complete when the error arrived.
    error_query: usize,
    rows: RowReader,
}

/// What a reply means for the sender of the statements.
#[derive(Debug)]
pub enum Received {
    Ready,
    Result,
    /// The first error since the last one was taken; [`Session::error`] returns it.
    Error,
    /// The server waits for COPY data.
    CopyIn,
    Notice(Box<ServerError>),
    /// A reply that needs no action.
    Other,
}

impl Session {
    /// A session before its first message, for scripts with this many statements.
    pub fn new(statements: usize) -> Self {
        Self {
            exchange: Exchange::new(wire::Capture::None, true),
            out: Vec::new(),
            reports_rows: false,
            tx_status: TxStatus::Idle,
            awaited: 0,
            prepared: vec![Parsed::No; statements].into(),
            unconfirmed: Vec::new(),
            error: None,
            error_query: 0,
            rows: RowReader::default(),
        }
    }

    /// Resets the session for another connection, for which nothing of the old state holds.
    pub fn reset(&mut self) {
        self.prepared.fill(Parsed::No);
        self.exchange = Exchange::new(wire::Capture::None, true);
        self.reports_rows = false;
        self.out.clear();
        self.confirm_prepared();
        self.awaited = 0;
        self.tx_status = TxStatus::Idle;
        self.error = None;
    }

    // -- sending ----------------------------------------------------------------------------------

    /// The bytes to send, or those that were sent last.
    #[inline]
    pub fn outgoing(&self) -> &[u8] {
        &self.out
    }

    /// Forgets the bytes that were sent, to begin new messages.
    #[inline]
    pub fn clear_outgoing(&mut self) {
        self.out.clear();
    }

    /// Begins messages that the caller writes; [`Session::await_answers`] then sets the number of their answers.
    pub fn begin_messages(&mut self) -> &mut Vec<u8> {
        self.out.clear();
        &mut self.out
    }

    pub fn truncate(&mut self, start: usize) {
        self.out.truncate(start);
    }

    /// Keeps only the bytes from `start` to `end` of what was sent; after a COPY there are fewer of them.
    pub fn keep_sent(&mut self, start: usize, end: Option<usize>) {
        self.out.truncate(end.unwrap_or(self.out.len()));
        self.out.drain(..start.min(self.out.len()));
    }

    #[inline]
    pub fn sync(&mut self) {
        frontend::sync(&mut self.out);
        self.awaited += 1;
    }

    /// Ends a statement that was appended: a Query message is answered without a Sync.
    #[inline]
    pub fn end_statement(&mut self, is_simple: bool) {
        if is_simple {
            self.awaited += 1;
        } else {
            self.sync();
        }
    }

    pub fn await_answers(&mut self, count: usize) {
        debug_assert_eq!(self.awaited, 0, "the answers before are whole");
        self.awaited = count;
    }

    /// Ends the session; the caller sends the message.
    pub fn terminate(&mut self) {
        self.out.clear();
        frontend::terminate(&mut self.out);
    }

    pub fn roll_back(&mut self) {
        debug_assert_ne!(self.tx_status, TxStatus::Idle, "a block is open");
        self.out.clear();
        self.out.extend_from_slice(ROLLBACK);
        self.awaited = 1;
    }

    /// Ends a `COPY FROM STDIN`, whose rows are the messages so far. The server has ignored the Sync
    /// that came before the end of the data.
    pub fn end_copy(&mut self, is_simple: bool) {
        frontend::copy_done(&mut self.out);
        if !is_simple {
            frontend::sync(&mut self.out);
        }
    }

    // -- prepared statements ----------------------------------------------------------------------

    /// Appends the messages that prepare statement `number`, unless it is prepared; returns whether it did.
    pub fn prepare(&mut self, number: usize, template: &Template) -> bool {
        let appended = template.prepare(self.prepared[number], &mut self.out);
        if appended {
            self.prepared[number] = Parsed::Yes;
            self.unconfirmed.push(number);
        }
        appended
    }

    /// Appends the messages that run statement `number`, without a Sync; returns whether they prepare it.
    #[inline]
    pub fn write(&mut self, number: usize, template: &Template, vars: &Vars) -> Result<bool, EncodeError> {
        let parsed = &mut self.prepared[number];
        template.write(vars, *parsed, &mut self.out)?;
        let is_new = *parsed != Parsed::Yes;
        if is_new {
            *parsed = Parsed::Yes;
            self.unconfirmed.push(number);
        }
        Ok(is_new)
    }

    /// Marks statements as prepared after their answer; frees the list, because most clients prepare only once.
    #[inline]
    pub fn confirm_prepared(&mut self) {
        if !self.unconfirmed.is_empty() {
            self.unconfirmed = Vec::new();
        }
    }

    /// Marks statements as uncertain, because the exchange that prepared them failed.
    pub fn doubt_prepared(&mut self) {
        for number in std::mem::take(&mut self.unconfirmed) {
            self.prepared[number] = Parsed::Perhaps;
        }
    }

    /// Number of the statement whose preparation is answered next, if each has a Sync of its own.
    pub fn being_prepared(&self) -> Option<usize> {
        let answered = self.unconfirmed.len().saturating_sub(self.awaited);
        self.unconfirmed.get(answered).copied()
    }

    // -- answers ----------------------------------------------------------------------------------

    /// Chooses what happens to rows from here on.
    pub fn capture(&mut self, capture: &Capture) {
        self.rows.begin(capture);
        self.report(self.rows.reads_rows());
    }

    /// Sets whether the exchange reports rows from here on.
    pub fn report(&mut self, rows: bool) {
        if rows != self.reports_rows {
            self.reports_rows = rows;
            self.exchange.set_capture(if rows { wire::Capture::Rows } else { wire::Capture::None });
        }
    }

    /// The next reply in `input`; None if it contains no complete one. With `is_unsent`, messages
    /// wait to be sent, and a reply cannot be an answer to them.
    #[inline]
    pub fn receive(
        &mut self, input: &mut &[u8], is_unsent: bool, symbols: &Symbols,
    ) -> Result<Option<Received>, ProtocolError> {
        let Some(reply) = self.exchange.next(input)? else {
            return Ok(None);
        };
        Ok(Some(match reply {
            Reply::Ready(_) | Reply::CopyIn if is_unsent => Received::Other,
            Reply::Ready(status) => {
                self.tx_status = status;
                Received::Ready
            }
            Reply::CopyIn => Received::CopyIn,
            Reply::Error(error) if self.error.is_none() => {
                self.error = Some(error);
                self.error_query = self.rows.query();
                Received::Error
            }
            Reply::Error(_) => Received::Other,
            Reply::Notice(notice) => Received::Notice(notice),
            reply => {
                self.rows.take(&reply, symbols);
                if matches!(reply, Reply::Complete(_) | Reply::EmptyQuery) { Received::Result } else { Received::Other }
            }
        }))
    }

    /// Counts an answer; returns whether it was the last awaited one. A server may send more answers than are awaited.
    #[inline]
    pub fn count_answer(&mut self) -> bool {
        self.awaited = self.awaited.saturating_sub(1);
        self.awaited == 0
    }

    #[inline]
    pub fn awaits_answer(&self) -> bool {
        self.awaited > 0
    }

    #[inline]
    pub fn tx_status(&self) -> TxStatus {
        self.tx_status
    }

    #[inline]
    pub fn error(&self) -> Option<&ServerError> {
        self.error.as_deref()
    }

    pub fn take_error(&mut self) -> Option<Box<ServerError>> {
        self.error.take()
    }

    pub fn set_error(&mut self, error: Option<Box<ServerError>>) {
        self.error = error;
    }

    /// How many results of the statement were complete when the error arrived.
    pub fn error_query(&self) -> usize {
        self.error_query
    }

    #[inline]
    pub fn rows(&self) -> &RowReader {
        &self.rows
    }

    /// Rows and results of the current statement, to take them.
    #[inline]
    pub fn rows_mut(&mut self) -> &mut RowReader {
        &mut self.rows
    }
}
