//! SQLSTATE: the five characters that identify the kind of an error.

use std::fmt;

/// A five-character error code, such as `40001`.
///
/// Codes are listed in Appendix A of PostgreSQL's manual; the constants here are those on which
/// programs base decisions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SqlState([u8; 5]);

impl SqlState {
    pub const PROTOCOL_VIOLATION: SqlState = SqlState(*b"08P01");
    pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState(*b"0A000");
    pub const BAD_COPY_FILE_FORMAT: SqlState = SqlState(*b"22P04");
    pub const UNIQUE_VIOLATION: SqlState = SqlState(*b"23505");
    pub const NO_ACTIVE_SQL_TRANSACTION: SqlState = SqlState(*b"25P01");
    pub const IN_FAILED_SQL_TRANSACTION: SqlState = SqlState(*b"25P02");
    pub const INVALID_SQL_STATEMENT_NAME: SqlState = SqlState(*b"26000");
    pub const INVALID_AUTHORIZATION_SPECIFICATION: SqlState = SqlState(*b"28000");
    pub const INVALID_PASSWORD: SqlState = SqlState(*b"28P01");
    pub const INVALID_CATALOG_NAME: SqlState = SqlState(*b"3D000");
    pub const INVALID_CURSOR_NAME: SqlState = SqlState(*b"34000");
    pub const SERIALIZATION_FAILURE: SqlState = SqlState(*b"40001");
    pub const DEADLOCK_DETECTED: SqlState = SqlState(*b"40P01");
    pub const INSUFFICIENT_PRIVILEGE: SqlState = SqlState(*b"42501");
    pub const SYNTAX_ERROR: SqlState = SqlState(*b"42601");
    pub const UNDEFINED_TABLE: SqlState = SqlState(*b"42P01");
    pub const DUPLICATE_PREPARED_STATEMENT: SqlState = SqlState(*b"42P05");
    pub const OUT_OF_MEMORY: SqlState = SqlState(*b"53200");
    pub const QUERY_CANCELED: SqlState = SqlState(*b"57014");
    pub const ADMIN_SHUTDOWN: SqlState = SqlState(*b"57P01");
    pub const CANNOT_CONNECT_NOW: SqlState = SqlState(*b"57P03");
    /// Stands for the code when the server sent none or a malformed one.
    pub const UNKNOWN: SqlState = SqlState(*b"?????");

    /// Reads a code: five characters, digits and upper-case letters only.
    pub fn parse(code: &[u8]) -> Option<SqlState> {
        let code: [u8; 5] = code.try_into().ok()?;
        code.iter().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase()).then_some(SqlState(code))
    }

    pub fn as_str(&self) -> &str {
        // Both constructors admit only ASCII.
        std::str::from_utf8(&self.0).unwrap_or("?????")
    }

    /// The first two characters, which are the class of the code.
    pub fn class(&self) -> &str {
        &self.as_str()[..2]
    }

    /// Whether a retry of the whole transaction may succeed: for a serialization failure or a deadlock.
    pub fn is_retryable(self) -> bool {
        self == SqlState::SERIALIZATION_FAILURE || self == SqlState::DEADLOCK_DETECTED
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlState({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_codes_are_refused_and_only_conflicts_are_retryable() {
        let codes = ["40000", "40001", "40002", "40003", "40P01", "23505", "57014"];
        let retryable: Vec<_> =
            codes.iter().filter(|code| SqlState::parse(code.as_bytes()).unwrap().is_retryable()).collect();
        assert_eq!(retryable, [&"40001", &"40P01"]);
        for code in ["", "4000", "400011", "4000a", "40 01", "4000\u{e9}"] {
            assert_eq!(SqlState::parse(code.as_bytes()), None, "{code}");
        }
        assert_eq!(SqlState::UNKNOWN.class(), "??");
    }
}
