//! TPC-C: its checks, and its load.

pub mod check;
pub mod client_sql;
pub mod deferred;
pub mod inputs;
pub mod mix_and_pauses;
pub mod server_counts;
pub mod terminal;
pub mod tpcc_load;
pub mod tpcc_result;
pub mod transaction_kind;

use pgdyno_dataset::tpcc::{Profile, RoutineKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// A function for each transaction, with `SELECT` in a prepared statement.
    Functions,
    /// A procedure for each transaction, with `CALL`.
    Procedures,
    /// One statement after the other, each in a round trip of its own.
    Sql,
    /// The same statements; those that need no earlier result share a round trip.
    SqlPipelined,
}

impl Variant {
    pub const ALL: [Self; 4] = [Self::Functions, Self::Procedures, Self::Sql, Self::SqlPipelined];

    pub fn name(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::Procedures => "procedures",
            Self::Sql => "sql",
            Self::SqlPipelined => "sql-pipelined",
        }
    }

    /// Whether a New-Order with an unused item is committed: by HammerDB's routines; plain SQL always rolls back.
    pub fn commits_unused_item(self, profile: Profile) -> bool {
        match self {
            Self::Functions => profile.commits_unused_item(RoutineKind::Function),
            Self::Procedures => profile.commits_unused_item(RoutineKind::Procedure),
            Self::Sql | Self::SqlPipelined => false,
        }
    }
}
