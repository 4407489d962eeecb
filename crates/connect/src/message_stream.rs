//! The two directions of a session: bytes are sent without a deadlock, and events are received.

use std::collections::VecDeque;
use std::io;

use pgdyno_wire::startup::Facts;
use pgdyno_wire::{Capture, Exchange, Reply, ServerError, TxStatus};

use crate::patience::Patience;
use crate::session_error::SessionError;
use crate::stream::{RECEIVE_BYTES, Stream};

/// How many notices are kept until they are taken.
const MAX_NOTICES: usize = 64;
/// Longest answer in bytes: a set-up query has a few rows, and all of them are kept.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug)]
pub(crate) enum Event {
    Ready(TxStatus),
    Complete { tag: String, rows: Option<u64> },
    EmptyQuery,
    Error(Box<ServerError>),
    Columns(Vec<String>),
    Row(Vec<Option<String>>),
    CopyIn,
    CopyOut,
    CopyBoth,
}

/// A stream with its scanner and the received bytes that were not read yet.
pub(crate) struct Link {
    pub(crate) stream: Stream,
    pub(crate) facts: Facts,
    exchange: Exchange,
    buffer: Vec<u8>,
    unread: std::ops::Range<usize>,
    events: VecDeque<Event>,
    last_fatal: Option<Box<ServerError>>,
    answer_bytes: usize,
    pub(crate) patience: Patience,
}

impl Link {
    pub(crate) fn new(stream: Stream, facts: Facts, patience: Patience) -> Self {
        Link {
            stream,
            facts,
            exchange: Exchange::new(Capture::Rows, true),
            buffer: vec![0; RECEIVE_BYTES],
            unread: 0..0,
            events: VecDeque::new(),
            last_fatal: None,
            answer_bytes: 0,
            patience,
        }
    }

    /// Whether the stream can be handed on: no message is partly read, and none waits.
    pub(crate) fn is_quiet(&self) -> bool {
        self.exchange.at_boundary() && self.events.is_empty()
    }

    /// The stream, from which nothing was received that is not yet read.
    pub(crate) fn into_stream(mut self) -> Result<Stream, SessionError> {
        let unread = self.buffer.get(self.unread).is_some_and(|bytes| !bytes.is_empty());
        if unread || !self.stream.take_plain()?.is_empty() {
            return Err(SessionError::Unexpected(
                "could not hand on the socket: bytes were received that are not yet read",
            ));
        }
        Ok(self.stream)
    }

    /// Sends everything, and receives meanwhile, so that the two sides never wait for each other.
    pub(crate) async fn send(&mut self, mut bytes: &[u8]) -> Result<(), SessionError> {
        while !bytes.is_empty() {
            match self.stream.try_send(bytes) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stream.wait(true, &self.patience).await?;
                    self.receive_ready()?;
                }
                Err(error) => return Err(self.explained(error)),
            }
        }
        // a TLS session accepts more than the socket takes
        loop {
            match self.stream.try_flush() {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    self.stream.wait(true, &self.patience).await?;
                    self.receive_ready()?;
                }
                Err(error) => return Err(self.explained(error)),
            }
        }
    }

    pub(crate) fn receive_ready(&mut self) -> Result<(), SessionError> {
        loop {
            self.scan()?;
            self.patience.slice()?;
            match self.stream.try_recv(&mut self.buffer) {
                Ok(0) => return Err(SessionError::Closed(self.last_fatal.take())),
                Ok(bytes) => self.unread = 0..bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(self.explained(error)),
            }
        }
    }

    pub(crate) fn begin_answer(&mut self) {
        self.answer_bytes = 0;
    }

    /// The error that waits to be read, if the server has sent one.
    pub(crate) fn error_waits(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Error(_)))
    }

    pub(crate) async fn next(&mut self) -> Result<Event, SessionError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            self.scan()?;
            if self.events.is_empty() {
                self.fill().await?;
            }
        }
    }

    async fn fill(&mut self) -> Result<(), SessionError> {
        match self.stream.receive(&mut self.buffer, &self.patience).await {
            Ok(0) => Err(SessionError::Closed(self.last_fatal.take())),
            Ok(bytes) => {
                self.unread = 0..bytes;
                Ok(())
            }
            Err(error) => Err(self.explained(error)),
        }
    }

    fn explained(&mut self, error: io::Error) -> SessionError {
        match SessionError::from(error) {
            SessionError::Closed(None) => {
                while let Ok(bytes @ 1..) = self.stream.try_recv(&mut self.buffer) {
                    self.unread = 0..bytes;
                    if self.scan().is_err() {
                        break;
                    }
                }
                SessionError::Closed(self.last_fatal.take())
            }
            other => other,
        }
    }

    fn scan(&mut self) -> Result<(), SessionError> {
        let mut input = self.buffer.get(self.unread.clone()).unwrap_or_default();
        self.unread = 0..0;
        let mut unread_bytes = input.len();
        while let Some(reply) = self.exchange.next(&mut input)? {
            let reply_bytes = unread_bytes - input.len();
            unread_bytes = input.len();
            let event = match reply {
                Reply::Notice(notice) => {
                    if self.facts.notices.len() < MAX_NOTICES {
                        self.facts.notices.push(*notice);
                    }
                    continue;
                }
                Reply::ParameterStatus { name, value } => {
                    self.facts.set_parameter(name, value);
                    continue;
                }
                Reply::CopyData(_) | Reply::CopyDone | Reply::PortalSuspended => continue,
                Reply::Error(error) => {
                    if error.is_fatal() {
                        self.last_fatal = Some(error.clone());
                    }
                    Event::Error(error)
                }
                Reply::Ready(status) => Event::Ready(status),
                Reply::Complete(tag) => Event::Complete { tag: tag.to_text(), rows: tag.rows() },
                Reply::EmptyQuery => Event::EmptyQuery,
                Reply::RowDescription(columns) => {
                    Event::Columns(columns.fields().map(|field| text(field.name)).collect())
                }
                Reply::Row(row) => Event::Row(row.values().map(|value| value.map(text)).collect()),
                Reply::CopyIn => Event::CopyIn,
                Reply::CopyOut => Event::CopyOut,
                Reply::CopyBoth => Event::CopyBoth,
            };
            self.answer_bytes += reply_bytes;
            if self.answer_bytes > MAX_ANSWER_BYTES {
                return Err(SessionError::TooLong(MAX_ANSWER_BYTES));
            }
            self.events.push_back(event);
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
