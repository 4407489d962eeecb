//! Statements that share a round trip (--auto-pipeline).

use crate::abort::Abort;
use crate::clock::Nanos;

/// The statements of one round trip.
#[derive(Debug, Default)]
pub struct Batch {
    /// In order.
    pub statements: Vec<Batched>,
    /// Whether it is on its way; else more may be appended.
    pub sent: bool,
    /// When that was.
    pub sent_at: Nanos,
    /// Whether a block is open after its last statement, if none has failed.
    pub in_block: bool,
    /// Place among `statements` of the one whose answer comes next.
    pub current: usize,
    /// The statement whose answer is awaited or came last.
    pub statement: Option<usize>,
    /// Whether of what was sent only the failed statement is left.
    pub is_cut: bool,
    /// Ends the client when all is answered: a command failed that comes after the batch.
    pub abort: Option<Box<Abort>>,
}

/// A statement of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Batched {
    /// Its number in the script.
    pub statement: usize,
    /// Its operation.
    pub op: usize,
    /// Where it begins in what is sent.
    pub start: usize,
    /// Whether a ReadyForQuery follows its results.
    pub synced: bool,
}

impl Batch {
    /// Begins an empty one.
    pub fn clear(&mut self) {
        self.statements.clear();
        self.sent = false;
        self.is_cut = false;
        self.abort = None;
    }

    /// It goes to the server.
    pub fn send(&mut self, now: Nanos) {
        debug_assert!(!self.sent && !self.statements.is_empty(), "it is open");
        self.sent = true;
        self.sent_at = now;
        self.current = 0;
    }

    /// The statement whose answer comes next.
    #[must_use]
    pub fn next_answered(&self) -> Option<Batched> {
        self.statements.get(self.current).copied()
    }

    /// Where that statement begins and ends in what was sent (None: with all of it), when its error
    /// is the first one; None for a later error.
    pub fn cut(&mut self) -> Option<(usize, Option<usize>)> {
        if std::mem::replace(&mut self.is_cut, true) {
            return None;
        }
        let mut next = self.statements.iter().skip(self.current);
        let start = next.next()?.start;
        Some((start, next.next().map(|next| next.start)))
    }
}
