//! sysbench's oltp tables: `sbtest1` to `sbtestN`, as `oltp_common.lua` of sysbench 1.0 creates
//! them for PostgreSQL with its defaults.

mod row_writer;

use std::ops::Range;

use crate::dataset::{Dataset, Description, Manner, RowSource, Stages, Table, in_manner};
use row_writer::RowWriter;

/// sysbench's tables, which all have the same columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sbtest {
    /// How many tables, at least 1.
    pub tables: u32,
    /// Rows in each table, at least 1; ids have 32 bits.
    pub table_size: u32,
    /// Seed of the random values.
    pub seed: u64,
}

impl Sbtest {
    fn each(&self, statement: impl Fn(u32) -> String) -> Vec<String> {
        (1..=self.tables).map(statement).collect()
    }
}

impl Dataset for Sbtest {
    fn description(&self) -> Description {
        Description {
            name: "sbtest",
            version: 1,
            scale: self.table_size.into(),
            seed: Some(self.seed),
            options: vec![
                ("tables", self.tables.to_string()),
                ("table-size", self.table_size.to_string()),
                ("random-seed", self.seed.to_string()),
            ],
            is_unlogged: false,
        }
    }

    fn tables(&self) -> Vec<Table> {
        let table = |number| Table::of_rows(format!("sbtest{number}"), self.table_size.into(), 0);
        (1..=self.tables).map(table).collect()
    }

    fn rows(&self, table: usize, units: Range<u64>) -> Box<dyn RowSource + '_> {
        Box::new(RowWriter::new(self, table as u64, units))
    }

    fn drop_tables(&self) -> Vec<String> {
        self.each(|number| format!("drop table if exists sbtest{number}"))
    }

    fn create_tables(&self) -> Vec<String> {
        self.each(|number| {
            format!(
                "create table sbtest{number}(id serial, k integer default '0' not null, \
                 c char(120) default '' not null, pad char(60) default '' not null)"
            )
        })
    }

    /// sysbench draws ids from the sequences, which are after the last row then.
    fn after_rows(&self) -> Vec<String> {
        let size = self.table_size;
        self.each(|number| {
            format!("select pg_catalog.setval(pg_catalog.pg_get_serial_sequence('sbtest{number}', 'id'), {size})")
        })
    }

    fn primary_keys(&self, manner: Manner) -> Stages {
        // building both indexes of a table in parallel would wait for each other's lock
        let keys = self.each(|number| format!("alter table sbtest{number} add primary key (id)"));
        let others = self.each(|number| format!("create index k_{number} on sbtest{number}(k)"));
        [in_manner(manner, keys), in_manner(manner, others)].concat()
    }
}
