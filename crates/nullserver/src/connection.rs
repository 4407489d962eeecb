//! One client's session: bytes in, bytes out, without I/O and without a clock.

use std::mem;

use pgdyno_wire::{SqlState, TxStatus};

use crate::answers::{Answer, Answers};
use crate::classify::Meaning;
use crate::encode::{self, Format};
use crate::faults::{Fault, Faults};
use crate::small_map::Names;
use crate::startup_packet::{self, Packet, split_cstr};
use crate::statement_error::{Stop, Trouble};

/// Longest accepted message, except for COPY data, which is not stored.
pub const LONGEST_MESSAGE_BYTES: usize = 1024 * 1024;
/// Length of a message's type and length.
const HEADER_BYTES: usize = 5;
/// Smaller buffers are not released between messages.
const KEPT_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Open,
    /// It closes after the answers are sent.
    Close,
}

#[derive(Debug)]
pub struct SharedAnswers {
    pub answers: Answers,
    pub faults: Faults,
}

#[derive(Debug)]
pub struct Connection {
    number: u32,
    in_session: bool,
    /// The beginning of an incomplete message.
    pending: Vec<u8>,
    /// How many bytes of COPY data come before the next message.
    passing_bytes: usize,
    pub(crate) transaction: TxStatus,
    /// Set after an error, until the next Sync.
    skipping: bool,
    pub(crate) copy: Option<CopyIn>,
    pub(crate) unnamed: Option<Statement>,
    pub(crate) portal: Option<Portal>,
    pub(crate) statements: Names<Statement>,
    pub(crate) portals: Names<Portal>,
}

/// A COPY from the client that is in progress.
#[derive(Debug)]
pub(crate) struct CopyIn {
    rows: u64,
    /// Whether ReadyForQuery follows it, or the client's Sync.
    pub by_simple_query: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement {
    pub answer: Answer,
    pub parameters: u16,
}

/// Whether rows are sent with their description, and in which format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// With the description and in text format, as in the simple protocol.
    Described,
    Bare(Format),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Portal {
    pub(crate) answer: Answer,
    pub(crate) format: Format,
}

impl Connection {
    /// A connection before its first byte. The client receives `number` as the backend's PID.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            in_session: false,
            pending: Vec::new(),
            passing_bytes: 0,
            transaction: TxStatus::Idle,
            skipping: false,
            copy: None,
            unnamed: None,
            portal: None,
            statements: Names::default(),
            portals: Names::default(),
        }
    }

    pub fn in_session(&self) -> bool {
        self.in_session
    }

    /// Processes bytes in chunks of any size, and appends the answers to `out`.
    pub fn receive(&mut self, input: &[u8], shared: &SharedAnswers, out: &mut Vec<u8>) -> Turn {
        if self.pending.is_empty() {
            let (used, turn) = self.take(input, shared, out);
            self.pending.extend_from_slice(&input[used..]);
            return turn;
        }
        let mut joined = mem::take(&mut self.pending);
        joined.extend_from_slice(input);
        let (used, turn) = self.take(&joined, shared, out);
        joined.drain(..used);
        if !joined.is_empty() {
            if joined.capacity() > KEPT_BYTES.max(4 * joined.len()) {
                joined.shrink_to_fit();
            }
            self.pending = joined;
        }
        turn
    }

    /// Processes the complete messages at the front; returns how many bytes they had.
    fn take(&mut self, input: &[u8], shared: &SharedAnswers, out: &mut Vec<u8>) -> (usize, Turn) {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            if self.passing_bytes > 0 {
                at += self.pass(rest);
                if self.passing_bytes > 0 {
                    return (at, Turn::Open);
                }
                continue;
            }
            if !self.in_session {
                match startup_packet::take(rest, self.number, &shared.answers, out) {
                    Packet::NeedMore => return (at, Turn::Open),
                    Packet::Close => return (input.len(), Turn::Close),
                    Packet::Answered(bytes) => at += bytes,
                    Packet::Begun(bytes) => {
                        self.in_session = true;
                        at += bytes;
                    }
                }
                continue;
            }
            let Some((header, body)) = rest.split_first_chunk::<HEADER_BYTES>() else {
                return (at, Turn::Open);
            };
            let [kind, length @ ..] = *header;
            let Some(length) = body_bytes(kind, u32::from_be_bytes(length)) else {
                let text = "invalid message length";
                encode::error(out, "FATAL", SqlState::PROTOCOL_VIOLATION, text);
                return (input.len(), Turn::Close);
            };
            if kind == b'd' {
                self.passing_bytes = length;
                at += HEADER_BYTES;
                continue;
            }
            let Some(body) = body.get(..length) else {
                return (at, Turn::Open);
            };
            at += HEADER_BYTES + length;
            if self.message(kind, body, shared, out) == Turn::Close {
                return (input.len(), Turn::Close);
            }
        }
    }

    /// Skips COPY data; returns how much. Outside of a COPY it belongs to one that failed.
    fn pass(&mut self, data: &[u8]) -> usize {
        let bytes = self.passing_bytes.min(data.len());
        if let Some(copy) = &mut self.copy {
            let ends = data[..bytes].iter().filter(|&&byte| byte == b'\n');
            copy.rows += ends.count() as u64;
        }
        self.passing_bytes -= bytes;
        bytes
    }

    fn message(&mut self, kind: u8, body: &[u8], shared: &SharedAnswers, out: &mut Vec<u8>) -> Turn {
        if kind == b'X' {
            return Turn::Close;
        }
        if self.copy.is_some() {
            self.in_copy(kind, body, out);
            return Turn::Open;
        }
        if self.skipping && kind != b'S' {
            return Turn::Open;
        }
        let done = match kind {
            b'B' => self.bind(body, out),
            b'E' => self.execute(body, shared, out),
            b'S' => {
                self.sync(out);
                Ok(())
            }
            b'Q' => return self.simple_query(body, shared, out),
            b'P' => self.parse(body, out),
            b'D' => self.describe(body, shared, out),
            b'C' => self.close(body, out),
            // Flush needs no action, because answers are always sent; the others belong to a COPY that failed
            b'H' | b'c' | b'f' => Ok(()),
            b'F' => {
                let text = "function calls are not supported";
                self.fail(&Trouble::new(SqlState::FEATURE_NOT_SUPPORTED, text), out);
                encode::ready(out, self.transaction);
                Ok(())
            }
            other => {
                let text = format!("invalid frontend message type {other}");
                encode::error(out, "FATAL", SqlState::PROTOCOL_VIOLATION, &text);
                return Turn::Close;
            }
        };
        match done {
            Ok(()) => Turn::Open,
            Err(Stop::Close) => Turn::Close,
            Err(Stop::Trouble(trouble)) => {
                self.fail(&trouble, out);
                self.skipping = true;
                Turn::Open
            }
        }
    }

    /// Appends the error; an open transaction block has failed.
    pub(crate) fn fail(&mut self, trouble: &Trouble, out: &mut Vec<u8>) {
        encode::error(out, "ERROR", trouble.code, &trouble.text);
        if self.transaction == TxStatus::InBlock {
            self.transaction = TxStatus::Failed;
        }
    }

    fn sync(&mut self, out: &mut Vec<u8>) {
        self.skipping = false;
        if self.transaction == TxStatus::Idle {
            // a portal ends with its transaction
            self.portal = None;
            self.portals.clear();
        }
        encode::ready(out, self.transaction);
    }

    /// The answer to a statement on this connection. SQL's PREPARE and DEALLOCATE take effect here,
    /// because nothing is decided when a statement is executed.
    pub(crate) fn resolve(&mut self, meaning: Meaning<'_>) -> Result<Answer, Trouble> {
        match meaning {
            Meaning::Answer(answer) => Ok(answer),
            Meaning::Unknown(word) => {
                let word = String::from_utf8_lossy(&word[..word.len().min(64)]);
                let text = format!("syntax error at or near \"{word}\"");
                Err(Trouble::new(SqlState::SYNTAX_ERROR, text))
            }
            Meaning::Prepare(name, inner) => {
                let done = Answer::Done("PREPARE");
                let answer = self.resolve(*inner)?;
                self.check_transaction(done)?;
                let statement = Statement { answer, parameters: 0 };
                self.prepare(name, statement)?;
                Ok(done)
            }
            Meaning::Execute(name) => {
                let known = self.statements.get(name);
                let statement = known.ok_or_else(|| Trouble::no_statement(name))?;
                Ok(statement.answer)
            }
            Meaning::Deallocate(name, tag) => {
                let done = Answer::Done(tag);
                self.check_transaction(done)?;
                match name {
                    None => self.statements.clear(),
                    Some(name) => {
                        let removed = self.statements.remove(name);
                        removed.ok_or_else(|| Trouble::no_statement(name))?;
                    }
                }
                Ok(done)
            }
        }
    }

    pub(crate) fn prepare(&mut self, name: &[u8], statement: Statement) -> Result<(), Trouble> {
        if self.statements.get(name).is_some() {
            let name = String::from_utf8_lossy(name);
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(Trouble::new(SqlState::DUPLICATE_PREPARED_STATEMENT, text));
        }
        let inserted = self.statements.insert(name, statement);
        inserted.map_err(|_| too_many("prepared statements"))
    }

    /// Refuses everything in a failed transaction block except its end.
    pub(crate) fn check_transaction(&self, answer: Answer) -> Result<(), Trouble> {
        if self.transaction == TxStatus::Failed && !answer.ends_failure() {
            return Err(Trouble::in_failed_transaction());
        }
        Ok(())
    }

    /// Drops the unnamed statement and portal, as a simple query does.
    pub(crate) fn drop_unnamed(&mut self) {
        self.unnamed = None;
        self.portal = None;
    }

    pub(crate) fn run(
        &mut self, answer: Answer, rows: Rows, shared: &SharedAnswers, out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        if answer.is_load() {
            match shared.faults.next() {
                Fault::None => {}
                Fault::Error(code) => {
                    return Err(Trouble::new(code, "error on demand (--error-every)").into());
                }
                Fault::Close => return Err(Stop::Close),
            }
        }
        match answer {
            Answer::Empty => encode::bare(out, b'I'),
            Answer::Done(tag) | Answer::Changed(tag) => encode::complete(out, tag),
            Answer::Rows(set) => out.extend_from_slice(match rows {
                Rows::Described => shared.answers.described_rows(set),
                Rows::Bare(format) => shared.answers.rows(set, format),
            }),
            Answer::Begin(tag) => {
                self.transaction = TxStatus::InBlock;
                encode::complete(out, tag);
            }
            Answer::Commit if self.transaction != TxStatus::Failed => self.end(out, "COMMIT"),
            Answer::Commit | Answer::Rollback => self.end(out, "ROLLBACK"),
            Answer::RollbackToSavepoint if self.transaction == TxStatus::Idle => {
                let text = "ROLLBACK TO SAVEPOINT can only be used in transaction blocks";
                return Err(Trouble::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text).into());
            }
            Answer::RollbackToSavepoint => {
                self.transaction = TxStatus::InBlock;
                encode::complete(out, "ROLLBACK");
            }
            Answer::CopyIn => {
                self.copy = Some(CopyIn { rows: 0, by_simple_query: rows == Rows::Described });
                // in text format, with an unknown number of columns
                encode::message(out, b'G', |out| out.extend_from_slice(&[0, 0, 0]));
            }
            Answer::CopyOut => out.extend_from_slice(shared.answers.copy_out()),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>, tag: &str) {
        self.transaction = TxStatus::Idle;
        encode::complete(out, tag);
    }

    /// Handles a message while COPY data is awaited.
    fn in_copy(&mut self, kind: u8, body: &[u8], out: &mut Vec<u8>) {
        if matches!(kind, b'H' | b'S') {
            return;
        }
        let Some(copy) = self.copy.take() else { return };
        let trouble = match kind {
            b'c' => {
                encode::complete(out, &format!("COPY {}", copy.rows));
                None
            }
            b'f' => {
                let reason = split_cstr(body).map_or(&b""[..], |(reason, _)| reason);
                let reason = String::from_utf8_lossy(&reason[..reason.len().min(1024)]);
                let text = format!("COPY from stdin failed: {reason}");
                Some(Trouble::new(SqlState::QUERY_CANCELED, text))
            }
            other => {
                let text = format!("unexpected message type 0x{other:02X} during COPY from stdin");
                Some(Trouble::new(SqlState::PROTOCOL_VIOLATION, text))
            }
        };
        if let Some(trouble) = &trouble {
            self.fail(trouble, out);
        }
        if copy.by_simple_query {
            encode::ready(out, self.transaction);
        } else {
            self.skipping = trouble.is_some();
        }
    }
}

/// Length of a message's body; None if the message is not accepted.
fn body_bytes(kind: u8, length: u32) -> Option<usize> {
    let body = (length as usize).checked_sub(4)?;
    (body <= LONGEST_MESSAGE_BYTES || kind == b'd').then_some(body)
}

pub(crate) fn too_many(what: &str) -> Trouble {
    let text = format!("too many {what}, or a name that is too long");
    Trouble::new(SqlState::OUT_OF_MEMORY, text)
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
