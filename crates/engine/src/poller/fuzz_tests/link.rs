//! A connection of a play, with its scripted peer and the bytes of both directions.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

use super::MOST_BYTES;
use super::step::Reaction;

/// Which side has our end of a connection.
#[derive(Debug)]
pub(super) enum Place {
    /// A poller has it, under a token.
    With(usize, usize),
    LetGo(usize, OwnedFd),
    Closed,
    Ended,
}

/// A connection with its peer.
#[derive(Debug)]
pub(super) struct Link {
    pub number: usize,
    pub place: Place,
    pub peer: Option<UnixStream>,
    /// The handler's message, as positions in everything that it sends.
    pub outgoing: Range<usize>,
    /// Whether the poller may still need the message.
    pub is_outgoing_kept: bool,
    /// How many bytes the load sends, and how many of them the peer has read.
    pub sent: usize,
    pub read: usize,
    /// How many bytes the peer wants to write, how many its socket has taken, and how many the handler has received.
    pub wanted: usize,
    pub written: usize,
    pub received: usize,
    /// Indexed by the number of received bytes.
    pub reactions: Vec<(usize, Reaction)>,
    pub peer_ended_writing: bool,
    pub peer_ended_reading: bool,
    /// Whether the load closed the connection at a step, perhaps before it had received everything.
    pub is_cut: bool,
}

pub(super) fn bytes(number: usize, direction: usize, range: Range<usize>) -> &'static [u8] {
    /// A prime, so that the loss of a block of bytes is noticed.
    const PERIOD: usize = 65_521;
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| noise(PERIOD).repeat(MOST_BYTES / PERIOD + 2));
    let begin = (number * 2 + direction) * 7919 % PERIOD;
    &NOISE[begin + range.start..begin + range.end]
}

pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    })
    .take(length)
    .collect()
}

/// The directions of [`bytes`].
pub(super) const OUT: usize = 0;
pub(super) const IN: usize = 1;

impl Link {
    pub(super) fn new(number: usize, place: Place, peer: UnixStream) -> Self {
        Self {
            number,
            place,
            peer: Some(peer),
            outgoing: 0..0,
            is_outgoing_kept: false,
            sent: 0,
            read: 0,
            wanted: 0,
            written: 0,
            received: 0,
            reactions: Vec::new(),
            peer_ended_writing: false,
            peer_ended_reading: false,
            is_cut: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.place, Place::With(..) | Place::LetGo(..))
    }

    pub(super) fn compose(&mut self, length: usize) {
        let end = (self.sent + length).min(MOST_BYTES);
        self.outgoing = self.sent..end;
        self.sent = end;
    }

    pub(super) fn write(&mut self) {
        while let Some(mut peer) = self.peer.as_ref() {
            if self.written == self.wanted || self.peer_ended_writing {
                return;
            }
            match peer.write(bytes(self.number, IN, self.written..self.wanted)) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    assert!(!self.is_open(), "the peer cannot write: {error}");
                    self.wanted = self.written;
                    return;
                }
            }
        }
    }

    /// Lets the peer read at most `length` bytes; returns whether it reached the end.
    pub(super) fn read(&mut self, length: usize) -> bool {
        let mut buffer = vec![0; length.min(64 * 1024)];
        let end = self.read + length;
        while let Some(mut peer) = self.peer.as_ref()
            && self.read < end
            && !self.peer_ended_reading
        {
            let room = buffer.len().min(end - self.read);
            match peer.read(&mut buffer[..room]) {
                Ok(0) => {
                    assert!(!self.is_open(), "an end while it was open: {self:?}");
                    return true;
                }
                Ok(count) => {
                    assert!(self.read + count <= self.sent, "more than was sent");
                    let expected = bytes(self.number, OUT, self.read..self.read + count);
                    assert!(buffer[..count] == *expected, "other bytes were sent");
                    self.read += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // comes after everything that was sent, when we close with unread bytes
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    assert!(!self.is_open(), "reset while it was open: {self:?}");
                    return true;
                }
                Err(error) => panic!("the peer cannot read: {error}"),
            }
        }
        false
    }

    pub(super) fn is_settled(&mut self) -> bool {
        self.write();
        let is_at_end = self.read(usize::MAX / 2);
        let peer_reads = self.peer.is_some() && !self.peer_ended_reading;
        match self.place {
            Place::With(..) => {
                let peer_writes = self.peer.is_some() && !self.peer_ended_writing;
                peer_writes && self.received == self.wanted && (!peer_reads || self.read == self.sent)
            }
            Place::LetGo(..) => false,
            Place::Closed => !peer_reads || is_at_end,
            Place::Ended => self.received == self.wanted && (!peer_reads || is_at_end),
        }
    }

    /// What all pollers must agree on.
    pub(super) fn outcome(&self) -> String {
        let Self { number, received, sent, read, .. } = self;
        match self.place {
            _ if self.is_cut => format!("{number}: cut"),
            Place::Closed => format!("{number}: closed"),
            // the load may have wanted to send more after the end
            Place::Ended => format!("{number}: ended, {received} received"),
            _ if self.peer_ended_reading => format!("{number}: {received} received, {sent} sent"),
            _ => format!("{number}: {received} received, {sent} sent, {read} read"),
        }
    }
}
