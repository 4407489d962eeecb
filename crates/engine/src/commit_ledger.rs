//! What clients know of the fate of their transactions (--ledger).
//!
//! Every transaction that sends a statement with the ledger's variable in it has a number of its
//! own in its client, and leaves it in the database. What became of it, as far as the client heard,
//! is kept here: who counts the rows afterwards sees what the server has lost.

use pgdyno_script::{Piece, Program, SlotId, Sql, Symbols};

/// The automatic variable with the number of the transaction.
pub const VARIABLE: &str = "ledger_seq";

/// Which statements write into the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitLedger {
    slot: SlotId,
    /// By script and statement.
    writes: Vec<Vec<bool>>,
}

impl CommitLedger {
    /// The ledger of these programs; None when no statement of theirs names the variable.
    #[must_use]
    pub fn of<'a>(programs: impl Iterator<Item = &'a Program>, symbols: &Symbols) -> Option<Self> {
        let slot = symbols.lookup(VARIABLE)?;
        let names = |sql: &Sql| match sql {
            Sql::Simple(pieces) => pieces
                .iter()
                .any(|piece| matches!(piece, Piece::Var { slot: named, .. } if *named == slot)),
            Sql::Extended { params, .. } => params.contains(&slot),
        };
        let writes: Vec<Vec<bool>> = programs
            .map(|program| program.statements.iter().map(|s| names(&s.sql)).collect())
            .collect();
        writes
            .iter()
            .flatten()
            .any(|writes| *writes)
            .then_some(Self { slot, writes })
    }

    /// Where the number of a transaction is.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Whether this statement leaves the number in the database.
    #[inline]
    #[must_use]
    pub fn is_written_by(&self, script: usize, statement: usize) -> bool {
        self.writes[script][statement]
    }
}

/// What a client knows of the end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Its end was answered: the row must be there.
    Acknowledged,
    /// The server reported that it failed: the row must not be there.
    Refused,
    /// Its end was not answered: the row may be there or not.
    Unknown,
}

/// Numbers in order, neighbours as one range; both ends belong to it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn push(&mut self, number: u64) {
        match self.0.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => self.0.push((number, number)),
        }
    }

    /// The ranges.
    #[must_use]
    pub fn all(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// How many numbers.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }
}

/// One client's part of the ledger.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ClientLedger {
    /// The client.
    pub client: usize,
    /// The last number that was used; they count from 1. What is in neither list was acknowledged.
    pub last: u64,
    /// Transactions whose end was not answered.
    pub unknown: Ranges,
    /// Transactions that failed.
    pub refused: Ranges,
    /// Whether the transaction under way has sent its number.
    is_written: bool,
}

impl ClientLedger {
    /// An empty one.
    #[must_use]
    pub fn new(client: usize) -> Self {
        Self {
            client,
            ..Self::default()
        }
    }

    /// The number that the next transaction uses, if it uses one.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.last + 1
    }

    /// The transaction under way sends its number.
    #[inline]
    pub fn write(&mut self) {
        self.is_written = true;
    }

    /// The transaction under way has ended, or is not waited for.
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

    /// How many were acknowledged.
    #[must_use]
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
