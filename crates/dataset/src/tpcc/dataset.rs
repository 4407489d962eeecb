//! TPC-C's tables as a dataset.

use std::ops::Range;

use super::row_writer::RowWriter;
use super::{ITEMS, TableName, Tpcc, routines, schema};
use crate::dataset::{Dataset, Description, Manner, Part, RowSource, Stages, Table};

impl Dataset for Tpcc {
    fn description(&self) -> Description {
        let mut options = vec![
            ("warehouses", self.warehouses.to_string()),
            ("tpcc-profile", self.profile.name().to_owned()),
            ("random-seed", self.seed.to_string()),
        ];
        options.extend(self.order_line_partitions.map(|count| ("order-line-partitions", count.to_string())));
        Description {
            name: "tpcc",
            version: super::VERSION,
            scale: self.warehouses.into(),
            seed: Some(self.seed),
            options,
            is_unlogged: false,
        }
    }

    fn tables(&self) -> Vec<Table> {
        TableName::ALL.map(|table| self.table(table)).into()
    }

    fn rows(&self, table: usize, units: Range<u64>) -> Box<dyn RowSource + '_> {
        Box::new(RowWriter::new(self, TableName::ALL[table], units))
    }

    fn drop_tables(&self) -> Vec<String> {
        let quietly = |sql: String| format!("set local client_min_messages = warning; {sql}");
        let drop = format!("drop table if exists {}", TableName::ALL.map(TableName::name).join(", "));
        vec![schema::guard(), quietly(drop), quietly(routines::drop())]
    }

    fn create_tables(&self) -> Vec<String> {
        let mut statements = schema::create_tables(self);
        statements.extend(routines::create(self.profile));
        statements
    }

    fn create_partitions(&self) -> Vec<String> {
        schema::create_partitions(self)
    }

    fn vacuum(&self, manner: Manner) -> Stages {
        schema::vacuum(self, manner)
    }

    fn primary_keys(&self, manner: Manner) -> Stages {
        schema::keys(self, manner)
    }
}

impl Tpcc {
    /// A unit is a row, except for order_line, where it is an order whose number of lines varies.
    fn table(&self, table: TableName) -> Table {
        let units = match table {
            TableName::OrderLine => TableName::Orders.rows_a_warehouse(),
            other => other.rows_a_warehouse(),
        };
        let units_a_warehouse = units.unwrap_or(0);
        let units = units.map_or(ITEMS, |units| units * u64::from(self.warehouses));
        let mut made = Table::of_rows(table.name(), units, 0);
        if table == TableName::OrderLine {
            made.exact = false;
            made.rows_a_unit = TableName::OrderLine.rows_a_warehouse().unwrap_or(0) / units_a_warehouse;
            if let Some(parts) = schema::partitions(self) {
                let part = |part: Part| Part {
                    units: part.units.start * units_a_warehouse..part.units.end * units_a_warehouse,
                    ..part
                };
                made.parts = parts.into_iter().map(part).collect();
            }
        }
        made
    }
}
