//! The steps of a play, decoded from fuzzed bytes.

use super::{POLLERS, SLOTS};

pub(super) const STEP_BYTES: usize = 3;
/// How much one step sends or writes: around the sizes of buffers, and more than a socket takes.
const LENGTHS: [usize; 8] = [1, 100, 16_383, 16_384, 16_385, 20_000, 70_000, 300_000];

/// One step of a play, on the connection in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Makes a poller wait, or send what it has.
    Turn(usize),
    Flush(usize),
    /// Opens a new connection in this slot, in place of one that may be there, under the same token.
    Connect,
    Send(usize),
    /// Makes the load react after it has received this many more bytes.
    React(usize, Reaction),
    Close,
    Release,
    /// Makes the other poller take over a released connection.
    Adopt,
    /// Makes the peer write as much as fits now, and the rest when there is room.
    Write(usize),
    /// Makes the peer read at most this many of the available bytes.
    Read(usize),
    /// Makes the peer shut down its writing side.
    EndWriting,
    /// Makes the peer shut down its reading side.
    EndReading,
    /// Makes the peer close its socket.
    Leave,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Reaction {
    Send(usize),
    Close,
}

impl Step {
    pub(super) fn from_bytes([kind, which, size]: [u8; STEP_BYTES]) -> (usize, Self) {
        let poller = usize::from(which) % POLLERS;
        let length = LENGTHS[usize::from(size) % LENGTHS.len()];
        let after = LENGTHS[usize::from(which >> 4) % LENGTHS.len()];
        let step = match kind % 16 {
            0 => Self::Connect,
            1 => Self::Flush(poller),
            2 | 3 => Self::Send(length),
            4 | 5 if size < 200 => Self::React(after, Reaction::Send(length)),
            4 | 5 => Self::React(after, Reaction::Close),
            6 => Self::Close,
            7 => Self::Release,
            8 => Self::Adopt,
            9 | 10 => Self::Write(length),
            11 => Self::Read(length),
            12 => Self::EndWriting,
            13 if size < 128 => Self::Leave,
            13 => Self::EndReading,
            _ => Self::Turn(poller),
        };
        (usize::from(which >> 1) % SLOTS, step)
    }
}
