//! What clients know of the outcome of their transactions (--ledger).
//!
//! Every transaction that sends a statement with the ledger's variable has a number that is unique
//! in its client, and leaves that number in the database. The client records the outcome that it
//! received, so that a comparison with the rows afterwards shows what the server has lost.

use pgdyno_script::{Piece, Program, SlotId, Sql, Symbols};

/// The automatic variable with the number of the transaction.
pub const VARIABLE: &str = "ledger_seq";

/// Which statements write into the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitLedger {
    slot: SlotId,
    /// Indexed by script and statement.
    writes: Vec<Vec<bool>>,
}

impl CommitLedger {
    /// The ledger of these programs; None if none of their statements uses the variable.
    pub fn of<'a>(programs: impl Iterator<Item = &'a Program>, symbols: &Symbols) -> Option<Self> {
        let slot = symbols.lookup(VARIABLE)?;
        let names = |sql: &Sql| match sql {
            Sql::Simple(pieces) => {
                pieces.iter().any(|piece| matches!(piece, Piece::Var { slot: named, .. } if *named == slot))
            }
            Sql::Extended { params, .. } => params.contains(&slot),
        };
        let writes: Vec<Vec<bool>> =
            programs.map(|program| program.statements.iter().map(|s| names(&s.sql)).collect()).collect();
        writes.iter().flatten().any(|writes| *writes).then_some(Self { slot, writes })
    }

    /// The slot of the variable with the number.
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Whether this statement stores the number in the database.
    #[inline]
    pub fn is_written_by(&self, script: usize, statement: usize) -> bool {
        self.writes[script][statement]
    }
}

/// The outcome of a transaction, as its client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The server confirmed the commit: the row must be there.
    Acknowledged,
    /// The server reported a failure: the row must not be there.
    Refused,
    /// The server did not answer: the row may be there or not.
    Unknown,
}

/// A set of numbers as ranges in ascending order, both ends included.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn push(&mut self, number: u64) {
        match self.0.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => self.0.push((number, number)),
        }
    }

    /// All ranges, in ascending order.
    pub fn all(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// How many numbers the ranges contain.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ClientLedger {
    pub client: usize,
    /// The last number that was used; numbers count from 1. Those in neither set were acknowledged.
    pub last: u64,
    /// Transactions whose end the server did not answer.
    pub unknown: Ranges,
    /// Transactions that failed.
    pub refused: Ranges,
    /// Whether the current transaction has sent its number.
    is_written: bool,
}

impl ClientLedger {
    pub fn new(client: usize) -> Self {
        Self { client, ..Self::default() }
    }

    /// The number that the next transaction uses, if it uses one.
    pub fn next(&self) -> u64 {
        self.last + 1
    }

    /// Records that the current transaction sends its number.
    #[inline]
    pub fn write(&mut self) {
        self.is_written = true;
    }

    /// Records the outcome of the current transaction, if it has sent its number.
    pub fn settle(&mut self, fate: CommitOutcome) {
        if !std::mem::take(&mut self.is_written) {
            return;
        }
        self.last += 1;
        match fate {
            CommitOutcome::Acknowledged => {}
            CommitOutcome::Refused => self.refused.push(self.last),
            CommitOutcome::Unknown => self.unknown.push(self.last),
        }
    }

    pub fn acknowledged(&self) -> u64 {
        self.last - self.unknown.count() - self.refused.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_only_by_transactions_that_send_them() {
        let mut page = ClientLedger::new(3);
        page.settle(CommitOutcome::Acknowledged);
        assert_eq!((page.next(), page.acknowledged()), (1, 0));
        for fate in [
            CommitOutcome::Acknowledged,
            CommitOutcome::Unknown,
            CommitOutcome::Unknown,
            CommitOutcome::Refused,
            CommitOutcome::Acknowledged,
            CommitOutcome::Unknown,
        ] {
            page.write();
            page.settle(fate);
        }
        assert_eq!(page.unknown.all(), [(2, 3), (6, 6)]);
        assert_eq!(page.refused.all(), [(4, 4)]);
        assert_eq!((page.last, page.acknowledged()), (6, 2));
    }
}
