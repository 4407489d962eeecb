//! Why a load ended early.

use std::fmt;

use pgdyno_connect::SessionError;

/// Why a load ended early. Displayed in pgbench's words.
#[derive(Debug)]
pub enum LoadError {
    /// The server refused a statement, or went away.
    Query {
        /// The statement.
        sql: String,
        /// What the server said.
        error: SessionError,
    },
    /// The server did not begin a COPY.
    CopyStart(SessionError),
    /// The server refused the rows, or went away.
    CopyRows(SessionError),
    /// Told to stop; what was not committed is undone.
    Interrupted,
}

impl LoadError {
    /// More about it: the statement that failed.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Query { sql, .. } => Some(format!("Query was: {sql}")),
            Self::CopyStart(_) | Self::CopyRows(_) | Self::Interrupted => None,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // the server gives a place in the statement, which libpq shows
            Self::Query {
                sql,
                error: SessionError::Server(error),
            } => write!(f, "query failed: {}", error.display_with_query(sql)),
            Self::Query { error, .. } => write!(f, "query failed: {error}"),
            Self::CopyStart(error) => write!(f, "unexpected copy in result: {error}"),
            Self::CopyRows(error) => write!(f, "PQendcopy failed: {error}"),
            Self::Interrupted => f.write_str("interrupted; the tables are not complete"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Query { error, .. } | Self::CopyStart(error) | Self::CopyRows(error) => {
                Some(error)
            }
            Self::Interrupted => None,
        }
    }
}
