//! How the tables are created: everything that the options of `pgbench -i` define.

use super::{ACCOUNTS, Table};

/// From this scale on account numbers have 64 bits. They would fit 32 bits up to 21,474; pgbench uses the round number.
const BIGINT_FROM_SCALE: u32 = 20_000;

/// Whether changes of the tables are written to the WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    Logged,
    /// They are not: the tables are empty after a crash.
    Unlogged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Range,
    Hash,
}

impl Method {
    /// The keyword of the method in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Hash => "hash",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partitions {
    pub method: Method,
    /// How many there are, at least 1.
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Number of branches.
    pub scale: u32,
    /// Fill factor of the tables, 10 to 100 percent; pgbench_history has the server's default.
    pub fillfactor: u32,
    /// Persistence of all tables; with partitions, only of these, as in pgbench 18.
    pub persistence: Persistence,
    pub partitions: Option<Partitions>,
    /// Tablespace of the tables; the database's default when None.
    pub tablespace: Option<String>,
    /// Tablespace of the primary keys; the database's default when None.
    pub index_tablespace: Option<String>,
}

impl Schema {
    /// CREATE TABLE statements, without those of partitions.
    pub fn create_tables(&self) -> Vec<String> {
        let aid = if self.scale >= BIGINT_FROM_SCALE { "bigint" } else { "int" };
        // a partitioned table contains no rows: it has no fill factor, and cannot be unlogged
        let unlogged = match self.partitions {
            None => self.unlogged_keyword(),
            Some(_) => "",
        };
        let filled = format!(" with (fillfactor={})", self.fillfactor);
        let accounts = match self.partitions {
            None => filled.clone(),
            Some(partitions) => format!(" partition by {} (aid)", partitions.method.name()),
        };
        let tablespace = clause(" tablespace ", self.tablespace.as_deref());
        let create = |table: &str, columns: &str, storage: &str| {
            format!("create{unlogged} table {table}({columns}){storage}{tablespace}")
        };
        vec![
            create(
                "pgbench_history",
                &format!("tid int,bid int,aid {aid},delta int,mtime timestamp,filler char(22)"),
                "",
            ),
            create("pgbench_tellers", "tid int not null,bid int,tbalance int,filler char(84)", &filled),
            create("pgbench_accounts", &format!("aid {aid} not null,bid int,abalance int,filler char(84)"), &accounts),
            create("pgbench_branches", "bid int not null,bbalance int,filler char(88)", &filled),
        ]
    }

    /// CREATE TABLE statements of the partitions, if there are any. They are in the tablespace of pgbench_accounts.
    pub fn create_partitions(&self) -> impl Iterator<Item = String> {
        self.partitions.into_iter().flat_map(move |partitions| {
            (1..=partitions.count).map(move |number| self.create_partition(partitions, number))
        })
    }

    /// The statement for partition `number`, counted from 1.
    fn create_partition(&self, partitions: Partitions, number: u32) -> String {
        let Partitions { method, count } = partitions;
        let values = match method {
            Method::Range => self.range(count, number),
            Method::Hash => format!("with (modulus {count}, remainder {})", number - 1),
        };
        format!(
            "create{} table pgbench_accounts_{number} partition of pgbench_accounts for values {values} \
             with (fillfactor={})",
            self.unlogged_keyword(),
            self.fillfactor,
        )
    }

    /// Bounds of partition `number`, from 1. The first and the last are open: every number has a partition.
    fn range(&self, count: u32, number: u32) -> String {
        let rows = self.partition_rows(count);
        let bound = |partitions: u32| (u64::from(partitions) * rows + 1).to_string();
        let from = match number {
            1 => "minvalue".to_owned(),
            _ => bound(number - 1),
        };
        let to = if number == count { "maxvalue".to_owned() } else { bound(number) };
        format!("from ({from}) to ({to})")
    }

    /// Rows of each of `count` partitions; the last may have fewer.
    pub(super) fn partition_rows(&self, count: u32) -> u64 {
        (u64::from(self.scale) * ACCOUNTS).div_ceil(u64::from(count))
    }

    /// The primary key of partition `number` alone, named as the server would name it.
    pub(super) fn partition_key(&self, number: u32) -> String {
        let tablespace = clause(" using index tablespace ", self.index_tablespace.as_deref());
        format!("alter table pgbench_accounts_{number} add primary key (aid){tablespace}")
    }

    pub fn primary_keys(&self) -> Vec<String> {
        let tablespace = clause(" using index tablespace ", self.index_tablespace.as_deref());
        let key = |table: Table| match table {
            Table::Branches => "bid",
            Table::Tellers => "tid",
            Table::Accounts => "aid",
        };
        let statement =
            |table: Table| format!("alter table {} add primary key ({}){tablespace}", table.name(), key(table));
        Table::ALL.map(statement).into()
    }

    fn unlogged_keyword(&self) -> &'static str {
        match self.persistence {
            Persistence::Logged => "",
            Persistence::Unlogged => " unlogged",
        }
    }
}

/// `words` and the quoted name, or nothing.
fn clause(words: &str, name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("{words}\"{}\"", name.replace('"', "\"\"")))
}

#[cfg(test)]
impl Schema {
    /// A schema without other options.
    pub(crate) fn plain(scale: u32, partitions: Option<Partitions>) -> Self {
        Self {
            scale,
            fillfactor: 100,
            persistence: Persistence::Logged,
            partitions,
            tablespace: None,
            index_tablespace: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(scale: u32, method: Method, count: u32) -> Vec<String> {
        let schema = Schema::plain(scale, Some(Partitions { method, count }));
        schema
            .create_partitions()
            .map(|sql| {
                let (_, values) = sql.split_once(" for values ").expect("values");
                values.to_owned()
            })
            .collect()
    }

    #[test]
    fn account_numbers_grow_with_the_scale_and_tablespaces_are_quoted() {
        for (scale, column) in [(19_999, "aid int"), (20_000, "aid bigint")] {
            let tables = Schema::plain(scale, None).create_tables();
            assert!(tables[0].contains(&format!(",{column},")), "{tables:?}");
            assert!(tables[2].contains(&format!("({column} not null")));
        }
        // names of tablespaces are quoted
        let mut schema = Schema::plain(1, None);
        schema.tablespace = Some("the \"fast\" one".to_owned());
        schema.index_tablespace = Some("x".to_owned());
        assert!(schema.create_tables().iter().all(|sql| sql.ends_with(" tablespace \"the \"\"fast\"\" one\"")));
        let keys = schema.primary_keys();
        assert_eq!(keys[2], "alter table pgbench_accounts add primary key (aid) using index tablespace \"x\"");
    }

    #[test]
    fn ranges_are_open_at_both_ends_and_remainders_begin_at_0() {
        let range = |from: &str, to: &str| format!("from ({from}) to ({to}) with (fillfactor=100)");
        let three = [range("minvalue", "33335"), range("33335", "66669"), range("66669", "maxvalue")];
        assert_eq!(values(1, Method::Range, 3), three);
        assert_eq!(values(7, Method::Range, 1), [range("minvalue", "maxvalue")]);
        assert_eq!(values(50_000, Method::Range, 2)[1], range("2500000001", "maxvalue"));
        let remainders = [0, 1].map(|number| format!("with (modulus 2, remainder {number}) with (fillfactor=100)"));
        assert_eq!(values(1, Method::Hash, 2), remainders);
    }

    #[test]
    fn only_partitions_are_unlogged_when_there_are_some() {
        let mut schema = Schema::plain(1, None);
        schema.persistence = Persistence::Unlogged;
        let unlogged = |sql: &String| sql.starts_with("create unlogged table ");
        assert!(schema.create_tables().iter().all(unlogged));
        schema.partitions = Some(Partitions { method: Method::Hash, count: 4 });
        assert!(!schema.create_tables().iter().any(unlogged));
        let partitions: Vec<_> = schema.create_partitions().collect();
        assert!(partitions.len() == 4 && partitions.iter().all(unlogged));
        assert!(schema.create_tables()[2].ends_with(" partition by hash (aid)"));
    }
}
