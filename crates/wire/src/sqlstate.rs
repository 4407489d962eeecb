//! SQLSTATE: the five characters that identify the kind of an error.

use std::fmt;

/// A five-character error code, such as `40001`.
///
/// Codes are listed in Appendix A of PostgreSQL's manual; the constants here are those on which
/// programs base decisions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SqlState([u8; 5]);

macro_rules! states {
    ($($name:ident = $code:literal $condition:literal,)*) => {
        impl SqlState {
            $(#[doc = concat!("`", $condition, "`")]
            pub const $name: SqlState = SqlState(*$code);)*

            /// The condition name of the manual, in lower case, for the codes known here.
            pub fn name(self) -> Option<&'static str> {
                match &self.0 {
                    $($code => Some($condition),)*
                    _ => None,
                }
            }

            /// The code with this condition name, for the codes known here.
            pub fn from_name(name: &str) -> Option<SqlState> {
                match name {
                    $($condition => Some(SqlState(*$code)),)*
                    _ => None,
                }
            }
        }

        #[cfg(test)]
        const KNOWN: &[SqlState] = &[$(SqlState::$name,)*];
    };
}

states! {
    SUCCESSFUL_COMPLETION = b"00000" "successful_completion",
    WARNING = b"01000" "warning",
    CONNECTION_EXCEPTION = b"08000" "connection_exception",
    SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION = b"08001" "sqlclient_unable_to_establish_sqlconnection",
    CONNECTION_DOES_NOT_EXIST = b"08003" "connection_does_not_exist",
    SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION = b"08004" "sqlserver_rejected_establishment_of_sqlconnection",
    CONNECTION_FAILURE = b"08006" "connection_failure",
    TRANSACTION_RESOLUTION_UNKNOWN = b"08007" "transaction_resolution_unknown",
    PROTOCOL_VIOLATION = b"08P01" "protocol_violation",
    FEATURE_NOT_SUPPORTED = b"0A000" "feature_not_supported",
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003" "numeric_value_out_of_range",
    DIVISION_BY_ZERO = b"22012" "division_by_zero",
    CHARACTER_NOT_IN_REPERTOIRE = b"22021" "character_not_in_repertoire",
    INVALID_TEXT_REPRESENTATION = b"22P02" "invalid_text_representation",
    BAD_COPY_FILE_FORMAT = b"22P04" "bad_copy_file_format",
    INTEGRITY_CONSTRAINT_VIOLATION = b"23000" "integrity_constraint_violation",
    NOT_NULL_VIOLATION = b"23502" "not_null_violation",
    FOREIGN_KEY_VIOLATION = b"23503" "foreign_key_violation",
    UNIQUE_VIOLATION = b"23505" "unique_violation",
    CHECK_VIOLATION = b"23514" "check_violation",
    EXCLUSION_VIOLATION = b"23P01" "exclusion_violation",
    INVALID_TRANSACTION_STATE = b"25000" "invalid_transaction_state",
    ACTIVE_SQL_TRANSACTION = b"25001" "active_sql_transaction",
    READ_ONLY_SQL_TRANSACTION = b"25006" "read_only_sql_transaction",
    NO_ACTIVE_SQL_TRANSACTION = b"25P01" "no_active_sql_transaction",
    IN_FAILED_SQL_TRANSACTION = b"25P02" "in_failed_sql_transaction",
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03" "idle_in_transaction_session_timeout",
    INVALID_SQL_STATEMENT_NAME = b"26000" "invalid_sql_statement_name",
    INVALID_AUTHORIZATION_SPECIFICATION = b"28000" "invalid_authorization_specification",
    INVALID_PASSWORD = b"28P01" "invalid_password",
    INVALID_CATALOG_NAME = b"3D000" "invalid_catalog_name",
    INVALID_SCHEMA_NAME = b"3F000" "invalid_schema_name",
    TRANSACTION_ROLLBACK = b"40000" "transaction_rollback",
    SERIALIZATION_FAILURE = b"40001" "serialization_failure",
    TRANSACTION_INTEGRITY_CONSTRAINT_VIOLATION = b"40002" "transaction_integrity_constraint_violation",
    STATEMENT_COMPLETION_UNKNOWN = b"40003" "statement_completion_unknown",
    DEADLOCK_DETECTED = b"40P01" "deadlock_detected",
    INSUFFICIENT_PRIVILEGE = b"42501" "insufficient_privilege",
    SYNTAX_ERROR = b"42601" "syntax_error",
    UNDEFINED_COLUMN = b"42703" "undefined_column",
    UNDEFINED_FUNCTION = b"42883" "undefined_function",
    UNDEFINED_TABLE = b"42P01" "undefined_table",
    UNDEFINED_PARAMETER = b"42P02" "undefined_parameter",
    DUPLICATE_PREPARED_STATEMENT = b"42P05" "duplicate_prepared_statement",
    DUPLICATE_TABLE = b"42P07" "duplicate_table",
    DUPLICATE_OBJECT = b"42710" "duplicate_object",
    DUPLICATE_DATABASE = b"42P04" "duplicate_database",
    INSUFFICIENT_RESOURCES = b"53000" "insufficient_resources",
    DISK_FULL = b"53100" "disk_full",
    OUT_OF_MEMORY = b"53200" "out_of_memory",
    TOO_MANY_CONNECTIONS = b"53300" "too_many_connections",
    STATEMENT_TOO_COMPLEX = b"54001" "statement_too_complex",
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000" "object_not_in_prerequisite_state",
    OBJECT_IN_USE = b"55006" "object_in_use",
    LOCK_NOT_AVAILABLE = b"55P03" "lock_not_available",
    OPERATOR_INTERVENTION = b"57000" "operator_intervention",
    QUERY_CANCELED = b"57014" "query_canceled",
    ADMIN_SHUTDOWN = b"57P01" "admin_shutdown",
    CRASH_SHUTDOWN = b"57P02" "crash_shutdown",
    CANNOT_CONNECT_NOW = b"57P03" "cannot_connect_now",
    DATABASE_DROPPED = b"57P04" "database_dropped",
    IDLE_SESSION_TIMEOUT = b"57P05" "idle_session_timeout",
    IO_ERROR = b"58030" "io_error",
    RAISE_EXCEPTION = b"P0001" "raise_exception",
    INTERNAL_ERROR = b"XX000" "internal_error",
    DATA_CORRUPTED = b"XX001" "data_corrupted",
}

impl SqlState {
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
    fn codes_and_names_agree() {
        assert_eq!(SqlState::SERIALIZATION_FAILURE.as_str(), "40001");
        assert_eq!(SqlState::DEADLOCK_DETECTED.class(), "40");
        assert_eq!(SqlState::parse(b"57P01").and_then(SqlState::name), Some("admin_shutdown"));
        assert_eq!(SqlState::parse(b"ZZ999").and_then(SqlState::name), None);
    }

    #[test]
    fn every_known_code_is_well_formed_and_found_by_name() {
        for &state in KNOWN {
            assert_eq!(SqlState::parse(state.as_str().as_bytes()), Some(state));
            assert_eq!(state.name().and_then(SqlState::from_name), Some(state));
        }
    }

    #[test]
    fn malformed_codes_are_refused() {
        for code in ["", "4000", "400011", "4000a", "40 01", "4000\u{e9}"] {
            assert_eq!(SqlState::parse(code.as_bytes()), None, "{code}");
        }
        assert_eq!(SqlState::UNKNOWN.class(), "??");
    }

    #[test]
    fn only_conflicts_are_retryable() {
        let retryable: Vec<_> = KNOWN.iter().filter(|s| s.is_retryable()).map(|s| s.as_str()).collect();
        assert_eq!(retryable, ["40001", "40P01"]);
    }
}
