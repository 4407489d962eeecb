//! Runs a statement and records it in the ledger.

use pgdyno_connect::Session;

use crate::load_error::LoadError;
use crate::load_ledger::{self, SentAmount, Writer};

/// What happens to a statement if it or its session fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// It is rolled back: it runs in a transaction together with its entry in the ledger.
    Transaction,
    /// It can be repeated, and cannot run in a transaction.
    Nothing,
}

impl Undo {
    /// Runs the statement and writes its entry.
    pub fn carry_out(
        self, session: &mut Session, sql: &str, writer: Writer, position: usize, item: u64,
    ) -> Result<(), LoadError> {
        if self == Self::Nothing {
            load_ledger::execute(session, sql)?;
            if writer.begin(session, position, item)?.is_some() {
                return Ok(());
            }
            return writer.commit(session, position, item, SentAmount::default());
        }
        if writer == Writer::Nobody {
            return load_ledger::execute(session, sql).map(drop);
        }
        if writer.begin(session, position, item)?.is_some() {
            return Ok(());
        }
        let result = load_ledger::execute(session, sql)
            .and_then(|_| writer.commit(session, position, item, SentAmount::default()));
        if result.is_err() {
            load_ledger::roll_back(session);
        }
        result
    }
}
