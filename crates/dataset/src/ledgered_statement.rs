//! A statement with its line of the ledger.

use pgdyno_connect::Session;

use crate::load_error::LoadError;
use crate::load_ledger::{self, Sent, Writer};

/// What becomes of a statement that fails, or whose session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// It is undone: it runs in a transaction with its line of the ledger.
    Transaction,
    /// It can be repeated, and cannot run in a transaction.
    Nothing,
}

impl Undo {
    /// Runs the statement and writes its line.
    pub fn carry_out(
        self,
        session: &mut Session,
        sql: &str,
        writer: Writer,
        position: usize,
        item: u64,
    ) -> Result<(), LoadError> {
        if self == Self::Nothing {
            load_ledger::execute(session, sql)?;
            if writer.begin(session, position, item)?.is_some() {
                return Ok(());
            }
            return writer.commit(session, position, item, Sent::default());
        }
        if writer == Writer::Nobody {
            return load_ledger::execute(session, sql).map(drop);
        }
        if writer.begin(session, position, item)?.is_some() {
            return Ok(());
        }
        let result = load_ledger::execute(session, sql)
            .and_then(|_| writer.commit(session, position, item, Sent::default()));
        if result.is_err() {
            load_ledger::roll_back(session);
        }
        result
    }
}
