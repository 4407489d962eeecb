//! Why a message is not carried out.

use pgdyno_wire::SqlState;

#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The client receives this error.
    Error(SqlState, String),
    /// The connection ends without a message.
    Close,
}

pub fn refuse<T>(code: SqlState, text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Error(code, text.into()))
}
