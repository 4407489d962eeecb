//! The hot path of a load engine: scans the server's answers as a stream.

use crate::assembler::{Assembler, Kept, Skips};
use crate::backend::{CommandTag, Row, RowDescription, TxStatus, malformed};
use crate::error::{ProtocolError, ServerError};
use crate::message_limits::MAX_ERROR_BYTES;
use crate::parts::Parts;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// Rows, their descriptions and COPY data are skipped unread.
    #[default]
    None,
    Rows,
}

/// A reply that callers may need. Other messages (ParseComplete, BindComplete, CloseComplete,
/// NoData, ParameterDescription, NotificationResponse, FunctionCallResponse) are not reported.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// ReadyForQuery: the answer to a query or a Sync is complete.
    Ready(TxStatus),
    /// A command is complete. Only if completions are enabled.
    Complete(CommandTag<'a>),
    /// The query was empty. Only if completions are enabled.
    EmptyQuery,
    /// Execute returned the requested number of rows, and there are more. Only if completions are enabled.
    PortalSuspended,
    /// The command failed; the server skips everything up to the next Sync.
    Error(Box<ServerError>),
    /// A notice or a warning; it may come at any time.
    Notice(Box<ServerError>),
    /// The columns of the rows to come. Only with [`Capture::Rows`].
    RowDescription(RowDescription<'a>),
    /// A row. Only with [`Capture::Rows`].
    Row(Row<'a>),
    CopyIn,
    CopyOut,
    /// The server begins COPY in both directions (replication only).
    CopyBoth,
    /// COPY data from the server. Only with [`Capture::Rows`].
    CopyData(&'a [u8]),
    /// The server has sent all its COPY data.
    CopyDone,
    /// A parameter that the server reports has a new value.
    ParameterStatus {
        name: &'a [u8],
        value: &'a [u8],
    },
}

/// Scans the answers of one connection, after start-up.
///
/// Pass it every received chunk, in order, whatever its size. It buffers only the bodies of replies
/// that are cut by the end of a chunk: at most 64 KiB of an error (the rest is dropped), and rows
/// only if they are reported. After a protocol error the connection is unusable; if the boundaries
/// of messages were lost, every further call returns the same error.
///
/// ```
/// use pgdyno_wire::{Capture, Exchange, Reply, TxStatus};
/// let mut exchange = Exchange::new(Capture::None, false);
/// let mut chunk: &[u8] = b"2\0\0\0\x04D\0\0\0\x0b\0\x01\0\0\0\x017C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
/// assert_eq!(exchange.next(&mut chunk), Ok(Some(Reply::Ready(TxStatus::Idle))));
/// assert_eq!(exchange.next(&mut chunk), Ok(None));
/// ```
#[derive(Debug)]
pub struct Exchange {
    assembler: Assembler,
    capture: Capture,
    completions: bool,
    skips: Skips,
}

/// Messages that are never reported.
const NEVER_WANTED: Skips = Skips::of(b"123ntAV");
/// Messages that only [`Capture::Rows`] reports.
const ROWS: Skips = Skips::of(b"TDd");
/// Messages that are only reported if completions are enabled.
const COMPLETIONS: Skips = Skips::of(b"CIs");

fn skips(capture: Capture, completions: bool) -> Skips {
    let mut skips = NEVER_WANTED;
    if capture == Capture::None {
        skips = skips.and(ROWS);
    }
    if !completions {
        skips = skips.and(COMPLETIONS);
    }
    skips
}

fn size_limit(kind: u8) -> Kept {
    match kind {
        b'E' | b'N' => Some(MAX_ERROR_BYTES),
        b'Z' | b'C' | b'D' | b'T' | b'I' | b's' | b'S' | b'G' | b'H' | b'W' | b'c' | b'd' => Some(u32::MAX),
        _ => None,
    }
}

impl Exchange {
    /// A scanner at a message boundary. With `completions` off, the ends of single commands are
    /// skipped, too, and a successful answer gives only [`Reply::Ready`].
    pub fn new(capture: Capture, completions: bool) -> Self {
        Exchange { assembler: Assembler::new(), capture, completions, skips: skips(capture, completions) }
    }

    /// Sets whether rows are reported from the next message on.
    pub fn set_capture(&mut self, capture: Capture) {
        self.capture = capture;
        self.skips = skips(capture, self.completions);
    }

    /// Whether the stream is between two messages, so that another reader can take over.
    pub fn at_boundary(&self) -> bool {
        self.assembler.at_boundary()
    }

    /// Size of the buffer for cut messages.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.assembler.buffer_bytes()
    }

    /// Consumes `input` up to and including the next reply that is reported, and returns it; `None`
    /// when the input is used up.
    ///
    /// # Errors
    /// The stream is not the protocol, or contains a message that is not allowed after start-up.
    #[inline]
    pub fn next<'s, 'a: 's>(&'s mut self, input: &mut &'a [u8]) -> Result<Option<Reply<'s>>, ProtocolError> {
        match self.assembler.pull(input, self.skips, size_limit)? {
            Some((b'Z', body)) => Ok(Some(Reply::Ready(TxStatus::parse(body)?))),
            Some((kind, body)) => reply(kind, body).map(Some),
            None => Ok(None),
        }
    }
}

fn reply(kind: u8, body: &[u8]) -> Result<Reply<'_>, ProtocolError> {
    Ok(match kind {
        b'C' => Reply::Complete(CommandTag::parse(body)?),
        b'D' => Reply::Row(Row::parse(body)?),
        b'T' => Reply::RowDescription(RowDescription::parse(body)?),
        b'E' => Reply::Error(Box::new(ServerError::parse(body))),
        b'N' => Reply::Notice(Box::new(ServerError::parse(body))),
        b'I' => Reply::EmptyQuery,
        b's' => Reply::PortalSuspended,
        b'G' => Reply::CopyIn,
        b'H' => Reply::CopyOut,
        b'W' => Reply::CopyBoth,
        b'd' => Reply::CopyData(body),
        b'c' => Reply::CopyDone,
        _ => {
            let (name, value) = parameter_status(body)?;
            Reply::ParameterStatus { name, value }
        }
    })
}

/// Reads the body of a ParameterStatus: name and value.
pub(crate) fn parameter_status(body: &[u8]) -> Result<(&[u8], &[u8]), ProtocolError> {
    let mut parts = Parts(body);
    let pair = parts.cstr().zip(parts.cstr()).filter(|_| parts.0.is_empty());
    pair.ok_or(malformed(b'S', "not a name and a value"))
}
