//! Cuts a stream of chunks into messages, and keeps only the requested ones.

use crate::error::ProtocolError;
use crate::message_limits::{MAX_MESSAGE_BYTES, MAX_SHORT_MESSAGE_BYTES};

/// The length of a message's type and length.
const HEADER_BYTES: usize = 5;
/// A larger body buffer is released after its message.
const RETAINED_BYTES: usize = 64 * 1024;

/// Message types to skip, as a set of bits; their bodies need not be present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skips([u64; 2]);

impl Skips {
    pub(crate) const NONE: Skips = Skips([0; 2]);

    pub(crate) const fn of(kinds: &[u8]) -> Skips {
        let mut bits = [0; 2];
        let mut at = 0;
        while at < kinds.len() {
            bits[(kinds[at] >> 6 & 1) as usize] |= 1 << (kinds[at] & 63);
            at += 1;
        }
        Skips(bits)
    }

    pub(crate) fn and(self, other: Skips) -> Skips {
        Skips([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// Types above 127 have no bit of their own, because [`LONGEST`] refuses them before.
    #[inline(always)]
    fn has(self, kind: u8) -> bool {
        self.0[usize::from(kind >> 6 & 1)] >> (kind & 63) & 1 == 1
    }
}

/// How many bytes of a message's body are kept; `None` if the message is not allowed.
pub(crate) type Kept = Option<u32>;

/// The state of the stream between two chunks.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// In a header, of which this many bytes have arrived.
    Header(u8),
    /// In a body that is kept: the bytes that are still needed, and those after them to skip.
    Keep {
        wanted: u32,
        excess: u32,
    },
    Skip(u32),
    /// After an error, from which the stream cannot recover.
    Broken(ProtocolError),
}

/// The state that a stream needs between two chunks; it is small, and has no buffer until a message
/// that is kept is cut by the end of a chunk.
#[derive(Debug)]
pub(crate) struct Assembler {
    stage: Stage,
    header: [u8; HEADER_BYTES],
    body: Vec<u8>,
}

/// The greatest length field of each message type: 4 if the body is empty, 0 if there is no such message.
static LONGEST: [u32; 256] = longest();

const fn longest() -> [u32; 256] {
    let mut table = [0; 256];
    let groups: [(&[u8], u32); 4] =
        [(b"DTdVENAt", MAX_MESSAGE_BYTES), (b"CSGHWRKv", MAX_SHORT_MESSAGE_BYTES), (b"Z", 5), (b"123Insc", 4)];
    let mut group = 0;
    while group < groups.len() {
        let (kinds, limit) = groups[group];
        let mut at = 0;
        while at < kinds.len() {
            table[kinds[at] as usize] = limit;
            at += 1;
        }
        group += 1;
    }
    table
}

impl Assembler {
    pub(crate) fn new() -> Self {
        Assembler { stage: Stage::Header(0), header: [0; HEADER_BYTES], body: Vec::new() }
    }

    pub(crate) fn at_boundary(&self) -> bool {
        matches!(self.stage, Stage::Header(0))
    }

    /// Size of the buffer for cut messages.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.body.capacity()
    }

    /// The header of the message that was last begun in [`Assembler::resume`] or refused.
    pub(crate) fn header(&self) -> [u8; HEADER_BYTES] {
        self.header
    }

    /// Takes from `input` up to the end of the next message that is kept; returns its type and
    /// body, or `None` when the input is used up before.
    ///
    /// A body that is completely in `input` is not copied.
    #[inline(always)]
    pub(crate) fn pull<'s, 'a: 's>(
        &'s mut self, input: &mut &'a [u8], skips: Skips, kept: impl Fn(u8) -> Kept,
    ) -> Result<Option<(u8, &'s [u8])>, ProtocolError> {
        if !self.at_boundary() && self.resume(input, skips, &kept)? {
            return Ok(Some((self.header[0], &self.body)));
        }
        let mut rest = *input;
        while let Some((&header, tail)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let [kind, l0, l1, l2, l3] = header;
            let length = u32::from_be_bytes([l0, l1, l2, l3]);
            if length < 4 || length > LONGEST[usize::from(kind)] {
                *input = tail;
                return Err(self.refuse(header));
            }
            let whole = tail.split_at_checked(length as usize - 4);
            if skips.has(kind)
                && let Some((_, next)) = whole
            {
                rest = next;
                continue;
            }
            if let Some((body, next)) = whole
                && let Some(limit) = kept(kind)
            {
                *input = next;
                return Ok(Some((kind, &body[..body.len().min(limit as usize)])));
            }
            *input = tail;
            self.header = header;
            self.begin(skips, &kept)?;
            self.take_body(input);
            return Ok(None);
        }
        *input = rest;
        if !rest.is_empty() {
            self.take_header(input);
        }
        Ok(None)
    }

    /// Continues in the middle of a message. Returns true if it is now complete and was kept.
    #[cold]
    fn resume(&mut self, input: &mut &[u8], skips: Skips, kept: &impl Fn(u8) -> Kept) -> Result<bool, ProtocolError> {
        match self.stage {
            Stage::Broken(error) => return Err(error),
            Stage::Header(_) => {
                if !self.take_header(input) {
                    return Ok(false);
                }
                self.begin(skips, kept)?;
            }
            Stage::Keep { .. } | Stage::Skip(_) => {}
        }
        let kept = matches!(self.stage, Stage::Keep { .. });
        self.take_body(input);
        Ok(kept && self.at_boundary())
    }

    #[cold]
    fn take_header(&mut self, input: &mut &[u8]) -> bool {
        let Stage::Header(have) = self.stage else {
            return false;
        };
        let have = usize::from(have);
        let taken = input.len().min(HEADER_BYTES - have);
        let (part, rest) = input.split_at(taken);
        self.header[have..have + taken].copy_from_slice(part);
        *input = rest;
        self.stage = Stage::Header((have + taken) as u8);
        have + taken == HEADER_BYTES
    }

    #[cold]
    fn begin(&mut self, skips: Skips, kept: &impl Fn(u8) -> Kept) -> Result<(), ProtocolError> {
        let [kind, l0, l1, l2, l3] = self.header;
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        if length < 4 || length > LONGEST[usize::from(kind)] {
            return Err(self.refuse(self.header));
        }
        let body_bytes = length - 4;
        self.stage = if skips.has(kind) {
            Stage::Skip(body_bytes)
        } else if let Some(limit) = kept(kind) {
            self.body.clear();
            self.body.shrink_to(RETAINED_BYTES);
            Stage::Keep { wanted: body_bytes.min(limit), excess: body_bytes.saturating_sub(limit) }
        } else {
            return Err(self.refuse(self.header));
        };
        Ok(())
    }

    /// Takes bytes of a body; returns to the boundary when it is complete.
    ///
    /// The buffer grows with the received bytes, never with the length in the header.
    fn take_body(&mut self, input: &mut &[u8]) {
        if let Stage::Keep { wanted, excess } = self.stage {
            let (part, rest) = input.split_at(input.len().min(wanted as usize));
            self.body.extend_from_slice(part);
            *input = rest;
            let wanted = wanted - part.len() as u32;
            let excess = if wanted == 0 { skip(input, excess) } else { excess };
            self.stage = if wanted == 0 && excess == 0 { Stage::Header(0) } else { Stage::Keep { wanted, excess } };
        } else if let Stage::Skip(left) = self.stage {
            self.stage = match skip(input, left) {
                0 => Stage::Header(0),
                left => Stage::Skip(left),
            };
        }
    }

    #[cold]
    fn refuse(&mut self, header: [u8; HEADER_BYTES]) -> ProtocolError {
        let [kind, l0, l1, l2, l3] = header;
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        self.header = header;
        let known = LONGEST[usize::from(kind)];
        let error = if known == 0 || (4..=known).contains(&length) {
            ProtocolError::UnknownMessage { kind, length }
        } else {
            ProtocolError::BadLength { kind, length }
        };
        self.fail(error)
    }

    #[cold]
    pub(crate) fn fail(&mut self, error: ProtocolError) -> ProtocolError {
        self.stage = Stage::Broken(error);
        error
    }
}

fn skip(input: &mut &[u8], left: u32) -> u32 {
    let taken = input.len().min(left as usize);
    *input = &input[taken..];
    left - taken as u32
}
