//! One client's session: bytes in, bytes out, without I/O and without a clock.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::Ordering;

use pgdyno_wire::frontend::{CANCEL_REQUEST, GSSENC_REQUEST, PROTOCOL_VERSION, SSL_REQUEST};
use pgdyno_wire::{Parts, SqlState, TxStatus};

use crate::answers::{Answer, Format};
use crate::encode;
use crate::refusal::{Refusal, refuse};
use crate::shared::Shared;
use crate::sql;
use crate::statement::{Meaning, classify};

/// Longest accepted message, except for COPY data, which is not stored.
const LONGEST_MESSAGE_BYTES: usize = 1024 * 1024;
/// PostgreSQL's own limit.
const LONGEST_PACKET_BYTES: usize = 10_000;
/// These two limit the memory of a session.
const MOST_NAMES: usize = 10_000;
const LONGEST_NAME_BYTES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Open,
    /// It closes after the answers are sent.
    Close,
}

/// Values by name; the unnamed one has an empty name.
pub type Named<T> = BTreeMap<Box<[u8]>, T>;

#[derive(Debug)]
pub struct Session {
    pub has_begun: bool,
    /// The beginning of an incomplete message.
    pending: Vec<u8>,
    /// How many bytes of COPY data come before the next message.
    copy_bytes: usize,
    transaction: TxStatus,
    /// Set after an error, until the next Sync.
    is_skipping: bool,
    copy: Option<CopyIn>,
    pub statements: Named<Statement>,
    pub portals: Named<Portal>,
}

/// A COPY from the client that is in progress.
#[derive(Debug)]
struct CopyIn {
    rows: u64,
    /// Whether ReadyForQuery follows it, or the client's Sync.
    is_of_query: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Statement {
    pub answer: Answer,
    pub parameters: u16,
}

#[derive(Debug, Clone, Copy)]
pub struct Portal {
    pub answer: Answer,
    pub format: Format,
}

impl Default for Session {
    /// A session before its first byte.
    fn default() -> Self {
        Self {
            has_begun: false,
            pending: Vec::new(),
            copy_bytes: 0,
            transaction: TxStatus::Idle,
            is_skipping: false,
            copy: None,
            statements: Named::new(),
            portals: Named::new(),
        }
    }
}

impl Session {
    /// Processes bytes in chunks of any size, and appends the answers to `out`.
    pub fn receive(&mut self, input: &[u8], shared: &Shared, out: &mut Vec<u8>) -> Turn {
        let mut joined = mem::take(&mut self.pending);
        let mut rest = input;
        if !joined.is_empty() {
            joined.extend_from_slice(input);
            rest = &joined;
        }
        loop {
            rest = &rest[self.pass_copy_data(rest)..];
            let taken = match self.has_begun {
                true => self.take_message(&mut rest, shared, out),
                false => self.take_packet(&mut rest, shared, out),
            };
            match taken {
                Some(Turn::Open) => {}
                Some(Turn::Close) => return Turn::Close,
                None => break,
            }
        }
        self.pending = rest.to_vec();
        Turn::Open
    }

    /// Skips COPY data; returns how much. Outside of a COPY it belongs to one that failed.
    fn pass_copy_data(&mut self, data: &[u8]) -> usize {
        let bytes = self.copy_bytes.min(data.len());
        if let Some(copy) = &mut self.copy {
            copy.rows += data[..bytes].iter().filter(|&&byte| byte == b'\n').count() as u64;
        }
        self.copy_bytes -= bytes;
        bytes
    }

    /// Processes one packet of the start; None if it has not arrived completely.
    fn take_packet(&mut self, input: &mut &[u8], shared: &Shared, out: &mut Vec<u8>) -> Option<Turn> {
        let length = u32::from_be_bytes(*input.first_chunk()?) as usize;
        if !(8..=LONGEST_PACKET_BYTES).contains(&length) {
            return Some(end(SqlState::PROTOCOL_VIOLATION, "invalid length of startup packet", out));
        }
        let (packet, rest) = input.split_at_checked(length)?;
        *input = rest;
        let mut parts = Parts(&packet[4..]);
        match parts.u32()? {
            SSL_REQUEST | GSSENC_REQUEST => out.push(b'N'),
            // no statement runs that could be cancelled
            CANCEL_REQUEST => return Some(Turn::Close),
            version if version >> 16 != PROTOCOL_VERSION >> 16 => {
                let text = format!(
                    "unsupported frontend protocol {}.{}: server supports 3.0 to 3.0",
                    version >> 16,
                    version & 0xffff
                );
                return Some(end(SqlState::FEATURE_NOT_SUPPORTED, &text, out));
            }
            version => {
                let Some(options) = protocol_options(parts) else {
                    let text = "invalid startup packet layout: expected terminator as last byte";
                    return Some(end(SqlState::PROTOCOL_VIOLATION, text, out));
                };
                if version != PROTOCOL_VERSION || !options.is_empty() {
                    encode::message(out, b'v', |out| {
                        out.extend_from_slice(&PROTOCOL_VERSION.to_be_bytes());
                        out.extend_from_slice(&(options.len() as u32).to_be_bytes());
                        options.iter().for_each(|name| encode::cstr(out, name));
                    });
                }
                self.begin(shared, out);
            }
        }
        Some(Turn::Open)
    }

    fn begin(&mut self, shared: &Shared, out: &mut Vec<u8>) {
        self.has_begun = true;
        out.extend_from_slice(&shared.answers.session_start);
        let number = shared.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        encode::message(out, b'K', |out| {
            out.extend_from_slice(&number.to_be_bytes());
            // no statement runs long enough to be cancelled, so the key need not be secret
            out.extend_from_slice(&number.to_be_bytes());
        });
        encode::ready(out, TxStatus::Idle);
    }

    /// Processes one message; None if it has not arrived completely.
    fn take_message(&mut self, input: &mut &[u8], shared: &Shared, out: &mut Vec<u8>) -> Option<Turn> {
        let ([kind, length @ ..], rest) = input.split_first_chunk::<5>()?;
        let bytes = (u32::from_be_bytes(*length) as usize).checked_sub(4);
        let Some(bytes) = bytes.filter(|bytes| *bytes <= LONGEST_MESSAGE_BYTES || *kind == b'd') else {
            return Some(end(SqlState::PROTOCOL_VIOLATION, "invalid message length", out));
        };
        if *kind == b'd' {
            self.copy_bytes = bytes;
            *input = rest;
            return Some(Turn::Open);
        }
        let (body, rest) = rest.split_at_checked(bytes)?;
        *input = rest;
        Some(self.answer(*kind, body, shared, out))
    }

    fn answer(&mut self, kind: u8, body: &[u8], shared: &Shared, out: &mut Vec<u8>) -> Turn {
        if kind == b'X' {
            return Turn::Close;
        }
        if self.copy.is_some() {
            self.end_copy(kind, body, out);
            return Turn::Open;
        }
        if self.is_skipping && kind != b'S' {
            return Turn::Open;
        }
        let done = match kind {
            b'B' => self.bind(body, out),
            b'E' => self.execute(body, shared, out),
            b'S' => {
                self.is_skipping = false;
                if self.transaction == TxStatus::Idle {
                    // a portal ends with its transaction
                    self.portals.clear();
                }
                Ok(())
            }
            b'Q' => self.query(body, shared, out),
            b'P' => self.parse(body, out),
            b'D' => self.describe(body, shared, out),
            b'C' => self.close(body, out),
            // Flush needs no action, because answers are always sent; the others belong to a COPY that failed
            b'H' | b'c' | b'f' => Ok(()),
            b'F' => refuse(SqlState::FEATURE_NOT_SUPPORTED, "function calls are not supported"),
            other => {
                let text = format!("invalid frontend message type {other}");
                return end(SqlState::PROTOCOL_VIOLATION, &text, out);
            }
        };
        let is_last = matches!(kind, b'Q' | b'F' | b'S');
        match done {
            Ok(()) => {}
            Err(Refusal::Close) => return Turn::Close,
            Err(Refusal::Error(code, text)) => {
                self.fail(code, &text, out);
                self.is_skipping = !is_last;
            }
        }
        // a COPY is answered after its data has arrived
        if is_last && self.copy.is_none() {
            encode::ready(out, self.transaction);
        }
        Turn::Open
    }

    /// Appends the error; an open transaction block has failed.
    fn fail(&mut self, code: SqlState, text: &str, out: &mut Vec<u8>) {
        encode::error(out, "ERROR", code, text);
        if self.transaction == TxStatus::InBlock {
            self.transaction = TxStatus::Failed;
        }
    }

    /// Answers the statements of a simple query.
    fn query(&mut self, body: &[u8], shared: &Shared, out: &mut Vec<u8>) -> Result<(), Refusal> {
        self.statements.remove(&b""[..]);
        self.portals.remove(&b""[..]);
        let mut rest = well_formed(Parts(body).cstr())?;
        let mut is_empty = true;
        loop {
            let (one, others) = sql::split(rest);
            let is_last = sql::is_blank(others);
            let answer = self.resolve(one)?;
            if answer != Answer::Empty {
                is_empty = false;
                if answer == Answer::CopyIn && !is_last {
                    let text = "COPY FROM STDIN must be the last statement of a query";
                    return refuse(SqlState::FEATURE_NOT_SUPPORTED, text);
                }
                self.run(answer, None, shared, out)?;
            }
            if is_last {
                break;
            }
            rest = others;
        }
        if is_empty {
            encode::bare(out, b'I');
        }
        Ok(())
    }

    /// The answer to a statement of the session. SQL's PREPARE and DEALLOCATE take effect here, because nothing is
    /// decided when a statement is executed.
    pub fn resolve(&mut self, sql: &[u8]) -> Result<Answer, Refusal> {
        let meaning = classify(sql)?;
        let answer = match meaning {
            Meaning::Answer(answer) => answer,
            Meaning::Execute(name) => self.statement(name)?.answer,
            Meaning::Prepare(..) => Answer::Done("PREPARE"),
            Meaning::Deallocate(_) => Answer::Done("DEALLOCATE"),
        };
        self.check_transaction(answer)?;
        match meaning {
            Meaning::Prepare(name, answer) => self.prepare(name, Statement { answer, parameters: 0 })?,
            Meaning::Deallocate(None) => self.statements.clear(),
            Meaning::Deallocate(Some(name)) => {
                self.statement(name)?;
                self.statements.remove(name);
            }
            Meaning::Answer(_) | Meaning::Execute(_) => {}
        }
        Ok(answer)
    }

    pub fn statement(&self, name: &[u8]) -> Result<&Statement, Refusal> {
        match self.statements.get(name) {
            Some(statement) => Ok(statement),
            None => {
                let name = String::from_utf8_lossy(name);
                let text = format!("prepared statement \"{name}\" does not exist");
                refuse(SqlState::INVALID_SQL_STATEMENT_NAME, text)
            }
        }
    }

    pub fn prepare(&mut self, name: &[u8], statement: Statement) -> Result<(), Refusal> {
        if !name.is_empty() && self.statements.contains_key(name) {
            let name = String::from_utf8_lossy(name);
            let text = format!("prepared statement \"{name}\" already exists");
            return refuse(SqlState::DUPLICATE_PREPARED_STATEMENT, text);
        }
        insert(&mut self.statements, name, statement)
    }

    /// Refuses everything in a failed transaction block except its end.
    pub fn check_transaction(&self, answer: Answer) -> Result<(), Refusal> {
        if self.transaction == TxStatus::Failed && !answer.is_allowed_in_failed() {
            let text = "current transaction is aborted, commands ignored until end of transaction block";
            return refuse(SqlState::IN_FAILED_SQL_TRANSACTION, text);
        }
        Ok(())
    }

    /// Appends an answer. Rows come in this format, or, as in the simple protocol, as text with their description.
    pub fn run(
        &mut self, answer: Answer, format: Option<Format>, shared: &Shared, out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if answer.is_load() {
            shared.check_faults()?;
        }
        match answer {
            Answer::Empty => encode::bare(out, b'I'),
            Answer::Done(tag) | Answer::Changed(tag) => encode::complete(out, tag),
            Answer::Rows(set, tag) => {
                let rows = shared.answers.rows(set, format.unwrap_or(Format::Text));
                if format.is_none() {
                    out.extend_from_slice(&rows.description);
                }
                out.extend_from_slice(&rows.row);
                encode::complete(out, tag);
            }
            Answer::Begin => self.change_transaction(TxStatus::InBlock, "BEGIN", out),
            Answer::Commit if self.transaction != TxStatus::Failed => {
                self.change_transaction(TxStatus::Idle, "COMMIT", out);
            }
            Answer::Commit | Answer::Rollback => self.change_transaction(TxStatus::Idle, "ROLLBACK", out),
            Answer::RollbackToSavepoint if self.transaction == TxStatus::Idle => {
                let text = "ROLLBACK TO SAVEPOINT can only be used in transaction blocks";
                return refuse(SqlState::NO_ACTIVE_SQL_TRANSACTION, text);
            }
            Answer::RollbackToSavepoint => self.change_transaction(TxStatus::InBlock, "ROLLBACK", out),
            Answer::CopyIn => {
                self.copy = Some(CopyIn { rows: 0, is_of_query: format.is_none() });
                // in text format, with an unknown number of columns
                encode::message(out, b'G', |out| out.extend_from_slice(&[0, 0, 0]));
            }
            Answer::CopyOut => out.extend_from_slice(&shared.answers.copy_out),
        }
        Ok(())
    }

    fn change_transaction(&mut self, status: TxStatus, tag: &str, out: &mut Vec<u8>) {
        self.transaction = status;
        encode::complete(out, tag);
    }

    /// Handles a message while COPY data is awaited.
    fn end_copy(&mut self, kind: u8, body: &[u8], out: &mut Vec<u8>) {
        if matches!(kind, b'H' | b'S') {
            return;
        }
        let Some(copy) = self.copy.take() else { return };
        match kind {
            b'c' => encode::complete(out, &format!("COPY {}", copy.rows)),
            b'f' => {
                let reason = Parts(body).cstr().unwrap_or_default();
                let reason = String::from_utf8_lossy(&reason[..reason.len().min(1024)]);
                self.fail(SqlState::QUERY_CANCELED, &format!("COPY from stdin failed: {reason}"), out);
            }
            other => {
                let text = format!("unexpected message type 0x{other:02X} during COPY from stdin");
                self.fail(SqlState::PROTOCOL_VIOLATION, &text, out);
            }
        }
        if copy.is_of_query {
            encode::ready(out, self.transaction);
        } else {
            self.is_skipping = kind != b'c';
        }
    }
}

/// Adds a value, or replaces one with the same name.
pub fn insert<T>(all: &mut Named<T>, name: &[u8], value: T) -> Result<(), Refusal> {
    if name.len() > LONGEST_NAME_BYTES || all.len() == MOST_NAMES {
        let text = "too many prepared statements or portals, or a name that is too long";
        return refuse(SqlState::OUT_OF_MEMORY, text);
    }
    all.insert(name.into(), value);
    Ok(())
}

/// The parts of a message, if they could be read.
pub fn well_formed<T>(parts: Option<T>) -> Result<T, Refusal> {
    parts.map_or_else(|| refuse(SqlState::PROTOCOL_VIOLATION, "invalid message format"), Ok)
}

/// Appends an error after which the connection ends.
fn end(code: SqlState, text: &str, out: &mut Vec<u8>) -> Turn {
    encode::error(out, "FATAL", code, text);
    Turn::Close
}

/// Names of protocol options among the settings, none of which is known; None if these are not pairs with an end.
fn protocol_options(mut settings: Parts<'_>) -> Option<Vec<&[u8]>> {
    let mut options = Vec::new();
    loop {
        match settings.cstr()? {
            b"" => return settings.0.is_empty().then_some(options),
            name if name.starts_with(b"_pq_.") => options.push(name),
            _ => {}
        }
        settings.cstr()?;
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
