//! Why a load ended early.

use std::fmt;

use pgdyno_connect::SessionError;

/// Why a load ended early. Displayed in pgbench's words where it has some.
#[derive(Debug)]
pub enum LoadError {
    /// The server refused a statement, or the connection was lost.
    Query {
        /// The statement.
        sql: String,
        /// The error of the session.
        error: SessionError,
    },
    /// The server refused to begin a COPY.
    CopyStart(SessionError),
    /// The server refused the rows, or the connection was lost.
    CopyRows(SessionError),
    /// The dataset has no such step.
    NoSuchStep {
        /// Name of the dataset.
        dataset: &'static str,
        /// The step's letter.
        letter: char,
    },
    /// There is no load that could be resumed, or it has other options.
    NotResumable(String),
    /// The server's number of rows differs from the number that was sent.
    Miscounted {
        /// The table.
        table: String,
        /// Rows that it should have.
        expected: u64,
        /// Rows that were committed.
        found: u64,
    },
    /// The load was stopped; what was not committed is rolled back.
    Interrupted,
}

impl LoadError {
    /// Additional information: the statement that failed.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Query { sql, .. } => Some(format!("Query was: {sql}")),
            _ => None,
        }
    }

    /// The error of the session, if it was a session that failed.
    #[must_use]
    pub fn session_error(&self) -> Option<&SessionError> {
        match self {
            Self::Query { error, .. } | Self::CopyStart(error) | Self::CopyRows(error) => Some(error),
            _ => None,
        }
    }

    /// A remedy for the user, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotResumable(_) => Some("Start over without --resume: the tables are dropped and created again."),
            _ => None,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // the server reports a position in the statement, which libpq displays
            Self::Query { sql, error: SessionError::Server(error) } => {
                write!(f, "query failed: {}", error.display_with_query(sql))
            }
            Self::Query { error, .. } => write!(f, "query failed: {error}"),
            Self::CopyStart(error) => write!(f, "unexpected copy in result: {error}"),
            Self::CopyRows(error) => write!(f, "PQendcopy failed: {error}"),
            Self::NoSuchStep { dataset, letter } => {
                write!(f, "initialization step \"{letter}\" is not one of dataset {dataset}")
            }
            Self::NotResumable(why) => write!(f, "could not resume the load: {why}"),
            Self::Miscounted { table, expected, found } => write!(
                f,
                "could not complete the load: {table} should have {expected} rows, and {found} were committed"
            ),
            Self::Interrupted => f.write_str("interrupted; the tables are not complete"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Query { error, .. } | Self::CopyStart(error) | Self::CopyRows(error) => Some(error),
            _ => None,
        }
    }
}
