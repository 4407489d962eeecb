//! Sends data with COPY FROM STDIN.

use std::io;

use pgdyno_wire::frontend;

use crate::blocking_session::Session;
use crate::message_stream::Event;
use crate::patience::block_on;
use crate::session_error::SessionError;

/// How many bytes are collected before they are sent.
const BUFFER_BYTES: usize = 256 * 1024;
/// Length of the type and the length of a CopyData message.
const HEADER_BYTES: usize = 5;
/// Longest CopyData message that is sent; far below the protocol's limit.
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

impl Session {
    /// Starts a `COPY ... FROM STDIN`, a single statement.
    ///
    /// # Errors
    /// The server refused it, it is another kind of statement, or the connection is lost.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, SessionError> {
        block_on(self.begin_query(sql))?;
        let mut copy = CopyIn::new(self);
        match copy.outcome()? {
            None => Ok(copy),
            Some(_) => Err(SessionError::Unexpected("could not start COPY: the statement is not COPY FROM STDIN")),
        }
    }
}

/// A COPY in progress: accepts its data in pieces of any size.
///
/// The caller must call [`CopyIn::finish`] or [`CopyIn::abort`]; if it is dropped before, the
/// session is unusable, and the server aborts the COPY when the session is dropped, too.
#[derive(Debug)]
pub struct CopyIn<'a> {
    session: &'a mut Session,
    /// Room for a header, followed by the data.
    frame: Vec<u8>,
    /// Whether the server still accepts data.
    open: bool,
}

impl<'a> CopyIn<'a> {
    fn new(session: &'a mut Session) -> Self {
        let mut frame = Vec::with_capacity(HEADER_BYTES + BUFFER_BYTES + BUFFER_BYTES / 4);
        frame.extend_from_slice(&[0; HEADER_BYTES]);
        CopyIn { session, frame, open: true }
    }

    /// Adds data.
    ///
    /// # Errors
    /// The server has refused earlier data, or the connection is lost. The COPY is then over, and
    /// every further call returns [`SessionError::Unusable`].
    pub fn write(&mut self, data: &[u8]) -> Result<(), SessionError> {
        self.write_with(|buffer| buffer.extend_from_slice(data))
    }

    /// Adds data in place: `fill` appends to the buffer, preferably several rows, and must not change its contents.
    pub fn write_with(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), SessionError> {
        if !self.open {
            return Err(SessionError::Unusable);
        }
        fill(&mut self.frame);
        if self.frame.len() < BUFFER_BYTES {
            return Ok(());
        }
        let result = self.flush();
        self.open &= result.is_ok();
        result
    }

    /// Ends the COPY; returns the number of rows that were copied.
    ///
    /// # Errors
    /// The server refused the data, or the connection is lost.
    pub fn finish(mut self) -> Result<u64, SessionError> {
        if !self.open {
            return Err(SessionError::Unusable);
        }
        self.flush()?;
        let mut done = Vec::new();
        frontend::copy_done(&mut done);
        self.session.send(&done)?;
        Ok(self.outcome()?.unwrap_or(0))
    }

    /// Makes the COPY fail with this reason. The session remains usable.
    ///
    /// # Errors
    /// The connection is lost, or the reason contains a zero byte.
    pub fn abort(mut self, reason: &str) -> Result<(), SessionError> {
        if !self.open {
            return Ok(());
        }
        block_on(self.session.refuse_copy(reason))?;
        match self.outcome() {
            Ok(_) | Err(SessionError::Server(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends the collected data, unless the server has refused earlier data.
    fn flush(&mut self) -> Result<(), SessionError> {
        if self.session.refusal_waits()? {
            // The server has ended the COPY, so only its answer is left to read.
            return Err(self
                .outcome()
                .err()
                .unwrap_or(SessionError::Unexpected("could not continue COPY: the server ended it")));
        }
        let data_bytes = self.frame.len().saturating_sub(HEADER_BYTES);
        if (1..=MAX_FRAME_BYTES).contains(&data_bytes) {
            // the header is filled in, so that one message is sent without a copy
            let header = header(data_bytes);
            for (place, byte) in self.frame.iter_mut().zip(header) {
                *place = byte;
            }
            self.session.send(&self.frame)?;
        } else {
            let data = self.frame.get(HEADER_BYTES..).unwrap_or_default();
            for piece in data.chunks(MAX_FRAME_BYTES) {
                self.session.send(&header(piece.len()))?;
                self.session.send(piece)?;
            }
        }
        self.frame.resize(HEADER_BYTES, 0);
        Ok(())
    }

    /// The number of rows at the end of the answer; None if the server waits for data.
    fn outcome(&mut self) -> Result<Option<u64>, SessionError> {
        let mut copied = 0;
        let mut failure = None;
        loop {
            match block_on(self.session.next_event())? {
                Event::CopyIn => return Ok(None),
                Event::Ready(status) => {
                    self.session.ready(status);
                    return failure.map_or(Ok(Some(copied)), Err);
                }
                Event::Complete { rows, .. } => copied = rows.unwrap_or(0),
                Event::Error(error) => {
                    failure.get_or_insert(SessionError::Server(error));
                }
                _ => {}
            }
        }
    }
}

fn header(data_bytes: usize) -> [u8; HEADER_BYTES] {
    let [l0, l1, l2, l3] = (data_bytes as u32 + 4).to_be_bytes();
    [b'd', l0, l1, l2, l3]
}

impl io::Write for CopyIn<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        CopyIn::write(self, data).map_err(io::Error::other)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
