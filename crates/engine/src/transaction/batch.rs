//! Statements that share a round trip (--auto-pipeline).

use crate::client_abort::Abort;
use crate::clock::Nanos;

#[derive(Debug, Default)]
pub struct Batch {
    pub statements: Vec<Batched>,
    /// Whether it was sent; until then, statements may be appended.
    pub sent: bool,
    pub sent_at: Nanos,
    /// Whether a block is open after its last statement, if none has failed.
    pub in_block: bool,
    /// Index in `statements` of the one whose answer comes next.
    pub current: usize,
    /// The statement whose answer is awaited or came last.
    pub statement: Option<usize>,
    /// Whether only the failed statement is left of what was sent.
    pub is_cut: bool,
    /// Ends the client when the batch is answered, because a later command failed.
    pub abort: Option<Box<Abort>>,
}

#[derive(Debug, Clone, Copy)]
pub struct Batched {
    /// Number of the statement in the script.
    pub statement: usize,
    /// Index of the operation in the script that sends it.
    pub op: usize,
    /// Where it begins in the bytes that are sent.
    pub start: usize,
    /// Whether a ReadyForQuery follows its results.
    pub synced: bool,
}

impl Batch {
    pub fn clear(&mut self) {
        self.statements.clear();
        self.sent = false;
        self.is_cut = false;
        self.abort = None;
    }

    pub fn send(&mut self, now: Nanos) {
        debug_assert!(!self.sent && !self.statements.is_empty(), "it is open");
        self.sent = true;
        self.sent_at = now;
        self.current = 0;
    }

    pub fn next_answered(&self) -> Option<Batched> {
        self.statements.get(self.current).copied()
    }

    /// Where that statement begins and ends in the bytes that were sent (an end of None means the
    /// end of all), for the first error; None for a later error.
    pub fn cut(&mut self) -> Option<(usize, Option<usize>)> {
        if std::mem::replace(&mut self.is_cut, true) {
            return None;
        }
        let mut next = self.statements.iter().skip(self.current);
        let start = next.next()?.start;
        Some((start, next.next().map(|next| next.start)))
    }
}
