//! Errors of statements.

use std::borrow::Cow;

use pgdyno_wire::SqlState;

/// An error that is reported to the client, and after which its session continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub code: SqlState,
    pub text: Cow<'static, str>,
}

impl Trouble {
    pub fn new(code: SqlState, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into() }
    }

    /// The error for a message with a malformed body.
    pub fn malformed() -> Self {
        Self::new(SqlState::PROTOCOL_VIOLATION, "invalid message format")
    }

    pub fn in_failed_transaction() -> Self {
        Self::new(
            SqlState::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        )
    }

    pub fn no_statement(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        let text = format!("prepared statement \"{name}\" does not exist");
        Self::new(SqlState::INVALID_SQL_STATEMENT_NAME, text)
    }
}

/// Why a message was not carried out.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An error that is reported to the client.
    Trouble(Trouble),
    /// The connection ends without a message.
    Close,
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}
