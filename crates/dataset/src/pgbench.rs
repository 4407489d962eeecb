//! pgbench's four tables, and the statements that do not depend on options.

mod dataset;
mod row_writer;
mod schema;

pub use row_writer::RowWriter;
pub use schema::{Method, Partitions, Persistence, Schema};

/// Rows of pgbench_accounts for each unit of scale.
pub const ACCOUNTS: u64 = 100_000;
/// Rows of pgbench_tellers for each unit of scale.
pub const TELLERS: u64 = 10;

/// Drops the tables of an earlier load, in one statement so that foreign keys do not matter.
pub const DROP: &str = "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers";
/// Empties all tables, so that COPY may freeze its rows.
pub const TRUNCATE: &str = "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers";

pub const FOREIGN_KEYS: [&str; 5] = [
    "alter table pgbench_tellers add constraint pgbench_tellers_bid_fkey foreign key (bid) references pgbench_branches",
    "alter table pgbench_accounts add constraint pgbench_accounts_bid_fkey foreign key (bid) references pgbench_branches",
    "alter table pgbench_history add constraint pgbench_history_bid_fkey foreign key (bid) references pgbench_branches",
    "alter table pgbench_history add constraint pgbench_history_tid_fkey foreign key (tid) references pgbench_tellers",
    "alter table pgbench_history add constraint pgbench_history_aid_fkey foreign key (aid) references pgbench_accounts",
];

/// Tables in the order in which they are vacuumed.
pub const VACUUM: [&str; 4] = [
    "vacuum analyze pgbench_branches", "vacuum analyze pgbench_tellers", "vacuum analyze pgbench_accounts",
    "vacuum analyze pgbench_history",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// pgbench_branches, with one row for each unit of scale.
    Branches,
    /// pgbench_tellers, with ten rows for each unit of scale.
    Tellers,
    /// pgbench_accounts, with a hundred thousand rows for each unit of scale.
    Accounts,
}

impl Table {
    /// All tables in the order in which they are filled, which respects foreign keys.
    pub const ALL: [Self; 3] = [Self::Branches, Self::Tellers, Self::Accounts];

    pub fn name(self) -> &'static str {
        match self {
            Self::Branches => "pgbench_branches",
            Self::Tellers => "pgbench_tellers",
            Self::Accounts => "pgbench_accounts",
        }
    }

    /// Number of rows for each unit of scale, which is the number of branches.
    pub fn rows_a_branch(self) -> u64 {
        match self {
            Self::Branches => 1,
            Self::Tellers => TELLERS,
            Self::Accounts => ACCOUNTS,
        }
    }

    pub fn rows(self, scale: u32) -> u64 {
        u64::from(scale) * self.rows_a_branch()
    }

    /// The statement that makes all rows in the server.
    pub fn insert_select(self, scale: u32) -> String {
        let rows = self.rows(scale);
        match self {
            Self::Branches => format!(
                "insert into pgbench_branches(bid,bbalance) select bid, 0 from generate_series(1, {rows}) as bid"
            ),
            Self::Tellers => format!(
                "insert into pgbench_tellers(tid,bid,tbalance) \
                 select tid, (tid - 1) / {TELLERS} + 1, 0 from generate_series(1, {rows}) as tid"
            ),
            Self::Accounts => format!(
                "insert into pgbench_accounts(aid,bid,abalance,filler) \
                 select aid, (aid - 1) / {ACCOUNTS} + 1, 0, '' from generate_series(1, {rows}) as aid"
            ),
        }
    }
}
