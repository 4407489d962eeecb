//! Follows the messages of a session: which statements they are, and what the server answered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use pgdyno_wire::{CommandTag, Parts, Row, RowDescription, ServerError};

use crate::framer::{Framer, Sink};
use crate::record::{LONGEST_KEY, Reason, Statement, TEXT, Value, can_be_key, utf8};
use crate::requests::{Binding, Column, Columns, Parameters, Portal, Prepared, Request, bind, format_of, text};

/// Rows of an answer that are kept, and about how many bytes of them.
const ANSWER_ROWS: u64 = 100;
const ANSWER_BYTES: usize = 64 * 1024;
/// Longest message that is read, and most data of a COPY that is kept.
pub const LONGEST: usize = 16 << 20;

/// The answer to the request at the front.
#[derive(Debug, Default)]
struct Answer {
    columns: Option<Columns>,
    /// Whether the client knows the columns from elsewhere: then a row says how many there are.
    is_undescribed: bool,
    formats: Vec<u16>,
    values: Vec<Value>,
    bytes: usize,
    kept_rows: u64,
    is_full: bool,
    rows: Option<u64>,
    sqlstate: Option<String>,
    copy_bytes: Option<u64>,
    /// Rows of a COPY in text; None if they are not kept.
    copy: Option<Vec<u8>>,
    ended_at: Option<i64>,
}

/// The state of a session, and the statements that have ended since they were last taken.
#[derive(Debug)]
pub struct Tracker {
    client: Option<Framer>,
    server: Option<Framer>,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    keeps_copy: bool,
    is_utf8: bool,
    application: String,
    statements: HashMap<Vec<u8>, Prepared>,
    portals: HashMap<Vec<u8>, Portal>,
    requests: VecDeque<Request>,
    /// Whether the server ignores what the client sends until Sync.
    is_skipping: bool,
    /// Whether the client's rows for a COPY are awaited.
    is_copying: bool,
    /// When the first message of the next Execute arrived.
    began: Option<i64>,
    /// When the statement before ended.
    ended: i64,
    now: i64,
    is_in_block: bool,
    answer: Answer,
    done: Vec<Statement>,
}

impl Tracker {
    pub fn new(application: String, keeps_copy: bool, now: i64) -> Self {
        let state = State { keeps_copy, is_utf8: true, application, now, ..State::default() };
        Tracker { client: Some(Framer::default()), server: Some(Framer::default()), state }
    }

    /// Reads what the client sent; times are in µs.
    pub fn client_sent(&mut self, bytes: &[u8], now: i64) {
        self.state.now = now;
        if self.client.as_mut().is_some_and(|framer| framer.feed(bytes, &mut Client(&mut self.state)).is_err()) {
            self.lose(Reason::Unreadable);
        }
    }

    /// Reads what the server sent.
    pub fn server_sent(&mut self, bytes: &[u8], now: i64) {
        self.state.now = now;
        if self.server.as_mut().is_some_and(|framer| framer.feed(bytes, &mut Server(&mut self.state)).is_err()) {
            self.lose(Reason::Unreadable);
        }
    }

    /// Stops following the session, and says so with a statement of that reason.
    pub fn lose(&mut self, reason: Reason) {
        if self.client.take().is_some() {
            self.server = None;
            self.state.done.push(Statement { at: self.state.now, reason: Some(reason), ..Statement::default() });
        }
    }

    pub fn application(&self) -> &str {
        &self.state.application
    }

    /// Whether the session neither runs a statement nor has an open transaction.
    pub fn is_idle(&self) -> bool {
        self.client.is_some() && self.state.requests.is_empty() && !self.state.is_in_block
    }

    /// The session has ended: a statement that still ran has no time.
    pub fn finish(&mut self) {
        if self.client.is_some() {
            self.state.finish_front();
        }
    }

    pub fn take(&mut self) -> std::vec::Drain<'_, Statement> {
        self.state.done.drain(..)
    }
}

struct Client<'a>(&'a mut State);

impl Sink for Client<'_> {
    fn wants(&mut self, kind: u8, body_bytes: usize) -> bool {
        match kind {
            b'Q' | b'P' | b'B' => body_bytes <= LONGEST,
            b'd' => {
                let state = &self.0;
                let kept = state.answer.copy.as_ref().map(Vec::len);
                kept.is_some_and(|kept| state.is_copying && kept + body_bytes <= LONGEST)
            }
            b'D' | b'E' | b'C' => body_bytes <= 1024,
            _ => false,
        }
    }

    fn message(&mut self, kind: u8, body: Option<&[u8]>, body_bytes: usize) {
        self.0.take_request(kind, body, body_bytes);
    }
}

struct Server<'a>(&'a mut State);

impl Sink for Server<'_> {
    fn wants(&mut self, kind: u8, body_bytes: usize) -> bool {
        match kind {
            b'D' => {
                let answer = &mut self.0.answer;
                let has_columns = answer.columns.is_some() || answer.is_undescribed;
                let wanted = has_columns && !answer.is_full && body_bytes <= ANSWER_BYTES;
                answer.is_full |= !wanted;
                wanted
            }
            b'T' | b't' | b'E' => body_bytes <= LONGEST,
            b'C' | b'Z' | b'G' | b'S' => body_bytes <= 1024,
            _ => false,
        }
    }

    fn message(&mut self, kind: u8, body: Option<&[u8]>, _body_bytes: usize) {
        self.0.take_answer(kind, body);
    }
}

impl State {
    fn take_request(&mut self, kind: u8, body: Option<&[u8]>, body_bytes: usize) {
        let now = self.now;
        let mut parts = Parts(body.unwrap_or_default());
        let request = match kind {
            b'Q' => Request::Query { sql: body.and_then(|_| parts.cstr()).map(Arc::from), at: now },
            b'P' => {
                self.began.get_or_insert(now);
                let name = parts.cstr().unwrap_or_default().to_vec();
                let sql = parts.cstr().map(Arc::from);
                let types = (0..parts.u16().unwrap_or(0)).map_while(|_| parts.u32()).collect();
                Request::Parse(Prepared { name, sql, types, columns: None })
            }
            b'B' => {
                self.began.get_or_insert(now);
                Request::Bind(body.and_then(bind).unwrap_or_default())
            }
            b'D' | b'C' => {
                let is_portal = parts.byte() == Some(b'P');
                let name = parts.cstr().unwrap_or_default().to_vec();
                match (kind, is_portal) {
                    (b'C', _) => Request::Close { is_portal, name },
                    (_, true) => Request::DescribePortal(name),
                    (_, false) => Request::DescribeStatement(name),
                }
            }
            b'E' => {
                let portal = parts.cstr().unwrap_or_default().to_vec();
                Request::Execute { portal, at: self.began.take().unwrap_or(now) }
            }
            b'S' => {
                self.began = None;
                Request::Sync
            }
            b'F' => Request::Call { at: now },
            b'd' => {
                if self.is_copying {
                    self.keep_copy(body, body_bytes);
                }
                return;
            }
            b'c' | b'f' => {
                // before the server has asked for rows, only the order tells what they are for
                if !std::mem::take(&mut self.is_copying) && !self.requests.is_empty() {
                    self.requests.push_back(Request::CopyEnd);
                }
                return;
            }
            _ => return,
        };
        let is_sync = matches!(request, Request::Sync);
        // a server that awaits rows, and one that skips, ignores it
        if (self.is_copying && is_sync) || (self.is_skipping && !is_sync) {
            return;
        }
        self.is_skipping = false;
        self.requests.push_back(request);
        self.prepare_answer();
    }

    fn keep_copy(&mut self, body: Option<&[u8]>, body_bytes: usize) {
        let answer = &mut self.answer;
        *answer.copy_bytes.get_or_insert(0) += body_bytes as u64;
        match (body, &mut answer.copy) {
            (Some(body), Some(kept)) => kept.extend_from_slice(body),
            _ => answer.copy = None,
        }
    }

    fn take_answer(&mut self, kind: u8, body: Option<&[u8]>) {
        while matches!(self.requests.front(), Some(Request::CopyEnd)) {
            self.requests.pop_front();
        }
        let body = body.unwrap_or_default();
        match kind {
            b'T' | b'n' => self.describe_answer(RowDescription::parse(body).ok().filter(|_| kind == b'T')),
            b'D' => self.keep_row(body),
            b'C' => {
                self.answer.rows = CommandTag::parse(body).ok().and_then(CommandTag::rows);
                self.complete_statement(true);
            }
            b's' => self.complete_statement(true),
            b'I' => match self.requests.front() {
                Some(Request::Execute { .. }) => self.complete_statement(false),
                _ => self.answer.ended_at = Some(self.now),
            },
            b'E' => self.fail_statement(ServerError::parse(body).sqlstate().as_str()),
            b'Z' => {
                self.is_in_block = body != b"I";
                self.ready();
            }
            b'1' => {
                if let Some(Request::Parse(prepared)) = self.take_front(|it| matches!(it, Request::Parse(_))) {
                    self.statements.insert(prepared.name.clone(), prepared);
                }
            }
            b'2' => {
                if let Some(Request::Bind(binding)) = self.take_front(|it| matches!(it, Request::Bind(_))) {
                    let name = binding.portal.clone();
                    let portal = self.portal(binding);
                    self.portals.insert(name, portal);
                    self.prepare_answer();
                }
            }
            b'3' => {
                if let Some(Request::Close { is_portal, name }) =
                    self.take_front(|it| matches!(it, Request::Close { .. }))
                {
                    if is_portal {
                        self.portals.remove(&name);
                    } else {
                        self.statements.remove(&name);
                    }
                    self.prepare_answer();
                }
            }
            b't' => {
                if let Some(Request::DescribeStatement(name)) = self.requests.front()
                    && let Some(prepared) = self.statements.get_mut(name)
                {
                    let mut parts = Parts(body);
                    prepared.types = (0..parts.u16().unwrap_or(0)).map_while(|_| parts.u32()).collect();
                }
            }
            b'G' => self.awaits_copy(body),
            b'S' => {
                let mut parts = Parts(body);
                match (parts.cstr(), parts.cstr()) {
                    (Some(b"application_name"), Some(name)) => self.application = text(name),
                    (Some(b"client_encoding"), Some(name)) => self.is_utf8 = matches!(name, b"UTF8" | b"SQL_ASCII"),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn take_front(&mut self, is_it: impl Fn(&Request) -> bool) -> Option<Request> {
        if self.requests.front().is_some_and(is_it) { self.requests.pop_front() } else { None }
    }

    fn portal(&self, binding: Binding) -> Portal {
        let statement = self.statements.get(&binding.statement).cloned().unwrap_or_default();
        let columns = statement.columns.clone();
        let Binding { formats, parameters, .. } = binding;
        Portal { statement, columns, formats, parameters, has_begun: false }
    }

    fn describe_answer(&mut self, description: Option<RowDescription<'_>>) {
        let columns: Option<Columns> = description.map(|description| {
            description.fields().map(|field| Column { name: text(field.name), oid: field.type_oid }).collect()
        });
        match self.requests.front() {
            Some(Request::DescribeStatement(name)) => {
                if let Some(prepared) = self.statements.get_mut(name) {
                    prepared.columns = columns;
                }
                self.requests.pop_front();
            }
            Some(Request::DescribePortal(name)) => {
                if let Some(portal) = self.portals.get_mut(name) {
                    portal.columns = columns;
                }
                self.requests.pop_front();
            }
            Some(Request::Query { .. }) => {
                let copy_bytes = self.answer.copy_bytes;
                let copy = self.answer.copy.take();
                self.answer = Answer { copy_bytes, copy, ..Answer::default() };
                self.begin_answer(columns, Vec::new());
            }
            _ => {}
        }
        self.prepare_answer();
    }

    fn begin_answer(&mut self, columns: Option<Columns>, formats: Vec<u16>) {
        self.answer.columns = columns.filter(|columns| columns.iter().any(|column| can_be_key(column.oid)));
        self.answer.formats = formats;
    }

    /// Has the rows that follow kept for the Execute at the front.
    fn prepare_answer(&mut self) {
        if let Some(Request::Execute { portal, .. }) = self.requests.front()
            && self.answer.columns.is_none()
            && let Some(portal) = self.portals.get(portal)
        {
            let (columns, formats) = (portal.columns.clone(), portal.formats.clone());
            self.answer.is_undescribed = columns.is_none();
            self.begin_answer(columns, formats);
        }
    }

    fn keep_row(&mut self, body: &[u8]) {
        let answer = &mut self.answer;
        let Ok(row) = Row::parse(body) else { return };
        let columns = answer.columns.get_or_insert_with(|| {
            // the type of what is not text is unknown
            let oid = |number| if format_of(&answer.formats, number) == 0 { TEXT } else { 0 };
            row.values().enumerate().map(|(number, _)| Column { name: String::new(), oid: oid(number) }).collect()
        });
        for (number, (column, value)) in columns.iter().zip(row.values()).enumerate() {
            let value = value.filter(|value| can_be_key(column.oid) && value.len() <= 4 * LONGEST_KEY);
            let format = format_of(&answer.formats, number);
            let value = match Value::of(value, column.oid, format, self.is_utf8) {
                Ok(Value::Text(text)) if text.chars().count() > LONGEST_KEY => Value::Null,
                Ok(value) => value,
                Err(_) => Value::Null,
            };
            answer.bytes += value.bytes();
            answer.values.push(value);
        }
        answer.kept_rows += 1;
        answer.is_full |= answer.kept_rows == ANSWER_ROWS || answer.bytes > ANSWER_BYTES;
    }

    /// The server has answered a statement: of a Query, perhaps one of several.
    fn complete_statement(&mut self, is_statement: bool) {
        self.answer.ended_at = Some(self.now);
        if let Some(Request::Execute { .. }) = self.requests.front() {
            if is_statement {
                self.finish_front();
            }
            self.requests.pop_front();
            self.next_answer();
        }
    }

    fn next_answer(&mut self) {
        self.answer = Answer::default();
        self.prepare_answer();
    }

    fn awaits_copy(&mut self, body: &[u8]) {
        let is_text = body.first() == Some(&0);
        self.answer.copy_bytes.get_or_insert(0);
        self.answer.copy = (self.keeps_copy && is_text).then(Vec::new);
        // Flush and Sync are ignored while rows are awaited
        let ends = self.requests.iter().position(|request| matches!(request, Request::CopyEnd));
        self.is_copying = ends.is_none();
        if ends.is_some() {
            // rows that came before the server asked for them were not kept
            self.answer.copy = None;
        }
        let mut number = 0;
        let until = ends.unwrap_or(usize::MAX);
        self.requests.retain(|request| {
            number += 1;
            number > until || !matches!(request, Request::Sync)
        });
    }

    fn fail_statement(&mut self, sqlstate: &str) {
        self.is_copying = false;
        self.answer.sqlstate = Some(sqlstate.to_owned());
        self.answer.ended_at = Some(self.now);
        match self.requests.front() {
            Some(Request::Query { .. } | Request::Call { .. } | Request::Sync) | None => return,
            Some(Request::Execute { .. }) => self.finish_front(),
            Some(_) => self.finish_refused(),
        }
        match self.requests.iter().position(|request| matches!(request, Request::Sync)) {
            Some(place) => drop(self.requests.drain(..place)),
            None => {
                self.requests.clear();
                self.is_skipping = true;
            }
        }
        self.answer = Answer::default();
    }

    /// Records a statement that was refused when it was parsed or bound.
    fn finish_refused(&mut self) {
        let (mut prepared, mut parameters, mut at) = (None, Some(Arc::from([])), self.now);
        for request in &self.requests {
            match request {
                Request::Parse(it) if prepared.is_none() => prepared = Some(it.clone()),
                Request::Bind(it) => {
                    prepared = prepared.or_else(|| self.statements.get(&it.statement).cloned());
                    parameters = it.parameters.clone();
                }
                Request::Execute { at: began, .. } => {
                    at = *began;
                    break;
                }
                Request::Sync => break,
                _ => {}
            }
        }
        let Some(statement) = prepared else { return };
        let portal = Portal { statement, parameters, ..Portal::default() };
        self.finish_portal(&portal, at);
    }

    fn ready(&mut self) {
        while let Some(front) = self.requests.front() {
            match front {
                Request::Query { .. } | Request::Call { .. } => {
                    self.finish_front();
                    self.requests.pop_front();
                    break;
                }
                Request::Sync => {
                    self.requests.pop_front();
                    break;
                }
                _ => drop(self.requests.pop_front()),
            }
        }
        self.is_copying = false;
        if !self.is_in_block {
            self.portals.clear();
        }
        self.next_answer();
    }

    /// Records the request at the front, if it is a statement.
    fn finish_front(&mut self) {
        match self.requests.front() {
            Some(Request::Query { sql, at }) => {
                let (sql, at) = (sql.clone(), *at);
                self.finish(sql.as_deref(), None, Some(&Parameters::from([])), at, None);
            }
            Some(&Request::Call { at }) => self.finish(None, None, None, at, Some(Reason::FunctionCall)),
            Some(Request::Execute { portal, at }) => {
                let at = *at;
                let name = portal.clone();
                if let Some(mut portal) = self.portals.remove(&name) {
                    self.finish_portal(&portal, at);
                    portal.has_begun = true;
                    self.portals.insert(name, portal);
                }
            }
            _ => {}
        }
    }

    fn finish_portal(&mut self, portal: &Portal, at: i64) {
        let reason = portal.has_begun.then_some(Reason::PortalFetch);
        let (statement, parameters) = (&portal.statement, portal.parameters.as_ref());
        self.finish(statement.sql.as_deref(), Some(statement), parameters, at, reason);
    }

    fn finish(
        &mut self, sql: Option<&[u8]>, prepared: Option<&Prepared>, parameters: Option<&Parameters>, at: i64,
        mut reason: Option<Reason>,
    ) {
        let answer = std::mem::take(&mut self.answer);
        let is_utf8 = self.is_utf8;
        let (Some(sql), Some(parameters)) = (sql, parameters) else {
            let reason = Some(reason.unwrap_or(Reason::TooLong));
            self.done.push(Statement { at, reason, ..Statement::default() });
            return;
        };
        let types = prepared.map(|prepared| &*prepared.types).unwrap_or_default();
        let values = parameters.iter().enumerate().map(|(number, (value, format))| {
            Value::of(value.as_deref(), types.get(number).copied().unwrap_or(0), *format, is_utf8)
        });
        let (sql, values) = (utf8(sql, is_utf8), values.collect::<Result<Vec<_>, _>>());
        if sql.is_err() || values.is_err() {
            reason = Some(Reason::Encoding);
        }
        // in a pipeline, the server began when it had done what was before
        let at = at.max(self.ended);
        let us = answer.ended_at.map(|ended| ended - at);
        self.ended = answer.ended_at.unwrap_or(self.ended);
        let columns = answer.columns.filter(|_| reason.is_none() && answer.sqlstate.is_none());
        let copy = answer.copy.and_then(|bytes| utf8(&bytes, is_utf8).ok());
        self.done.push(Statement {
            at,
            us,
            sql: sql.ok(),
            name: prepared.map(|prepared| text(&prepared.name)),
            parameters: prepared.and(values.ok()),
            rows: answer.rows,
            sqlstate: answer.sqlstate,
            answer: columns.as_ref().map(|_| answer.values),
            answer_columns: columns.map(|columns| columns.iter().map(|column| column.name.clone()).collect()),
            copy: copy.map(|text| text.split_terminator('\n').filter(|&it| it != "\\.").map(str::to_owned).collect()),
            copy_bytes: answer.copy_bytes,
            reason,
        });
    }
}

#[cfg(test)]
#[path = "tracker_tests.rs"]
mod tests;
