//! pgbench's four tables: definitions, keys and rows, the same as `pgbench -i` makes.

use std::io::Write;

/// Rows of pgbench_accounts for each unit of scale.
pub const ACCOUNTS: u64 = 100_000;
/// Rows of pgbench_tellers for each unit of scale.
pub const TELLERS: u64 = 10;
/// From this scale on, account numbers do not fit 32 bits.
const BIGINT_FROM_SCALE: u32 = 20_000;

/// Drops what an earlier load left.
pub const DROP: &str =
    "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers";
/// Empties all tables, so that COPY may freeze its rows.
pub const TRUNCATE: &str =
    "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers";

/// Primary keys.
pub const PRIMARY_KEYS: [&str; 3] = [
    "alter table pgbench_branches add primary key (bid)",
    "alter table pgbench_tellers add primary key (tid)",
    "alter table pgbench_accounts add primary key (aid)",
];

/// Foreign keys.
pub const FOREIGN_KEYS: [&str; 5] = [
    "alter table pgbench_tellers add constraint pgbench_tellers_bid_fkey foreign key (bid) references pgbench_branches",
    "alter table pgbench_accounts add constraint pgbench_accounts_bid_fkey foreign key (bid) references pgbench_branches",
    "alter table pgbench_history add constraint pgbench_history_bid_fkey foreign key (bid) references pgbench_branches",
    "alter table pgbench_history add constraint pgbench_history_tid_fkey foreign key (tid) references pgbench_tellers",
    "alter table pgbench_history add constraint pgbench_history_aid_fkey foreign key (aid) references pgbench_accounts",
];

/// Tables in the order in which they are vacuumed.
pub const VACUUM: [&str; 4] = [
    "vacuum analyze pgbench_branches",
    "vacuum analyze pgbench_tellers",
    "vacuum analyze pgbench_accounts",
    "vacuum analyze pgbench_history",
];

/// A table that is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// One row a unit of scale.
    Branches,
    /// Ten.
    Tellers,
    /// A hundred thousand.
    Accounts,
}

impl Table {
    /// In the order in which they are filled.
    pub const ALL: [Self; 3] = [Self::Branches, Self::Tellers, Self::Accounts];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Branches => "pgbench_branches",
            Self::Tellers => "pgbench_tellers",
            Self::Accounts => "pgbench_accounts",
        }
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(self, scale: u32) -> u64 {
        u64::from(scale)
            * match self {
                Self::Branches => 1,
                Self::Tellers => TELLERS,
                Self::Accounts => ACCOUNTS,
            }
    }

    /// Appends row `number` (from 0) in COPY's text format. The filler of accounts is blank, not
    /// null: with it a row has the size that TPC-B asks for.
    pub fn write_row(self, number: u64, out: &mut Vec<u8>) {
        let key = number + 1;
        // writing into a Vec does not fail
        let _ = match self {
            Self::Branches => writeln!(out, "{key}\t0\t\\N"),
            Self::Tellers => writeln!(out, "{key}\t{}\t0\t\\N", number / TELLERS + 1),
            Self::Accounts => writeln!(out, "{key}\t{}\t0\t", number / ACCOUNTS + 1),
        };
    }

    /// The statement that makes all rows in the server.
    #[must_use]
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

/// CREATE TABLE statements.
#[must_use]
pub fn create_tables(scale: u32, fillfactor: Option<u32>) -> Vec<String> {
    let aid = if scale >= BIGINT_FROM_SCALE {
        "bigint"
    } else {
        "int"
    };
    let with = fillfactor.map_or_else(|| "100".to_owned(), |fillfactor| fillfactor.to_string());
    vec![
        format!(
            "create table pgbench_history(tid int,bid int,aid {aid},delta int,mtime timestamp,filler char(22))"
        ),
        format!(
            "create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor={with})"
        ),
        format!(
            "create table pgbench_accounts(aid {aid} not null,bid int,abalance int,filler char(84)) with (fillfactor={with})"
        ),
        format!(
            "create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor={with})"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_pgbenchs() {
        let mut out = Vec::new();
        Table::Branches.write_row(0, &mut out);
        Table::Tellers.write_row(10, &mut out);
        Table::Accounts.write_row(99_999, &mut out);
        Table::Accounts.write_row(100_000, &mut out);
        assert_eq!(
            out,
            b"1\t0\t\\N\n11\t2\t0\t\\N\n100000\t1\t0\t\n100001\t2\t0\t\n"
        );
    }

    #[test]
    fn account_numbers_grow_with_the_scale() {
        assert!(create_tables(19_999, None)[2].contains("aid int not null"));
        assert!(create_tables(20_000, Some(70))[2].contains("aid bigint not null"));
        assert!(create_tables(20_000, Some(70))[2].contains("fillfactor=70"));
    }
}
