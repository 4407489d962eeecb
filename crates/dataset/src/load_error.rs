//! Why a load ended early.

use pgdyno_connect::SessionError;

/// Why a load ended early. Displayed in pgbench's words where it has some.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("query failed: {}", display_of_query(sql, error))]
    Query {
        sql: String,
        #[source]
        error: SessionError,
    },
    #[error("unexpected copy in result: {0}")]
    CopyStart(#[source] SessionError),
    #[error("PQendcopy failed: {0}")]
    CopyRows(#[source] SessionError),
    #[error("initialization step \"{letter}\" is not one of dataset {dataset}")]
    NoSuchStep { dataset: &'static str, letter: char },
    /// There is no load that could be resumed, or it has other options.
    #[error("could not resume the load: {0}")]
    NotResumable(String),
    #[error("could not complete the load: {table} should have {expected} rows, and {found} were committed")]
    Miscounted { table: String, expected: u64, found: u64 },
    #[error("interrupted; the tables are not complete")]
    Interrupted,
}

fn display_of_query(sql: &str, error: &SessionError) -> String {
    match error {
        // the server reports a position in the statement, which libpq displays
        SessionError::Server(error) => error.display_with_query(sql).to_string(),
        error => error.to_string(),
    }
}

impl LoadError {
    /// Additional information: the statement that failed.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Query { sql, .. } => Some(format!("Query was: {sql}")),
            _ => None,
        }
    }

    /// The error of the session, if it was a session that failed.
    pub fn session_error(&self) -> Option<&SessionError> {
        match self {
            Self::Query { error, .. } | Self::CopyStart(error) | Self::CopyRows(error) => Some(error),
            _ => None,
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotResumable(_) => Some("Start over without --resume: the tables are dropped and created again."),
            _ => None,
        }
    }
}
